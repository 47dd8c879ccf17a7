// Ends a worker that somebody started by hand when a signal asks for it. One that is part of a whole job on a machine is told by
// the coordinator, which lets all workers end in the same iteration.
#pragma once

#include <mutex>
#include <optional>

#include "runtime/signals.h"
#include "runtime/worker_process.h"

namespace paceline::worker {

class EndBySignal {
 public:
  // Before any other thread is made.
  explicit EndBySignal(bool alone);
  // From now on the job is told, the first time; nullptr: not any more.
  void set_process(runtime::WorkerProcess* process);

 private:
  void on_signal();

  std::mutex mutex_;
  runtime::WorkerProcess* process_ = nullptr;
  std::optional<runtime::Signals> signals_;  // last: its thread uses the others
};

}  // namespace paceline::worker

// What a signal to a worker's process does: the first lets the job end after the iteration that it is in, wherever the signal came
// from. A worker that somebody started by hand ends with the job at once at the second one, and by itself as long as it has not
// joined; one that a launcher started leaves that to the process in which its coordinator is.
#pragma once

#include <mutex>

#include "runtime/signals.h"
#include "runtime/worker_process.h"

namespace paceline::worker {

class EndBySignal {
 public:
  // Before any other thread is made.
  explicit EndBySignal(bool alone);
  // From now on the job is told; nullptr: not any more.
  void set_process(runtime::WorkerProcess* process);

 private:
  void on_signal();

  const bool alone_;
  std::mutex mutex_;
  runtime::WorkerProcess* process_ = nullptr;
  bool asked_ = false;
  runtime::Signals signals_;  // last: its thread uses the others
};

}  // namespace paceline::worker

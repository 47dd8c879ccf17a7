#include "worker/end_by_signal.h"

#include <csignal>
#include <cstdio>

#include <unistd.h>

#include "base/error_line.h"

namespace paceline::worker {

EndBySignal::EndBySignal(bool alone) : alone_(alone), signals_({SIGINT, SIGTERM}, [this](int) { on_signal(); }) {}

void EndBySignal::set_process(runtime::WorkerProcess* process) {
  const std::lock_guard lock(mutex_);
  process_ = process;
  if (process_ != nullptr && asked_) process_->ask_to_end();  // while it joined
}

void EndBySignal::on_signal() {
  constexpr int kInterrupted = 130;
  const std::lock_guard lock(mutex_);
  const bool again = asked_;
  asked_ = true;
  if (process_ != nullptr && !again) return process_->ask_to_end();
  if (!alone_) return;
  if (process_ != nullptr) return process_->interrupt();
  std::fprintf(stderr, "%s\n", error_line(Status(ErrorKind::kCancelled, "interrupted by a signal")).c_str());
  _exit(kInterrupted);
}

}  // namespace paceline::worker

#include "worker/end_by_signal.h"

#include <csignal>
#include <cstdio>
#include <utility>

#include <unistd.h>

namespace paceline::worker {

EndBySignal::EndBySignal(bool alone) {
  if (alone) {
    signals_.emplace(std::initializer_list<int>{SIGINT, SIGTERM}, [this](int) { on_signal(); });
    return;
  }
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGTERM, SIG_IGN);
}

void EndBySignal::set_process(runtime::WorkerProcess* process) {
  const std::lock_guard lock(mutex_);
  process_ = process;
}

void EndBySignal::on_signal() {
  constexpr int kInterrupted = 130;
  const std::lock_guard lock(mutex_);
  if (process_ != nullptr) return std::exchange(process_, nullptr)->interrupt();
  std::fprintf(stderr, "paceline: error: interrupted by a signal\n");
  _exit(kInterrupted);
}

}  // namespace paceline::worker

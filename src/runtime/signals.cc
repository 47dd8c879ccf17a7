#include "runtime/signals.h"

#include <atomic>
#include <csignal>
#include <thread>

#include "base/check.h"

namespace paceline::runtime {

// A thread of its own reads the signals: it works with any loop, and signals are rare.
struct Signals::State {
  sigset_t mask{};
  int wake = SIGUSR2;  // ends the thread; one that anybody else sends is for nothing
  std::atomic<bool> ending = false;
  std::thread thread;
};

Signals::Signals(transport::Loop& loop, std::initializer_list<int> numbers, std::function<void(int)> on_signal)
    : Signals(numbers,
              [&loop, on_signal = std::move(on_signal)](int number) { loop.post([on_signal, number] { on_signal(number); }); }) {}

Signals::Signals(std::initializer_list<int> numbers, std::function<void(int)> on_signal) : state_(std::make_unique<State>()) {
  sigemptyset(&state_->mask);
  for (const int number : numbers) sigaddset(&state_->mask, number);
  sigaddset(&state_->mask, state_->wake);
  PACELINE_CHECK(pthread_sigmask(SIG_BLOCK, &state_->mask, nullptr) == 0, "cannot block signals");
  state_->thread = std::thread([state = state_.get(), on_signal = std::move(on_signal)] {
    for (;;) {
      int number = 0;
      if (sigwait(&state->mask, &number) != 0 || state->ending) return;
      if (number != state->wake) on_signal(number);
    }
  });
}

Signals::~Signals() {
  state_->ending = true;
  pthread_kill(state_->thread.native_handle(), state_->wake);
  state_->thread.join();
}

}  // namespace paceline::runtime

// Signals as events on a loop. One object per process.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>

#include "transport/transport.h"

namespace paceline::runtime {

class Signals {
 public:
  // As below, but calls on a thread of the object's own. Make it before any other thread, so that none takes the signals.
  Signals(std::initializer_list<int> numbers, std::function<void(int)> on_signal);
  // From now on each of the signals calls `on_signal(number)` on the loop instead of ending the process; two that come close
  // together may be told as one call each, never lost.
  Signals(transport::Loop& loop, std::initializer_list<int> numbers, std::function<void(int)> on_signal);
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace paceline::runtime

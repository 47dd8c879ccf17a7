// Time as an interface, so that tests and simulations move it by hand. Never wall-clock time.
#pragma once

#include "base/quantity.h"

namespace paceline {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;  // any thread; never goes back
};

// The machine's monotonic clock.
class SystemClock final : public Clock {
 public:
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
};

// Moves only when told to. One thread.
class ManualClock final : public Clock {
 public:
  TimePoint now() const override { return now_; }
  void advance(Duration by) { now_ += by; }
  void set(TimePoint to) { now_ = to; }

 private:
  TimePoint now_{};
};

}  // namespace paceline

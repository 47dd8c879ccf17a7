// For tests only: a loop that the test drives by hand.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "transport/transport.h"

namespace paceline::paramserver::testing {

// A loop without a thread: signals are served where they are raised, and time goes on by `tick` whenever somebody looks at it.
class HandLoop : public transport::Loop {
 public:
  TimePoint now() const override { return now_ += tick; }
  void run() override {}
  void stop() override {}
  void post(std::function<void()> work) override { work(); }
  std::unique_ptr<transport::Signal> make_signal(std::function<void()> on_raised) override {
    return std::make_unique<HandSignal>(std::move(on_raised));
  }
  TimerId run_after(Duration, std::function<void()> work) override {
    timers_[++last_timer_] = std::move(work);
    return last_timer_;
  }
  void cancel(TimerId timer) override { timers_.erase(timer); }

  void advance(Duration by) { now_ += by; }
  // All timers that run now, as if their time had come. Returns how many.
  std::size_t fire_timers() {
    const auto due = std::exchange(timers_, {});
    for (const auto& [timer, work] : due) work();
    return due.size();
  }
  Duration tick{};

 private:
  struct HandSignal final : transport::Signal {
    explicit HandSignal(std::function<void()> raised) : on_raised(std::move(raised)) {}
    void raise() override { on_raised(); }
    std::function<void()> on_raised;
  };
  std::map<TimerId, std::function<void()>> timers_;
  TimerId last_timer_ = 0;
  mutable TimePoint now_ =
      TimePoint{} - std::chrono::hours(10000);  // long past on the clock that condition variables wait by: they never really wait
};

}  // namespace paceline::paramserver::testing

#include "training/slowdown.h"

#include <gtest/gtest.h>

#include "training/precise_sleep.h"

namespace paceline::training {
namespace {

// Sleeping stands for computing here. Nothing is assumed about how late the machine wakes a thread.
TEST(Slowdown, StretchesWhatIsComputedAndNotWhatIsWaited) {
  const SystemClock clock;
  constexpr Duration kStep = std::chrono::milliseconds(2);
  Slowdown slowdown({{1, 0.25}, 0, 1}, Rank{1});
  slowdown.begin(1);
  TimePoint began = clock.now();
  sleep_until(began + kStep);
  slowdown.stretch();
  EXPECT_GE(clock.now() - began, 4 * kStep - std::chrono::microseconds(50));
  sleep_until(clock.now() + 20 * kStep);  // at a gate
  slowdown.resume();
  began = clock.now();
  slowdown.stretch();
  EXPECT_LT(clock.now() - began, 20 * kStep) << "the wait has not been stretched";
}

TEST(Slowdown, AMachineAtItsOwnSpeedIsLeftAlone) {
  const SystemClock clock;
  Slowdown slowdown({{1, 0.25}, 0, 1}, Rank{0});
  slowdown.begin(1);
  const TimePoint began = clock.now();
  sleep_until(began + std::chrono::milliseconds(300));
  slowdown.stretch();
  EXPECT_LT(clock.now() - began, std::chrono::milliseconds(600));
}

TEST(PreciseSleep, NeverEndsEarlyAndDoesNotWaitForThePast) {
  const SystemClock clock;
  want_precise_sleep();
  for (int i = 0; i < 20; ++i) {
    const TimePoint deadline = clock.now() + std::chrono::microseconds(i * 100);
    sleep_until(deadline);
    EXPECT_GE(clock.now(), deadline);
  }
  const TimePoint began = clock.now();
  sleep_until(began - std::chrono::seconds(1));
  EXPECT_LT(clock.now() - began, std::chrono::milliseconds(500));
}

}  // namespace
}  // namespace paceline::training

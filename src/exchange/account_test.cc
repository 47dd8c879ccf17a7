#include "exchange/account.h"

#include <random>

#include <gtest/gtest.h>

namespace paceline::exchange {
namespace {

TimePoint at(std::int64_t ms) { return TimePoint(std::chrono::milliseconds(ms)); }

TEST(BusyTime, CountsWhatIsUnderWayWhileNobodyWaits) {
  BusyTime busy;
  busy.begin(at(0));
  busy.begin(at(5));
  busy.end(at(8));
  busy.end(at(10));
  busy.begin(at(30));
  busy.exclude(at(6), at(40));  // 0 to 6 is left, and the second one has gone on since
  busy.end(at(45));
  EXPECT_EQ(busy.take(at(50)), std::chrono::milliseconds(6 + 5));
  EXPECT_EQ(busy.take(at(60)), Duration{});
}

TEST(BusyTime, GoesOnOverItsTaking) {
  BusyTime busy;
  busy.begin(at(0));
  EXPECT_EQ(busy.take(at(10)), std::chrono::milliseconds(10));
  busy.exclude(at(12), at(15));
  EXPECT_EQ(busy.take(at(20)), std::chrono::milliseconds(7));
}

// Beside every millisecond looked at by itself.
TEST(BusyTime, IsWhatCountingMillisecondsGives) {
  std::mt19937 random(7);
  const auto below = [&](int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); };
  for (int round = 0; round < 300; ++round) {
    BusyTime busy;
    int running = 0, waiting_since = -1;
    Duration expected{};
    for (int now = 0; now < 200; ++now) {
      if (below(4) == 0) running++, busy.begin(at(now));
      if (running > 0 && below(4) == 0) running--, busy.end(at(now));
      if (waiting_since < 0 && below(10) == 0) waiting_since = now;
      if (waiting_since >= 0 && below(5) == 0) busy.exclude(at(waiting_since), at(now)), waiting_since = -1;
      if (running > 0 && waiting_since < 0) expected += std::chrono::milliseconds(1);
    }
    if (waiting_since >= 0) busy.exclude(at(waiting_since), at(200));
    ASSERT_EQ(busy.take(at(200)), expected) << round;
  }
}

}  // namespace
}  // namespace paceline::exchange

#include "transport/sockets/handshake_allowance.h"

#include <gtest/gtest.h>

namespace paceline::transport {
namespace {

using std::chrono::milliseconds;

TEST(HandshakeAllowance, AFifthOfTheTimeMayBeTakenAndTheRestWaitsForTheNextWindow) {
  HandshakeAllowance allowance;
  const TimePoint start{std::chrono::hours(1)};
  EXPECT_EQ(allowance.wait(start), Duration{0});
  for (int step = 0; step < 19; ++step) {
    allowance.charge(milliseconds(1));
    EXPECT_EQ(allowance.wait(start + milliseconds(step)), Duration{0});
  }
  allowance.charge(milliseconds(1));
  EXPECT_EQ(allowance.wait(start + milliseconds(30)), milliseconds(70));
  EXPECT_EQ(allowance.wait(start + milliseconds(99)), milliseconds(1));
  EXPECT_EQ(allowance.wait(start + milliseconds(100)), Duration{0}) << "a new window";
  allowance.charge(milliseconds(500));
  EXPECT_EQ(allowance.wait(start + milliseconds(101)), milliseconds(99)) << "one long step takes no more than its window";
  EXPECT_EQ(allowance.wait(start + milliseconds(200)), Duration{0});
}

// Whatever a crowd asks for, in a second it gets a fifth, and at most a step more in each window.
TEST(HandshakeAllowance, ACrowdGetsItsShare) {
  HandshakeAllowance allowance;
  const Duration step = std::chrono::microseconds(700);
  Duration used{0};
  TimePoint now{};
  const TimePoint end = now + std::chrono::seconds(10);
  while (now < end) {
    if (const Duration wait = allowance.wait(now); wait > Duration{0}) {
      now += wait;
      continue;
    }
    allowance.charge(step);
    used += step;
    now += step;
  }
  EXPECT_GE(used, std::chrono::seconds(2) - milliseconds(20));
  EXPECT_LE(used, std::chrono::seconds(2) + 100 * step);
}

}  // namespace
}  // namespace paceline::transport

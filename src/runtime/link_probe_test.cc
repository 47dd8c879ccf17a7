#include "runtime/link_probe.h"

#include <gtest/gtest.h>

namespace paceline::runtime {
namespace {

// Plays the links: seconds for each message of so many bytes to a member.
template <typename Time>
std::optional<cost::LinkFit> measured(std::vector<session::PeerId> members, Time time,
                                      std::vector<session::PeerId>* asked = nullptr) {
  LinkProbe probe(std::move(members));
  TimePoint now{};
  EXPECT_FALSE(probe.on_delivered(now));  // nothing was sent
  while (const auto volley = probe.next(now)) {
    if (asked != nullptr) asked->push_back(volley->to);
    for (int i = 0; i < volley->messages; ++i) {
      now += from_seconds(time(volley->to, volley->size));
      EXPECT_EQ(probe.on_delivered(now), i + 1 == volley->messages);
    }
  }
  return probe.result();
}

TEST(LinkProbe, FindsStartUpAndRateOfTheSlowestLink) {
  const auto fit = measured({1, 2, 3}, [](session::PeerId to, Bytes size) {
    return 0.0001 + static_cast<double>(size.count) / (to == 2 ? 12.5e6 : 125e6);
  });
  ASSERT_TRUE(fit);
  EXPECT_NEAR(fit->start_up, 0.0001, 1e-6);
  EXPECT_NEAR(fit->bandwidth.value, 12.5e6, 1e5);
}

TEST(LinkProbe, AsksOnlyAFewMembers) {
  std::vector<session::PeerId> asked;
  ASSERT_TRUE(measured(
      {1, 2, 3, 4, 5, 6}, [](session::PeerId, Bytes size) { return 1e-5 + static_cast<double>(size.count) * 1e-9; }, &asked));
  EXPECT_EQ(asked.front(), 4U);
  EXPECT_EQ(asked.back(), 6U);
}

TEST(LinkProbe, SaysNothingWithoutMembers) {
  EXPECT_FALSE(measured({}, [](session::PeerId, Bytes) { return 1.0; }));
}

TEST(LinkProbe, WhereTimesDoNotGrowWithSizesTheLargestMessagesTellTheRate) {
  const auto fit = measured({1, 2}, [](session::PeerId to, Bytes size) {
    return to == 1 ? 3000.0 / static_cast<double>(size.count) : 1e-5 + static_cast<double>(size.count) / 1e9;
  });
  ASSERT_TRUE(fit);
  EXPECT_EQ(fit->residual, 1);
  EXPECT_EQ(fit->start_up, 0);
  // 262 144 bytes in 11.4 ms; the sizes before were so slow that the largest was not tried.
  EXPECT_NEAR(fit->bandwidth.value, 262'144.0 * 262'144.0 / 3000, 1e3) << "member 1 is slower than member 2's 1 GB/s";
}

// A shaper of 50 MB/s that lets a megabyte pass at the speed of the machine.
TEST(LinkProbe, ABurstThatPassesAtOnceMakesNoFastLink) {
  const auto fit = measured({1}, [](session::PeerId, Bytes size) {
    return 1e-6 + static_cast<double>(size.count) / (size < LinkProbe::kLargest ? 1e9 : 50e6);
  });
  ASSERT_TRUE(fit);
  EXPECT_EQ(fit->residual, 1);
  EXPECT_NEAR(fit->bandwidth.value, 50e6, 1e6);
}

}  // namespace
}  // namespace paceline::runtime

#include "collectives/exec/link_measurement.h"

#include <set>

#include <gtest/gtest.h>

namespace paceline::collectives {
namespace {

TEST(LinkMeasurement, EveryPairMeetsOnceAndNobodyMeetsTwoInARound) {
  for (int ranks = 1; ranks <= kMostRanksMeasured; ++ranks) {
    std::set<std::pair<int, int>> met;
    for (int round = 0; round < pairing_rounds(ranks); ++round) {
      for (int rank = 0; rank < ranks; ++rank) {
        const auto partner = partner_of(rank, ranks, round);
        if (!partner) continue;
        ASSERT_NE(*partner, rank);
        ASSERT_EQ(partner_of(*partner, ranks, round), rank) << ranks << " ranks, round " << round;
        ASSERT_TRUE(met.insert({rank, *partner}).second) << ranks << " ranks: " << rank << " and " << *partner;
      }
    }
    EXPECT_EQ(met.size(), static_cast<std::size_t>(ranks * (ranks - 1)));
    // Each round has a group number of its own, and one is left for all ranks.
    EXPECT_LT(pairing_rounds(ranks), kMostRanksMeasured);
  }
}

TEST(LinkMeasurement, SlowLinksAreMeasuredWithLessButAlwaysWithMoreThanAShaperLetsPassAtOnce) {
  double before = 1e9;
  for (const double seconds : {1e-4, 0.01, 0.1, 1.0}) {
    const LinkTrial trial = link_trial_for(seconds);
    const double moved = static_cast<double>(trial.size.count) * (trial.repetitions + 1);
    EXPECT_LT(moved, before);
    EXPECT_GE(trial.size.count, 98'304);
    before = moved;
  }
}

}  // namespace
}  // namespace paceline::collectives

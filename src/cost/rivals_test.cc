#include "cost/rivals.h"

#include <vector>

#include <gtest/gtest.h>

namespace paceline::cost {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

std::vector<LayerLoad> three_layers() { return {{Bytes{20 * kMiB}, 1, 2}, {Bytes{30 * kMiB}, 1, 2}, {Bytes{2 * kMiB}, 1, 2}}; }

// 1 MiB a second, so that sizes in MiB are seconds.
constexpr RivalLink kSlow{{static_cast<double>(kMiB)}, 0};

TEST(Rivals, OneNodeOnlyComputes) {
  EXPECT_DOUBLE_EQ(bucketed_allreduce(three_layers(), 1, kSlow), 9);
  EXPECT_DOUBLE_EQ(split_allreduce(three_layers(), 1, kSlow), 9);
  EXPECT_DOUBLE_EQ(bucketed_allreduce({}, 4, kSlow), 0);
  EXPECT_DOUBLE_EQ(split_allreduce({}, 4, kSlow), 0);
}

// Two nodes: half of a bucket each way, twice. The first bucket (2 MiB) leaves at 3 + 2 and is through at 7, the second (30 MiB)
// leaves at 7 and is through at 37, the last (20 MiB, less than a bucket) at 57.
TEST(Rivals, BucketsLeaveWhenTheyAreFullAndOneAfterTheOther) {
  EXPECT_DOUBLE_EQ(bucketed_allreduce(three_layers(), 2, kSlow), 57);
  // With a start-up of a second for each of the 2 * (2 - 1) messages of a bucket.
  EXPECT_DOUBLE_EQ(bucketed_allreduce(three_layers(), 2, {kSlow.rate, 1}), 57 + 6);
}

TEST(Rivals, WhatIsHiddenBehindComputingCostsNothing) {
  constexpr RivalLink kFast{{1000.0 * kMiB}, 0};
  EXPECT_NEAR(bucketed_allreduce(three_layers(), 2, kFast), 9 + 0.02, 1e-9) << "the first layer's gradient comes last";
  EXPECT_NEAR(split_allreduce(three_layers(), 2, kFast), 9 + 0.02, 1e-9) << "its reduction and its gathering";
}

// Reduced: the last layer from 2 to 3, the middle one from 4 to 19, the first from 19 to 29; gathered by 39, 54, 55.
TEST(Rivals, SplitHidesTheGatheringBehindTheForwardPass) { EXPECT_DOUBLE_EQ(split_allreduce(three_layers(), 2, kSlow), 56); }

TEST(Rivals, NoneIsFasterThanTheLowerBound) {
  for (const std::int64_t nodes : {2, 3, 8, 64}) {
    for (const double rate : {1e5, 1e6, 1e7, 1e9}) {
      const double bound = iteration_lower_bound(three_layers(), nodes, {rate}).lower_bound;
      EXPECT_GE(bucketed_allreduce(three_layers(), nodes, {{rate}, 0}), bound * (1 - 1e-12));
      EXPECT_GE(split_allreduce(three_layers(), nodes, {{rate}, 0}), bound * (1 - 1e-12));
    }
  }
}

}  // namespace
}  // namespace paceline::cost

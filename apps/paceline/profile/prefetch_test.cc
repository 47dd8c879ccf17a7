#include "paceline/profile/prefetch.h"

#include <gtest/gtest.h>

namespace paceline::cli {
namespace {

TEST(Prefetch, DeliversFasterThanComputingConsumesAsFarAsThereAreCores) {
  EXPECT_EQ(prefetch_for(0.001, 0.1, 4).threads, 1);
  EXPECT_EQ(prefetch_for(0.001, 0.1, 4).depth, 2);
  EXPECT_EQ(prefetch_for(0.2, 0.1, 8).threads, 3);  // 2.4
  EXPECT_EQ(prefetch_for(5, 0.1, 4).threads, 4);
  EXPECT_EQ(prefetch_for(1, 0, 2).threads, 2);
  for (double load = 0.01; load < 1; load += 0.013) {
    const Prefetch chosen = prefetch_for(load, 0.1, 64);
    EXPECT_LT(load / chosen.threads, 0.1) << load;
    EXPECT_EQ(chosen.depth, chosen.threads + 1);
  }
}

}  // namespace
}  // namespace paceline::cli

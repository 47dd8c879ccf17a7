#include "scheduling/slice_size.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace paceline::scheduling {
namespace {

TEST(SliceSize, IsTheSquareRootBetweenTheLimits) {
  // 2 * 3/4 * 1e8 bytes * 1e-4 s * 125e6 bytes/s / 4 = 4.6875e11; its root is 684 653.2 bytes.
  const Bytes slice = best_slice({4, Bytes{100'000'000}, 1e-4, {125e6}});
  EXPECT_EQ(slice.count, 684'652);
}

TEST(SliceSize, NeverLeavesTheLimitsAndIsAWholeNumberOfParameters) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> exponent(-9, 12);
    const SliceCosts costs{static_cast<std::int64_t>(2 + random() % 70),
                           Bytes{static_cast<std::int64_t>(random() % 1'000'000'000)},
                           std::pow(10, exponent(random) / 2 - 4),
                           {std::pow(10, exponent(random))}};
    const Bytes slice = best_slice(costs);
    ASSERT_GE(slice.count, 200'000) << "seed " << seed;
    ASSERT_LE(slice.count, 8'000'000) << "seed " << seed;
    ASSERT_EQ(slice.count % 4, 0) << "seed " << seed;
    const double n = static_cast<double>(costs.nodes);
    const double root = std::sqrt(2 * (n - 1) / n * static_cast<double>(costs.model.count) * costs.start_up * costs.link.value / 4);
    if (root > 200'000 && root < 8'000'000) {
      ASSERT_NEAR(static_cast<double>(slice.count), root, 2.01) << "seed " << seed;
    }
  }
}

TEST(SliceSize, OneNodeTakesTheUpperLimit) { EXPECT_EQ(best_slice({1, Bytes{100}, 0, {1}}).count, 8'000'000); }
TEST(SliceSize, FreeStartUpTakesTheLowerLimit) { EXPECT_EQ(best_slice({8, Bytes{1'000'000'000}, 0, {1e9}}).count, 200'000); }
TEST(SliceSize, ExtremeLinksDoNotOverflow) {
  EXPECT_EQ(best_slice({8, Bytes{1'000'000'000'000'000}, 1e300, {1e300}}).count, 8'000'000);
  EXPECT_EQ(best_slice({8, Bytes{0}, 1e300, {1e300}}).count, 200'000);
}

TEST(SliceSize, AScaledReplayScalesTheLimits) {
  EXPECT_EQ(best_slice({1, Bytes{100}, 0, {1}}, {Bytes{200}, Bytes{8'000}}).count, 8'000);
  EXPECT_EQ(best_slice({4, Bytes{100}, 0, {1}}, {Bytes{2}, Bytes{3}}).count, 4);  // never less than one parameter
}

}  // namespace
}  // namespace paceline::scheduling

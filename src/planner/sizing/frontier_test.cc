#include "planner/sizing/frontier.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace paceline::planner {
namespace {

std::int64_t whole(std::mt19937_64& random, std::int64_t least, std::int64_t most) {
  return std::uniform_int_distribution<std::int64_t>(least, most)(random);
}

// Ascending in memory, descending in time, as best_below requires.
Options random_options(std::mt19937_64& random) {
  Options options(static_cast<std::size_t>(whole(random, 1, 5)));
  for (auto& layer : options) {
    const std::int64_t count = whole(random, 1, 5);
    double time = static_cast<double>(whole(random, 30, 40));
    long double memory = 0;
    for (std::int64_t l = 0; l < count; ++l) {
      layer.push_back({l, time, memory});
      time -= static_cast<double>(whole(random, 1, 6));
      memory += static_cast<long double>(whole(random, 1, 9));
    }
  }
  return options;
}

struct Cost {
  double time = 0;
  long double memory = 0;
};

Cost cost_of(const Options& options, const std::vector<std::size_t>& picks) {
  Cost cost;
  for (std::size_t k = 0; k < options.size(); ++k) {
    cost.time += options[k][picks[k]].time;
    cost.memory += options[k][picks[k]].memory;
  }
  return cost;
}

double least_time_of_all(const Options& options, long double bound) {
  double best = 1e300;
  std::vector<std::size_t> picks(options.size(), 0);
  for (;;) {
    const Cost cost = cost_of(options, picks);
    if (cost.memory <= bound) best = std::min(best, cost.time);
    std::size_t k = 0;
    while (k < picks.size() && ++picks[k] == options[k].size()) picks[k++] = 0;
    if (k == picks.size()) return best;
  }
}

TEST(BestBelow, FindsTheOptimumOfAllChoicesOrSaysThatNoneIsBetter) {
  for (std::uint64_t seed = 0; seed < 5'000; ++seed) {
    std::mt19937_64 random(seed);
    const Options options = random_options(random);
    const auto bound = static_cast<long double>(whole(random, 0, 60));
    const double best = least_time_of_all(options, bound);
    ASSERT_LE(relaxed_time(options, bound), best * (1 + 1e-12)) << "seed " << seed;

    const FrontierResult none = best_below(options, bound, best);
    EXPECT_TRUE(none.exact);
    ASSERT_FALSE(none.picks) << "seed " << seed;
    const FrontierResult found = best_below(options, bound, best + 0.5);
    ASSERT_TRUE(found.picks) << "seed " << seed;
    ASSERT_EQ(cost_of(options, *found.picks).time, best) << "seed " << seed;
    ASSERT_LE(cost_of(options, *found.picks).memory, bound) << "seed " << seed;
  }
}

TEST(RelaxedTime, MixesTwoAlgorithmsOfOneLayer) {
  // Layer 0 saves 1 s per byte first, then 0.5 s; layer 1 0.75 s. Of 5 bytes: 2 * 1, 2 * 0.75, 1 * 0.5.
  const Options options = {{{0, 10, 0}, {1, 8, 2}, {2, 7, 4}}, {{0, 9, 0}, {1, 7.5, 2}}};
  EXPECT_DOUBLE_EQ(relaxed_time(options, 5), 19 - 2 - 1.5 - 0.5);
  EXPECT_DOUBLE_EQ(relaxed_time(options, 0), 19);
  EXPECT_DOUBLE_EQ(relaxed_time(options, 100), 14.5);
}

TEST(RelaxedTime, LeavesOutAnAlgorithmAboveTheHull) {
  const Options options = {{{0, 10, 0}, {1, 9.5, 2}, {2, 6, 4}}};
  EXPECT_DOUBLE_EQ(relaxed_time(options, 2), 8);
}

}  // namespace
}  // namespace paceline::planner

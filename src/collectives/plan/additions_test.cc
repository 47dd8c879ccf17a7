#include "collectives/plan/additions.h"

#include <numeric>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collectives/plan/plan_player.h"

namespace paceline::collectives {
namespace {

using ::testing::Each;

float sum_of(const std::vector<std::vector<float>>& numbers, std::size_t element, const Additions& additions) {
  std::vector<float> held;
  for (const auto& of_rank : numbers) held.push_back(of_rank[element]);
  for (const auto& [to, from] : additions) held[static_cast<std::size_t>(to)] += held[static_cast<std::size_t>(from)];
  return held[static_cast<std::size_t>(additions.empty() ? 0 : additions.back().to)];
}

// Numbers of very unlike sizes, so that any other order gives other bits somewhere.
std::vector<std::vector<float>> numbers_of(int ranks, std::int64_t elements, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> exponent(-12, 12), mantissa(-1, 1);
  std::vector<std::vector<float>> numbers(static_cast<std::size_t>(ranks));
  for (auto& of_rank : numbers)
    for (std::int64_t i = 0; i < elements; ++i) of_rank.push_back(std::ldexp(mantissa(random), static_cast<int>(exponent(random))));
  return numbers;
}

// The twin is the plan itself, played on the numbers, with blocks of several elements and messages shorter than the ranks are many.
TEST(Additions, GiveTheBitsOfThePlanWhateverTheMessage) {
  unsigned seed = 0;
  for (const Operation operation : {Operation::kReduce, Operation::kAllreduce}) {
    for (const Algorithm algorithm : algorithms_for(operation)) {
      for (int ranks = 1; ranks <= 9; ++ranks) {
        for (const int root : {0, ranks - 1}) {
          if (operation == Operation::kAllreduce && root > 0) continue;
          const auto by_part = additions_by_part({operation, algorithm, ranks, 0, 1, root});
          ASSERT_EQ(by_part.size(), static_cast<std::size_t>(ranks));
          for (const std::int64_t elements : {1, 5, 8, 31, 64}) {
            const auto plan = make_plan({operation, algorithm, ranks, elements, 3, root});
            ASSERT_TRUE(plan.ok());
            const auto numbers = numbers_of(ranks, elements, ++seed);
            PlanPlayer<float> player(*plan, numbers, 0);
            std::vector<int> order(static_cast<std::size_t>(ranks));
            std::iota(order.begin(), order.end(), 0);
            ASSERT_TRUE(player.play(order).ok());
            for (int part = 0; part < ranks; ++part) {
              const Range range = part_of(elements, ranks, part);
              for (std::int64_t i = range.first; i < range.first + range.count; ++i) {
                const auto element = static_cast<std::size_t>(i);
                ASSERT_EQ(sum_of(numbers, element, by_part[static_cast<std::size_t>(part)]), player.buffer(root)[element])
                    << to_string(operation) << " " << to_string(algorithm) << ", " << ranks << " ranks to " << root << ", element "
                    << i << " of " << elements << ", seed " << seed;
              }
            }
          }
        }
      }
    }
  }
}

TEST(Additions, PipelineAndDirectAddEveryPartInRankOrder) {
  const auto all_in_order = [](const PlanRequest& request) {
    const auto numbers = numbers_of(request.ranks, 1, 7);
    for (const Additions& additions : additions_by_part(request)) {
      if (sum_of(numbers, 0, additions) != sum_of(numbers, 0, in_rank_order(request.ranks))) return false;
    }
    return true;
  };
  EXPECT_TRUE(all_in_order({Operation::kAllreduce, Algorithm::kDirect, 6}));
  EXPECT_TRUE(all_in_order({Operation::kAllreduce, Algorithm::kLinearPipeline, 6}));
  EXPECT_TRUE(all_in_order({Operation::kReduce, Algorithm::kLinearPipeline, 6, 0, 1, 5}));
  EXPECT_FALSE(all_in_order({Operation::kAllreduce, Algorithm::kRing, 6}));
}

TEST(Additions, OneTreeAddsAllPartsAlikeAndARingEachInItsOwnOrder) {
  const auto tree = additions_by_part({Operation::kAllreduce, Algorithm::kMinimumSpanningTree, 5});
  EXPECT_THAT(tree, Each(tree.front()));
  const auto ring = additions_by_part({Operation::kAllreduce, Algorithm::kRing, 3});
  EXPECT_NE(ring[0], ring[1]);
  EXPECT_NE(ring[1], ring[2]);
}

}  // namespace
}  // namespace paceline::collectives

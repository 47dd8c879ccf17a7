#include "scheduling/ingress_queue.h"

#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace paceline::scheduling {
namespace {

std::vector<int> all_of(IngressQueue<int>& queue) {
  std::vector<int> items;
  while (const auto item = queue.take()) items.push_back(*item);
  return items;
}

TEST(IngressQueue, WorksOffTheLowestLayerFirstAndWithinOneWhatCameFirst) {
  IngressQueue<int> queue(Order::kByLayer);
  for (const auto& [layer, item] : std::vector<std::pair<int, int>>{{3, 0}, {1, 1}, {2, 2}, {1, 3}})
    queue.on_arrived({layer}, item);
  EXPECT_EQ(queue.waiting(), 4U);
  EXPECT_EQ(all_of(queue), (std::vector<int>{1, 3, 2, 0}));
  EXPECT_EQ(queue.reorderings(), 3U) << "item 0 was there before the three";
  queue.on_arrived({5}, 9);
  EXPECT_EQ(all_of(queue), std::vector<int>{9});
  EXPECT_EQ(queue.reorderings(), 3U) << "a queue of one orders nothing";
}

TEST(IngressQueue, FirstComeFirstServedReordersNothing) {
  IngressQueue<int> queue(Order::kFirstInFirstOut);
  for (int item = 0; item < 5; ++item) queue.on_arrived({9 - item}, item);
  EXPECT_EQ(all_of(queue), (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_EQ(queue.reorderings(), 0U);
}

TEST(IngressQueue, DecidesAndCountsAsAFullSearchDoes) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    std::mt19937_64 random(seed);
    IngressQueue<int> queue(Order::kByLayer);
    std::vector<std::pair<int, int>> twin;  // layer, item; in the order of arrival
    std::uint64_t reorderings = 0;
    for (int step = 0; step < 300; ++step) {
      if (random() % 5 < 3) {
        twin.emplace_back(static_cast<int>(random() % 4), step);
        queue.on_arrived({twin.back().first}, step);
        continue;
      }
      const auto got = queue.take();
      ASSERT_EQ(got.has_value(), !twin.empty()) << "seed " << seed;
      if (!got) continue;
      const auto first = std::min_element(twin.begin(), twin.end());
      ASSERT_EQ(*got, first->second) << "seed " << seed << " step " << step;
      if (first != twin.begin()) ++reorderings;
      twin.erase(first);
      ASSERT_EQ(queue.reorderings(), reorderings) << "seed " << seed << " step " << step;
    }
  }
}

}  // namespace
}  // namespace paceline::scheduling

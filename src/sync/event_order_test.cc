#include "sync/event_order.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <tuple>

#include <gtest/gtest.h>

namespace paceline::sync {
namespace {

using Event = std::tuple<double, std::uint32_t, std::int64_t>;

std::vector<Event> sorted_plainly(const std::vector<std::vector<double>>& rows) {
  std::vector<Event> events;
  for (std::uint32_t p = 0; p < rows.size(); ++p) {
    for (std::size_t i = 0; i < rows[p].size(); ++i) events.emplace_back(rows[p][i], p, static_cast<std::int64_t>(i) + 1);
  }
  std::ranges::sort(events);
  return events;
}

// Also counts the largest stretch.
std::vector<Event> in_order(const EndTimes& ends, std::size_t& largest) {
  std::vector<Event> events;
  EventOrder order(ends);
  for (auto* stretch = &order.next_stretch(); !stretch->empty(); stretch = &order.next_stretch()) {
    largest = std::max(largest, stretch->size());
    for (const auto& [time, worker, iteration] : *stretch) events.emplace_back(time, worker, iteration);
  }
  return events;
}

TEST(EventOrder, IsThatOfSortingEverythingInLittleMemory) {
  std::mt19937_64 random(7);
  const auto below = [&](std::uint64_t limit) { return random() % limit; };
  for (int round = 0; round < 3'000; ++round) {
    std::vector<std::vector<double>> rows(1 + below(12));
    // Mixed, few different times, one after the other, all over the range of numbers.
    const std::uint64_t kind = below(4);
    for (std::size_t p = 0; p < rows.size(); ++p) {
      const std::size_t count = 1 + below(80);
      for (std::size_t i = 0; i < count; ++i) {
        const double share = static_cast<double>(below(1'000'000)) / 1e6;
        rows[p].push_back(kind == 0   ? share
                          : kind == 1 ? static_cast<double>(below(5)) - 2
                          : kind == 2 ? static_cast<double>(p) + share
                                      : std::pow(10.0, 600 * share - 300) * (below(2) == 0 ? 1 : -1));
      }
      std::ranges::sort(rows[p]);
    }
    std::size_t largest = 0;
    ASSERT_EQ(in_order(EndTimes::from_rows(rows).value(), largest), sorted_plainly(rows)) << "round " << round;
    ASSERT_LE(largest, 8 * rows.size());
  }
}

TEST(EventOrder, WorkersOfVeryDifferentPaceAreMerged) {
  std::vector<std::vector<double>> rows(3);
  for (int i = 1; i <= 1000; ++i) {
    rows[0].push_back(i);
    rows[1].push_back(1000.0 * i);
    rows[2].push_back(1e-3 * i);
  }
  std::size_t largest = 0;
  EXPECT_EQ(in_order(EndTimes::predicted({0, 0, 0}, {1, 1000, 1e-3}, 1000).value(), largest).size(), 3000U);
  EXPECT_EQ(in_order(EndTimes::from_rows(rows).value(), largest), sorted_plainly(rows));
}

}  // namespace
}  // namespace paceline::sync

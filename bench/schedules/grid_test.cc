#include "bench/schedules/grid.h"

#include <set>

#include <gtest/gtest.h>

namespace paceline::bench {
namespace {

GridOptions two_by_two() {
  return {.models = {"a", "b"},
          .stands_for = {1e9, 20e9},
          .hosts = {2, 4},
          .contestants = {"p3", "tuned", "ddp"},
          .slices = {"25000"},
          .turns = 3};
}

TEST(Grid, HasEveryCombinationOnceAndEveryKeyOnce) {
  const auto cells = grid(two_by_two());
  EXPECT_EQ(cells.size(), 2U * 2 * 2 * 4 * 3);
  std::set<std::string> keys;
  for (const Cell& cell : cells) EXPECT_TRUE(keys.insert(cell.key()).second) << cell.key();
}

TEST(Grid, EachTurnBeginsWithAnotherContestant) {
  const auto cells = grid(two_by_two());
  EXPECT_EQ(cells[0].name(), "p3");
  EXPECT_EQ(cells[4].name(), "tuned");
  EXPECT_EQ(cells[8].name(), "ddp");
  EXPECT_EQ(cells[3].name(), "p3 --slice 25000");
}

TEST(Grid, NoLinkIsFasterThanOneGigabit) {
  for (const Cell& cell : grid(two_by_two())) EXPECT_LE(cell.link().value, 125e6) << cell.key();
  EXPECT_EQ(scale_for(10e9), 10);
  EXPECT_EQ(scale_for(20e9), 20);
}

TEST(Grid, SlowCellsHaveFewerIterations) {
  EXPECT_EQ(iterations_for(7.0, 15), 6);
  EXPECT_EQ(iterations_for(0.5, 15), 30);
  EXPECT_EQ(iterations_for(0.0, 15), 60);
}

}  // namespace
}  // namespace paceline::bench

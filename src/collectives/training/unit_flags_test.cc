#include "collectives/training/unit_flags.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

namespace paceline::collectives {
namespace {

// One unit of three tensors.
scheduling::UnitPlan plan() {
  scheduling::Cut cut = scheduling::whole_tensors();
  cut.merge = 100;
  return *scheduling::make_unit_plan(std::vector<scheduling::TensorExtent>{{4, Layer{0}}, {2, Layer{0}}, {3, Layer{1}}}, cut, 1);
}

TEST(UnitFlags, SayWhoUsedAPartAndTheLowestRankThatHasNoNumberWhateverTheOrderOfTheSum) {
  const scheduling::UnitPlan units = plan();
  const scheduling::Unit& unit = units.units[0];
  ASSERT_EQ(unit.parts, 3U);
  for (const std::int32_t ranks : {1, 24, 25, 100}) {
    const UnitFlags flags(ranks, true);
    const auto count = static_cast<std::size_t>(flags.staged_elements(unit));
    std::mt19937 random(static_cast<unsigned>(ranks));
    for (std::int32_t first = 0; first < ranks; first += 1 + ranks / 7) {
      std::vector<std::int32_t> order(static_cast<std::size_t>(ranks));
      std::iota(order.begin(), order.end(), 0);
      std::ranges::shuffle(order, random);
      std::vector<float> sum(count);
      for (const std::int32_t rank : order) {
        std::vector<float> staged(count, 7.0F);
        // All from `first` on have no number in part 1; nobody uses part 2, whatever stands there; part 0 is sound.
        staged[6] = NAN;
        if (rank >= first) staged[5] = INFINITY;
        flags.write(units, 0, 0b100, Rank{rank}, staged);
        EXPECT_EQ(staged[6], 0);
        for (std::size_t i = 0; i < count; ++i) sum[i] += staged[i];
      }
      EXPECT_EQ(flags.non_finite(unit, 0, sum), Rank{-1});
      EXPECT_EQ(flags.non_finite(unit, 1, sum), Rank{first}) << ranks << " ranks";
      EXPECT_EQ(flags.non_finite(unit, 2, sum), Rank{-1});
      EXPECT_TRUE(UnitFlags::used(unit, 0, sum));
      EXPECT_FALSE(UnitFlags::used(unit, 2, sum));
    }
  }
}

TEST(UnitFlags, CostANumberForEachPartWhereNobodyAsksForVerdicts) {
  const scheduling::UnitPlan units = plan();
  const UnitFlags flags(100, false);
  EXPECT_EQ(flags.staged_elements(units.units[0]), 9 + 3);
  std::vector<float> staged(12, NAN);
  flags.write(units, 0, 0b001, Rank{99}, staged);
  EXPECT_EQ(std::vector<float>(staged.begin() + 9, staged.end()), (std::vector<float>{0, 1, 1}));
  EXPECT_EQ(flags.non_finite(units.units[0], 1, staged), Rank{-1});
}

}  // namespace
}  // namespace paceline::collectives

#include "job/compute_speed.h"

#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::job {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ComputeSpeed, AListOfSpeedsIsReadAndABadEntryIsNamed) {
  EXPECT_THAT(*parse_speeds("1,1,0.5,0.25"), ElementsAre(1, 1, 0.5, 0.25));
  EXPECT_TRUE(parse_speeds("")->empty());
  for (const auto* bad : {"1,0", "1,2", "1,-1", "1,", "1,,", "1,nan", "1,inf", "1,0.5x", "1, 1", "1,1e-9"}) {
    const auto read = parse_speeds(bad);
    ASSERT_FALSE(read.ok()) << bad;
    EXPECT_THAT(read.status().message(), HasSubstr("entry 2")) << bad;
    EXPECT_THAT(read.status().message(), HasSubstr("legal: 0.001 to 1"));
  }
  EXPECT_THAT(check_speeds({1, 0.5}, 3).message(), HasSubstr("--speed has 2 entries for 3 workers"));
  EXPECT_TRUE(check_speeds({1, 0.5}, 2).ok());
  EXPECT_TRUE(check_speeds({}, 7).ok());
}

TEST(ComputeSpeed, WithoutJitterEveryIterationTakesTheSameMultiple) {
  const ComputeSpeed speed{{1, 0.25}, 0, 1};
  for (Iteration i = 1; i < 10; ++i) {
    EXPECT_EQ(slowness(speed, Rank{0}, i), 1);
    EXPECT_EQ(slowness(speed, Rank{1}, i), 4);
  }
  EXPECT_TRUE(speed.changes_anything());
  EXPECT_FALSE((ComputeSpeed{{1, 1}, 0, 1}.changes_anything()));
  EXPECT_TRUE((ComputeSpeed{{}, 0.1, 1}.changes_anything()));
}

TEST(ComputeSpeed, JitterIsNormalTheSameForASeedAndNeverNearZero) {
  constexpr int kDraws = 20'000;
  for (const double jitter : {0.1, 1.0}) {
    const ComputeSpeed speed{{0.5}, jitter, 7};
    double sum = 0, squares = 0, least = 1e9;
    for (Iteration i = 1; i <= kDraws; ++i) {
      const double factor = slowness(speed, Rank{0}, i) / 2;
      EXPECT_EQ(slowness(speed, Rank{0}, i) / 2, factor);
      sum += factor;
      squares += (factor - 1) * (factor - 1);
      least = std::min(least, factor);
    }
    EXPECT_GE(least, 0.1 - 1e-12);
    if (jitter != 0.1) continue;
    EXPECT_NEAR(sum / kDraws, 1, 0.003);
    EXPECT_NEAR(std::sqrt(squares / kDraws), jitter, 0.003);
  }
  const ComputeSpeed one{{}, 0.1, 1}, other{{}, 0.1, 2};
  EXPECT_NE(slowness(one, Rank{0}, 1), slowness(other, Rank{0}, 1));
  EXPECT_NE(slowness(one, Rank{0}, 1), slowness(one, Rank{1}, 1));
}

}  // namespace
}  // namespace paceline::job

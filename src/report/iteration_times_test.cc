#include "report/iteration_times.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "report/report.h"
#include "wire/control.h"

namespace paceline::report {
namespace {

double lower_median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[(values.size() - 1) / 2];
}

TEST(IterationTimes, OfFewAreExactAndOfManyWithinAThousandth) {
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 60; ++trial) {
    SCOPED_TRACE(trial);
    // Between microseconds and hours, in one worker's series or in several that are put together.
    std::lognormal_distribution<double> draw(std::uniform_real_distribution<double>(-12, 8)(random), trial % 3 == 0 ? 0 : 2);
    const std::size_t workers = 1 + random() % 3, each = trial % 2 == 0 ? 1 + random() % 2000 : 4000 + random() % 20'000;
    std::vector<double> all;
    IterationTimes together;
    for (std::size_t worker = 0; worker < workers; ++worker) {
      IterationTimes own;
      for (std::size_t i = 0; i < each; ++i) own.add(all.emplace_back(draw(random)));
      EXPECT_EQ(own.last(), all.back());
      EXPECT_EQ(IterationTimes::from_json(Json::parse(own.to_json().dump())), own);
      together.add(own);
    }
    const double expected = lower_median(all);
    EXPECT_EQ(together.count(), static_cast<std::int64_t>(all.size()));
    EXPECT_EQ(together.least(), *std::ranges::min_element(all));
    EXPECT_EQ(together.most(), *std::ranges::max_element(all));
    EXPECT_NEAR(together.median() / expected, 1, all.size() <= IterationTimes::kMostExact ? 0 : 0.0003);
    EXPECT_GE(together.median(), together.least());
    EXPECT_LE(together.median(), together.most());
  }
}

TEST(IterationTimes, ZeroIsATimeTooAndNoneHaveNone) {
  IterationTimes times;
  EXPECT_EQ(times.median(), 0);
  for (int i = 0; i < 30'000; ++i) times.add(i % 3 == 0 ? 1e-9 : 0);
  EXPECT_EQ(times.median(), 0);
  EXPECT_EQ(times.most(), 1e-9);
}

TEST(IterationTimes, OfAnyNumberOfIterationsFitIntoAControlMessage) {
  WorkerReport report;
  std::mt19937_64 random(2);
  std::lognormal_distribution<double> draw(-8, 1);
  for (int i = 0; i < 3'200'000; ++i) report.iteration_seconds.add(draw(random));
  EXPECT_LT(encode(report).size(), wire::kMaxControlBytes / 16);
  // As different as they can be: each size once.
  WorkerReport spread;
  for (double seconds = 1e-9; seconds < 1e6; seconds *= 1.0004) spread.iteration_seconds.add(seconds);
  EXPECT_LT(encode(spread).size(), wire::kMaxControlBytes / 16);
}

TEST(IterationTimes, NonsenseIsRefused) {
  const Json good = IterationTimes{1, 2}.to_json();
  for (const char* patch : {R"({"least":3})", R"({"by_size":[[1,1]]})", R"({"each":[],"by_size":[[1,0]]})",
                            R"({"each":[],"by_size":[[1,9007199254740992],[2,1]]})", R"({"each":null})", R"({"last":"x"})"}) {
    Json json = good;
    json.merge_patch(Json::parse(patch));
    EXPECT_ANY_THROW(IterationTimes::from_json(json)) << patch;
  }
}

}  // namespace
}  // namespace paceline::report

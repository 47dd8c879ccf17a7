#include "bench/decisions/decisions_bench.h"

#include <gtest/gtest.h>

namespace paceline::bench {
namespace {

TEST(DecisionsBench, ASmallRunVerifiesItsDecisionsAndFillsTheReport) {
  int told = 0;
  const auto report = run_decisions_bench(
      {.runs = 2, .layers = 20, .destinations = 3, .units = 5'000, .decisions = 3'000, .on_run = [&](int done) { told = done; }});
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(told, 2);
  for (const Spread& spread :
       {report->ready, report->leave, report->arrived, report->work, report->plan.exact, report->plan.ibatch}) {
    EXPECT_GT(spread.lowest, 0);
    EXPECT_LE(spread.lowest, spread.median);
    EXPECT_LE(spread.median, spread.highest);
  }
}

TEST(DecisionsBench, OptionsOutOfRangeAreRefused) {
  EXPECT_EQ(run_decisions_bench({.runs = 0}).status().kind(), ErrorKind::kBadRequest);
  EXPECT_EQ(run_decisions_bench({.layers = 0}).status().kind(), ErrorKind::kBadRequest);
  EXPECT_EQ(run_decisions_bench({.destinations = 0}).status().kind(), ErrorKind::kBadRequest);
  EXPECT_EQ(run_decisions_bench({.plans = 0}).status().kind(), ErrorKind::kBadRequest);
  EXPECT_EQ(run_decisions_bench({.units = 5, .decisions = 6}).status().kind(), ErrorKind::kBadRequest);
}

}  // namespace
}  // namespace paceline::bench

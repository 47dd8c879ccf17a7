#include "bench/preemption/preemption_bench.h"

#include <gtest/gtest.h>

namespace paceline::bench {
namespace {

// Over the loopback: what is measured depends on the machine, but not that an unbounded window lets nothing overtake.
TEST(PreemptionBench, ASmallRunVerifiesItsBytesAndFillsTheReport) {
  const scheduling::WindowRule unbounded = scheduling::fixed_window(scheduling::kUnbounded);
  int told = 0;
  const auto report = run_preemption_bench({.backlog = Bytes{8'000'000},
                                            .slice = Bytes{100'000},
                                            .windows = {scheduling::fixed_window({131'072}), unbounded},
                                            .runs = 3,
                                            .on_run = [&](int done) { told = done; }});
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(told, 3);
  ASSERT_EQ(report->urgent_seconds.size(), 2U);
  for (const Spread& spread : report->urgent_seconds) {
    EXPECT_GT(spread.lowest, 0);
    EXPECT_LE(spread.lowest, spread.median);
    EXPECT_LE(spread.median, spread.highest);
  }
  EXPECT_EQ(report->window_bytes[0], 131'072);
  EXPECT_LE(report->overtaken_by[0], 3) << "a window holds one slice and a third";
  EXPECT_GT(report->overtaken_by[1], report->overtaken_by[0]) << "everything had been handed to the network";
}

TEST(PreemptionBench, OptionsOutOfRangeAreRefused) {
  const std::vector<scheduling::WindowRule> windows = {scheduling::WindowRule{}};
  EXPECT_EQ(run_preemption_bench({.windows = {}}).status().kind(), ErrorKind::kBadRequest);
  EXPECT_EQ(run_preemption_bench({.windows = windows, .runs = 0}).status().kind(), ErrorKind::kBadRequest);
  EXPECT_EQ(run_preemption_bench({.slice = Bytes{0}, .windows = windows}).status().kind(), ErrorKind::kBadRequest);
  EXPECT_EQ(run_preemption_bench({.backlog = Bytes{300'000}, .windows = windows}).status().kind(), ErrorKind::kBadRequest);
}

}  // namespace
}  // namespace paceline::bench

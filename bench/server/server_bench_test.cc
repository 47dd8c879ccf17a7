#include "bench/server/server_bench.h"

#include <gtest/gtest.h>

namespace paceline::bench {
namespace {

TEST(ServerBench, ASmallRunVerifiesItsSumsAndFillsTheReport) {
  int told = 0;
  const auto report = run_server_bench(
      {.runs = 2, .workers = 3, .parameters = Bytes{100'004}, .unit = Bytes{5'000}, .on_run = [&](int done) { told = done; }});
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(told, 2);
  for (const Spread& spread : {report->copy, report->sum, report->update_sgd, report->update_momentum}) {
    EXPECT_GT(spread.lowest, 0);
    EXPECT_LE(spread.lowest, spread.median);
    EXPECT_LE(spread.median, spread.highest);
  }
  EXPECT_GT(report->sum_of_copy, 0);
  EXPECT_GT(report->update_sgd_of_copy, 0);
  EXPECT_GT(report->update_momentum_of_copy, 0);
}

TEST(ServerBench, OptionsOutOfRangeAreRefused) {
  EXPECT_EQ(run_server_bench({.runs = 0}).status().kind(), ErrorKind::kBadRequest);
  EXPECT_EQ(run_server_bench({.workers = 0}).status().kind(), ErrorKind::kBadRequest);
  EXPECT_EQ(run_server_bench({.unit = Bytes{6}}).status().kind(), ErrorKind::kBadRequest);
  EXPECT_EQ(run_server_bench({.parameters = Bytes{100}, .unit = Bytes{200}}).status().kind(), ErrorKind::kBadRequest);
}

}  // namespace
}  // namespace paceline::bench

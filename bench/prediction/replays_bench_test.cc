#include "bench/prediction/replays_bench.h"

#include <gtest/gtest.h>

namespace paceline::bench {
namespace {

using Json = Ledger::Json;

Json cell(int seed, double predicted, double measured) {
  return {{"key", "k"},
          {"seed", seed},
          {"job", "a job"},
          {"iterations", 10},
          {"predicted_seconds", predicted},
          {"measured_seconds", measured},
          {"ratio", measured / predicted}};
}

TEST(ReplaysBench, AJobCountsWithTheMedianOfItsTurns) {
  const Json rows = rows_of({cell(1, 10, 10.5), cell(2, 10, 8), cell(1, 10, 30), cell(1, 10, 10)});
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0]["seed"], 1);
  EXPECT_EQ(rows[0]["measured_seconds"], (Json{{"median", 10.5}, {"lowest", 10.0}, {"highest", 30.0}}));
  EXPECT_EQ(rows[0]["ratio"]["median"], 1.05);
  const Json summary = summary_of_rows(rows);
  EXPECT_EQ(summary["jobs"], 2);
  EXPECT_EQ(summary["within_10_per_cent"], 1);
  EXPECT_NEAR(summary["largest_error"].get<double>(), 0.2, 1e-12);
  EXPECT_EQ(summary_of_rows(Json::array())["jobs"], 0);
}

TEST(ReplaysBench, AStreamsShareIsThatOfEveryLink) {
  RandomJob job{.links = {{1e7}, {5e6}, {1e7}}};
  const simulation::Cluster cluster = cluster_of(job, 0.95, {});
  EXPECT_EQ(cluster.workers, 3);
  ASSERT_EQ(cluster.links.size(), 3U);
  EXPECT_DOUBLE_EQ(cluster.links[1].value, 4.75e6);
}

}  // namespace
}  // namespace paceline::bench

#include "bench/sync/jobs_bench.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace paceline::bench {
namespace {

using Json = Ledger::Json;
using ::testing::Contains;
using ::testing::HasSubstr;

Json report(double waiting, double accuracy) {
  return {{"samples_per_second", 100 / waiting},
          {"seconds", 10},
          {"accuracy", accuracy},
          {"evaluations",
           {{{"seconds", 1}, {"accuracy", 0.5}}, {{"seconds", 2}, {"accuracy", 0.96}}, {{"seconds", 3}, {"accuracy", 0.97}}}},
          {"per_worker",
           {{{"waiting", waiting}, {"waiting_barrier", waiting / 2}, {"seconds", 10}},
            {{"waiting", 3 * waiting}, {"waiting_barrier", waiting}, {"seconds", 10}}}}};
}

class JobsBench : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "jobs_bench_" + std::to_string(getpid());
    std::filesystem::create_directories(folder_);
    options_.folder = folder_;
    options_.table = folder_ + "/table.json";
    options_.seeds = 2;
    options_.parts = {"replay"};
    options_.train = [this](const std::vector<std::string>& arguments) -> Result<Json> {
      runs_.push_back(arguments);
      const bool elastic = std::ranges::find(arguments, "elastic-bsp") != arguments.end();
      if (fails_ && elastic) return error(ErrorKind::kIo, "no luck");
      return report(elastic ? 0.5 : 2, elastic ? 0.96 : 0.97);
    };
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
  JobsBenchOptions options_;
  std::vector<std::vector<std::string>> runs_;
  bool fails_ = false;
};

TEST_F(JobsBench, EveryContestantRunsWithEverySeedOnce) {
  options_.parts = {"replay", "lenet"};
  const auto cells = sync_cells(options_);
  EXPECT_EQ(cells.size(), 20U);
  std::set<std::string> keys;
  for (const SyncCell& cell : cells) {
    keys.insert(cell.key);
    EXPECT_EQ(cell.trace.empty(), cell.seed != 1);
  }
  EXPECT_EQ(keys.size(), cells.size());
  EXPECT_THAT(cells[4].arguments, Contains("waiting-share"));
  EXPECT_THAT(cells.back().arguments, Contains("--evaluate-late"));
}

TEST_F(JobsBench, FinishedCellsAreNotRunAgainAndFailuresAreTold) {
  fails_ = true;
  const auto first = run_jobs_bench(options_);
  ASSERT_TRUE(first.ok()) << first.status().message();
  EXPECT_EQ(first->cells.size(), 6U);
  ASSERT_EQ(first->failures.size(), 4U);
  EXPECT_THAT(first->failures[0], HasSubstr("elastic span, seed 1: no luck"));
  fails_ = false;
  runs_.clear();
  const auto second = run_jobs_bench(options_);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->cells.size(), 10U);
  EXPECT_EQ(runs_.size(), 4U);
}

TEST_F(JobsBench, TheSummaryComparesWithBsp) {
  const auto result = run_jobs_bench(options_);
  ASSERT_TRUE(result.ok());
  const Json rows = sync_summary_of(result->cells);
  ASSERT_EQ(rows.size(), 5U);
  EXPECT_EQ(rows[0]["contestant"], "bsp");
  EXPECT_EQ(rows[0]["waiting_share"]["median"], 0.4);
  EXPECT_EQ(rows[0]["of_bsp"]["waiting_share"], 1.0);
  EXPECT_EQ(rows[4]["of_bsp"]["waiting_share"], 0.25);
  EXPECT_EQ(rows[4]["of_bsp"]["samples_per_second"], 4.0);
  EXPECT_NEAR(rows[4]["of_bsp"]["mean_accuracy"].get<double>(), -0.01, 1e-12);
  EXPECT_EQ(rows[4]["time_to_goal"]["median"], 2.0);
  EXPECT_EQ(rows[4]["reached_goal"], 2);
}

TEST_F(JobsBench, TheTimeToAGoalIsThatOfTheFirstEvaluationThatReachesIt) {
  EXPECT_EQ(time_to(report(1, 1), 0.97), 3);
  EXPECT_TRUE(time_to(report(1, 1), 0.98).is_null());
}

}  // namespace
}  // namespace paceline::bench

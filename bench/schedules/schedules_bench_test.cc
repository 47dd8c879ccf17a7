#include "bench/schedules/schedules_bench.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

namespace paceline::bench {
namespace {

using Json = Ledger::Json;

Json cell(const std::string& contestant, int turn, double seconds, const std::string& hash) {
  return {{"key", contestant + std::to_string(turn)},
          {"model", "m"},
          {"stands_for_bits_per_second", 1e9},
          {"scale", 10},
          {"hosts", 4},
          {"iterations", 6},
          {"contestant", contestant},
          {"turn", turn},
          {"iteration_seconds", {{"median", seconds}}},
          {"of_lower_bound", seconds / 2},
          {"lower_bound", {{"seconds", 2.0}, {"computation", 0.75}}},
          {"processor_share", 0.1},
          {"processor_seconds_per_gb", 0.5},
          {"report", hash.empty() ? Json() : Json{{"parameters_hash", hash}}}};
}

TEST(Summary, IsTheMedianOverTheTurnsOfEachContestant) {
  const Json rows = summary_of({cell("p3", 0, 4, "a"), cell("ddp", 0, 9, ""), cell("p3", 1, 3, "a"), cell("p3", 2, 8, "a")});
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0]["contestant"], "p3");
  EXPECT_EQ(rows[0]["iteration_seconds"], (Json{{"median", 4.0}, {"lowest", 3.0}, {"highest", 8.0}}));
  EXPECT_EQ(rows[0]["of_lower_bound"]["median"], 2.0);
  EXPECT_TRUE(rows[1]["parameters_hash"].is_null());
  EXPECT_TRUE(rows[0]["phases"].is_null() && rows[1]["phases"].is_null());
}

TEST(Summary, HasTheMediansOfWhatReportsSay) {
  std::vector<Json> cells;
  for (const double pull : {3.0, 1.0, 2.0}) {
    cells.push_back(cell("ibatch", static_cast<int>(cells.size()), 4, "a"));
    cells.back()["report"]["phases"] = {{"pull", pull}, {"forward", 0.5}};
    cells.back()["report"]["batching"] = {{"algorithm", "exact"}, {"makespan", pull + 1}};
  }
  const Json rows = summary_of(cells);
  EXPECT_EQ(rows[0]["phases"], (Json{{"forward", 0.5}, {"pull", 2.0}}));
  EXPECT_EQ(rows[0]["batching"], (Json{{"makespan", 3.0}}));
}

TEST(Summary, ProfilesLoopsInThePapersColumnsAndOthersBehindThem) {
  const Json rows = summary_of({cell("p3", 0, 4, "a"), cell("loop3", 0, 2, "a"), cell("loop3-overlap-lp", 0, 0.5, "a"),
                                cell("loop1-mst", 0, 3, ""), cell("loop1-mst", 1, 3, "")});
  EXPECT_EQ(rows[0]["communication_seconds"], 3.25);
  const Json profile = loop_profile(rows);
  ASSERT_EQ(profile.size(), 3U);
  EXPECT_EQ(profile[0]["column"], "MST Alg.1");
  EXPECT_EQ(profile[0]["communication_seconds"], 2.25);
  EXPECT_EQ(profile[0]["computation_seconds"], 0.75);
  EXPECT_EQ(profile[0]["communication_share"], 0.75);
  EXPECT_EQ(profile[1]["column"], "LP Overlap-Alg.3");
  EXPECT_EQ(profile[1]["communication_share"], 0.0);
  EXPECT_EQ(profile[2]["column"], "loop3");
}

TEST(Summary, LoopsThatAddInAnotherOrderMayHaveOtherParameters) {
  Json ring = cell("loop3-ring", 0, 1, "b");
  ring["report"]["collective"] = {{"sum_order", "algorithm"}};
  EXPECT_TRUE(contradictions({cell("p3", 0, 1, "a"), ring}).empty());
  ring["report"]["collective"]["sum_order"] = "rank";
  EXPECT_EQ(contradictions({cell("p3", 0, 1, "a"), ring}).size(), 1U);
}

TEST(Summary, SchedulesThatGiveOtherParametersAreFound) {
  EXPECT_TRUE(contradictions({cell("p3", 0, 1, "a"), cell("tuned", 0, 1, "a"), cell("ddp", 0, 1, "")}).empty());
  EXPECT_EQ(contradictions({cell("p3", 0, 1, "a"), cell("tuned", 0, 1, "b")}).size(), 1U);
}

TEST(Ledger, WhatIsFinishedStaysFinishedAlsoBehindALineThatWasCutOff) {
  const auto path = std::filesystem::temp_directory_path() / fmt::format("ledger-{}.jsonl", getpid());
  std::ofstream(path) << "{\"key\": \"one\", \"x\": 1}\n{\"key\": \"tw";
  auto ledger = Ledger::open(path);
  ASSERT_TRUE(ledger.ok()) << ledger.status().message();
  EXPECT_TRUE(ledger->has("one"));
  EXPECT_FALSE(ledger->has("two"));
  ASSERT_TRUE(ledger->add({{"key", "two"}}).ok());
  ASSERT_TRUE(ledger->add({{"key", "three"}}).ok());
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(text, "{\"key\": \"one\", \"x\": 1}\n{\"key\":\"two\"}\n{\"key\":\"three\"}\n");
  EXPECT_TRUE(Ledger::open(path)->has("three"));
  std::ofstream(path, std::ios::app) << "no cell\n";
  EXPECT_EQ(Ledger::open(path).status().kind(), ErrorKind::kBadRequest);
  std::filesystem::remove(path);
}

TEST(Ledger, AFileOfSomethingElseIsRefusedAndStaysAsItIs) {
  const auto path = std::filesystem::temp_directory_path() / fmt::format("ledger-{}.json", getpid());
  std::ofstream(path) << "{\"layers\": []}";
  EXPECT_EQ(Ledger::open(path).status().kind(), ErrorKind::kBadRequest);
  EXPECT_EQ(std::filesystem::file_size(path), 14U);
  std::filesystem::remove(path);
  EXPECT_EQ(Ledger::open("/not/there/cells.jsonl").status().kind(), ErrorKind::kBadRequest) << "before anything is measured";
}

}  // namespace
}  // namespace paceline::bench

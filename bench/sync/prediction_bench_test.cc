#include "bench/sync/prediction_bench.h"

#include <gtest/gtest.h>

namespace paceline::bench {
namespace {

TEST(PredictionBench, HasARowForEachCaseAlgorithmAndObjectiveBesideThePapers) {
  const auto rows = run_prediction_bench({.cases = {{10, 15}, {7, 4}}, .trials = 3, .longest = 3, .on_case = {}});
  ASSERT_TRUE(rows.ok()) << rows.status().message();
  ASSERT_EQ(rows->size(), 12U);
  for (const auto& row : *rows) {
    EXPECT_EQ(row["trials"], 3);
    EXPECT_GE(row["value_of_zip_line"], 1.0);
    EXPECT_EQ(row["paper_seconds"].is_null(), row["workers"] == 7 || row["objective"] == "waiting-share");
  }
  EXPECT_EQ((*rows)[0]["paper_seconds"], 1.49e-4);
  EXPECT_EQ((*rows)[0]["value_of_zip_line"], 1.0);
  EXPECT_EQ((*rows)[2]["algorithm"], "full-grid-scan");
}

TEST(PredictionBench, WhatWouldTakeTooLongIsTriedOnceOrNotAtAll) {
  const auto rows = run_prediction_bench({.cases = {{100, 15}}, .trials = 3, .longest = 1e-3, .on_case = {}});
  ASSERT_TRUE(rows.ok());
  EXPECT_EQ((*rows)[0]["trials"], 3);
  EXPECT_EQ((*rows)[2]["trials"], 1);
  const auto none = run_prediction_bench({.cases = {{100, 15}}, .trials = 3, .longest = 1e-6, .on_case = {}});
  EXPECT_EQ((*none)[2]["trials"], 0);
  EXPECT_TRUE((*none)[2]["seconds"].is_null());
}

TEST(PredictionBench, TheGridsAreThePapersAndBeyond) {
  EXPECT_EQ(table_2_cases().size(), 6U);
  EXPECT_EQ(all_prediction_cases().back().workers, 10'000);
}

}  // namespace
}  // namespace paceline::bench

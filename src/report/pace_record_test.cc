#include "report/pace_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::report {
namespace {

TimePoint at(double s) { return TimePoint(from_seconds(s)); }

TEST(PaceRecord, TellsOfEveryIterationInSecondsSinceTheFirstStart) {
  std::vector<Json> told;
  PaceRecord record([&](Json event) { told.push_back(std::move(event)); });
  record.on_started(Rank{1}, 1, 0, at(100));
  record.on_started(Rank{0}, 1, 0, at(100.5));
  record.on_ended(Rank{0}, 1, at(101));
  record.on_started(Rank{0}, 2, 1, at(101.25));
  record.on_ended(Rank{0}, 2, at(102));
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[0], (Json{{"rank", 0}, {"iteration", 1}, {"began", 0.5}, {"ended", 1.0}, {"staleness", 0}}));
  EXPECT_EQ(told[1], (Json{{"rank", 0}, {"iteration", 2}, {"began", 1.25}, {"ended", 2.0}, {"staleness", 1}}));
}

TEST(PaceRecord, CountsStalenessAndPutsWhatIsFarAheadTogether) {
  PaceRecord record({});
  for (const std::int64_t staleness : {0, 0, 2, 1000, 300}) record.on_started(Rank{0}, 1, staleness, at(0));
  const Json staleness = record.detail()["staleness"];
  EXPECT_EQ(staleness["histogram"].size(), 256U);
  EXPECT_EQ(staleness["histogram"][0], 2);
  EXPECT_EQ(staleness["histogram"][1], 0);
  EXPECT_EQ(staleness["histogram"][2], 1);
  EXPECT_EQ(staleness["histogram"][255], 2);
  EXPECT_EQ(staleness["largest"], 1000);
  EXPECT_TRUE(record.detail()["supersteps"].is_null() && record.detail()["prediction"].is_null());
}

TEST(PaceRecord, ComparesPredictedWithRealArrivals) {
  std::vector<Json> told;
  PaceRecord record([&](Json event) { told.push_back(std::move(event)); });
  record.on_started(Rank{0}, 1, 0, at(10));
  record.on_superstep({1, at(10), {Rank{0}, Rank{1}}, {1, 1}, {}, {1, 3}});
  record.on_superstep({2, at(13), {Rank{0}, Rank{1}}, {3, 1}, {3, 3}, {3, 4}});
  const Json detail = record.detail();
  EXPECT_EQ(detail["supersteps"], (Json{{"count", 2}, {"uneven", 1}, {"mean_iterations", {2.0, 1.0}}}));
  const Json& prediction = detail["prediction"];
  EXPECT_EQ(prediction["supersteps"], 1);
  EXPECT_EQ(prediction["mean_length"], 4.0);
  EXPECT_EQ(prediction["mean_error"], 0.5);
  EXPECT_EQ(prediction["waiting_share_predicted"], 0.0);
  EXPECT_EQ(prediction["waiting_share_real"], 1.0 / 8);
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[1]["began"], 3.0);
  EXPECT_EQ(told[1]["iterations"], (Json{3, 1}));
  EXPECT_EQ(told[1]["predicted"], (Json{3.0, 3.0}));
}

}  // namespace
}  // namespace paceline::report

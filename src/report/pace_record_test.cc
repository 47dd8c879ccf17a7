#include "report/pace_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::report {
namespace {

TimePoint at(double s) { return TimePoint(from_seconds(s)); }
wire::Event started(std::int32_t worker, Iteration iteration, std::uint32_t staleness, double s) {
  return wire::at(at(s), {.what = wire::Happening::kStarted, .peer = worker, .detail = staleness, .iteration = iteration});
}
wire::Event ended(std::int32_t worker, Iteration iteration, double s) {
  return wire::at(at(s), {.what = wire::Happening::kEnded, .peer = worker, .iteration = iteration});
}

TEST(PaceRecord, TellsOfEveryIterationInSecondsSinceTheFirstStart) {
  std::vector<Json> told;
  PaceRecord record([&](Json event) { told.push_back(std::move(event)); });
  record.on_event(started(1, 1, 0, 100));
  record.on_event(started(0, 1, 0, 100.5));
  record.on_event(ended(0, 1, 101));
  record.on_event(started(0, 2, 1, 101.25));
  record.on_event(ended(0, 2, 102));
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[0], (Json{{"rank", 0}, {"iteration", 1}, {"began", 0.5}, {"ended", 1.0}, {"staleness", 0}}));
  EXPECT_EQ(told[1], (Json{{"rank", 0}, {"iteration", 2}, {"began", 1.25}, {"ended", 2.0}, {"staleness", 1}}));
}

TEST(PaceRecord, CountsStalenessAndPutsWhatIsFarAheadTogether) {
  PaceRecord record({});
  for (const std::uint32_t staleness : {0U, 0U, 2U, 1000U, 300U}) record.on_event(started(0, 1, staleness, 0));
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
  record.on_event(started(0, 1, 0, 10));
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

#include "sync/interval_history.h"

#include <gtest/gtest.h>

namespace paceline::sync {
namespace {

using std::chrono::seconds;

TEST(IntervalHistory, OfLengthOneIsTheMostRecentInterval) {
  IntervalHistory history(1);
  history.add(seconds(9));
  history.add(seconds(2));
  EXPECT_EQ(history.typical(), seconds(2));
}

TEST(IntervalHistory, TakesTheLowerMiddleOfAnEvenNumber) {
  IntervalHistory history(4);
  for (int interval : {8, 2, 6, 4}) history.add(seconds(interval));
  EXPECT_EQ(history.typical(), seconds(4));
}

TEST(IntervalHistory, ForgetsTheOldest) {
  IntervalHistory history(3);
  for (int interval : {1, 1, 5, 7, 6}) history.add(seconds(interval));
  EXPECT_EQ(history.size(), 3u);
  EXPECT_EQ(history.typical(), seconds(6));
}

TEST(IntervalHistory, ASingleSlowIterationDoesNotShow) {
  IntervalHistory history(5);
  for (int interval : {3, 3, 100, 3, 3}) history.add(seconds(interval));
  EXPECT_EQ(history.typical(), seconds(3));
}

}  // namespace
}  // namespace paceline::sync

#include "session/stall.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace paceline::session {
namespace {

using namespace std::chrono_literals;
using Verdict = StallDetector::Verdict;

const TimePoint kStart = TimePoint{} + 100h;

TEST(StallDetector, WarnsOnceAtTenTimesTheMedianAndAgainInTheNextStall) {
  StallDetector detector(kStart, 10min);
  TimePoint now = kStart;
  for (int i = 0; i < 9; ++i) detector.on_progress(now += 2s);
  EXPECT_EQ(detector.median(), 2s);
  EXPECT_EQ(detector.check(now + 20s - 1ns), Verdict::kFine);
  EXPECT_EQ(detector.next_due(), now + 20s);
  EXPECT_EQ(detector.check(now + 20s), Verdict::kWarn);
  EXPECT_EQ(detector.check(now + 21s), Verdict::kFine);
  EXPECT_EQ(detector.next_due(), now + 10min);
  detector.on_progress(now += 30s);
  EXPECT_EQ(detector.check(now + 19s), Verdict::kFine);
  EXPECT_EQ(detector.check(now + 25s), Verdict::kWarn);
}

TEST(StallDetector, ShortIterationsAreNotWarnedOfBeforeASecond) {
  StallDetector detector(kStart);
  TimePoint now = kStart;
  for (int i = 0; i < 100; ++i) detector.on_progress(now += 3ms);
  EXPECT_EQ(detector.check(now + 999ms), Verdict::kFine);
  EXPECT_EQ(detector.check(now + 1s), Verdict::kWarn);
}

TEST(StallDetector, FailsAtTheLimitEveryTimeAlsoBeforeTheFirstIteration) {
  StallDetector detector(kStart);
  EXPECT_EQ(detector.check(kStart + 10min - 1ns), Verdict::kFine) << "there is no median yet to warn by";
  EXPECT_EQ(detector.check(kStart + 10min), Verdict::kFail);
  EXPECT_EQ(detector.check(kStart + 11min), Verdict::kFail);
}

TEST(StallDetector, AnIterationOfMinutesIsHealthyWhenAllAre) {
  StallDetector detector(kStart, 10min);
  TimePoint now = kStart;
  for (int i = 0; i < 5; ++i) detector.on_progress(now += 2min);
  EXPECT_EQ(detector.check(now + 9min), Verdict::kFine) << "ten medians are beyond the limit";
  EXPECT_EQ(detector.check(now + 10min), Verdict::kFail);
}

TEST(StallDetector, TimeBeforeAWaitIsNotHeldAgainstIt) {
  StallDetector detector(kStart, 10min);
  TimePoint now = kStart;
  for (int i = 0; i < 9; ++i) detector.on_progress(now += 2s);
  detector.on_wait(now += 9min);  // an evaluation
  EXPECT_EQ(detector.check(now + 20s - 1ns), Verdict::kFine);
  EXPECT_EQ(detector.next_due(), now + 20s);
  EXPECT_EQ(detector.waited(now + 20s), 20s);
  EXPECT_EQ(detector.check(now + 20s), Verdict::kWarn);
  detector.on_wait(now += 1min);
  EXPECT_EQ(detector.check(now + 1min), Verdict::kFine) << "warned already in this iteration";
  EXPECT_EQ(detector.check(now + 10min), Verdict::kFail);
  detector.on_progress(now += 1min);
  EXPECT_EQ(detector.median(), 2s) << "an iteration counts from its start, not from its waits";
  EXPECT_EQ(detector.waited(now + 3s), 3s);
}

TEST(StallDetector, ItsMedianIsThatOfTheLast128Iterations) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    std::mt19937_64 random(seed);
    StallDetector detector(kStart);
    TimePoint now = kStart;
    std::vector<Duration> all;
    for (int i = 0; i < 400; ++i) {
      all.push_back(Duration(static_cast<std::int64_t>(random() % 1'000'000'000)));
      detector.on_progress(now += all.back());
      std::vector<Duration> last(all.end() - std::min<std::ptrdiff_t>(128, std::ssize(all)), all.end());
      std::sort(last.begin(), last.end());
      ASSERT_EQ(detector.median(), last[(last.size() - 1) / 2]) << "seed " << seed << " iteration " << i;
      ASSERT_EQ(detector.warn_after(), std::max<Duration>(1s, 10 * detector.median()));
    }
  }
}

}  // namespace
}  // namespace paceline::session

#include "exchange/account.h"

#include <random>

#include <gtest/gtest.h>

#include "job/testing_jobs.h"

namespace paceline::exchange {
namespace {

TimePoint at(std::int64_t ms) { return TimePoint(std::chrono::milliseconds(ms)); }

TEST(BusyTime, CountsWhatIsUnderWayWhileNobodyWaits) {
  BusyTime busy;
  busy.begin(at(0));
  busy.begin(at(5));
  busy.end(at(8));
  busy.end(at(10));
  busy.begin(at(30));
  busy.exclude(at(6), at(40));  // 0 to 6 is left, and the second one has gone on since
  busy.end(at(45));
  EXPECT_EQ(busy.take(at(50)), std::chrono::milliseconds(6 + 5));
  EXPECT_EQ(busy.take(at(60)), Duration{});
}

TEST(BusyTime, GoesOnOverItsTaking) {
  BusyTime busy;
  busy.begin(at(0));
  EXPECT_EQ(busy.take(at(10)), std::chrono::milliseconds(10));
  busy.exclude(at(12), at(15));
  EXPECT_EQ(busy.take(at(20)), std::chrono::milliseconds(7));
}

// Beside every millisecond looked at by itself.
TEST(BusyTime, IsWhatCountingMillisecondsGives) {
  std::mt19937 random(7);
  const auto below = [&](int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); };
  for (int round = 0; round < 300; ++round) {
    BusyTime busy;
    int running = 0, waiting_since = -1;
    Duration expected{};
    for (int now = 0; now < 200; ++now) {
      if (below(4) == 0) running++, busy.begin(at(now));
      if (running > 0 && below(4) == 0) running--, busy.end(at(now));
      if (waiting_since < 0 && below(10) == 0) waiting_since = now;
      if (waiting_since >= 0 && below(5) == 0) busy.exclude(at(waiting_since), at(now)), waiting_since = -1;
      if (running > 0 && waiting_since < 0) expected += std::chrono::milliseconds(1);
    }
    if (waiting_since >= 0) busy.exclude(at(waiting_since), at(200));
    ASSERT_EQ(busy.take(at(200)), expected) << round;
  }
}

// An account of worker 0 with one unit.
struct Bench {
  const std::shared_ptr<const job::Plan> plan = job::Plan::make(job::testing::table_of({{2}}), {}).value();
  const GateLedger gates{plan, Rank{0}, GateLedger::Rule::kOwnUnits};
  AccountBook book{gates};

  void tell(wire::Happening what, std::int64_t ms, Iteration iteration, std::int64_t bytes = 0) {
    book.on_event(wire::at(at(ms), {.what = what, .iteration = iteration, .bytes = bytes}));
  }
  void wait(std::int64_t from, std::int64_t to, Iteration iteration) {
    book.on_event(wire::during(at(from), at(to), {.what = wire::Happening::kGate, .iteration = iteration}));
  }
};

TEST(AccountBook, AWaitForAValueThatIsNotSeenToReturnIsAllPushOrUpdate) {
  Bench bench;
  for (const bool updated : {false, true}) {
    bench.tell(wire::Happening::kPushing, 1, 1);
    bench.tell(wire::Happening::kPushed, 5, 1);
    if (updated) bench.tell(wire::Happening::kStepped, 7, 1);
    bench.tell(wire::Happening::kComplete, 8, 1);
    bench.wait(2, 9, 2);
    const Account account = bench.book.take(at(9));
    EXPECT_EQ(account.push, std::chrono::milliseconds(3));
    EXPECT_EQ(account.update, std::chrono::milliseconds(updated ? 4 : 0));
    EXPECT_EQ(account.wait, std::chrono::milliseconds(updated ? 0 : 4));
    EXPECT_EQ(account.pull, Duration{});
  }
}

TEST(AccountBook, InitialValuesDoNotCountNorDoesAWaitForThem) {
  Bench bench;
  for (const Iteration label : {0, 1}) {
    bench.tell(wire::Happening::kPulling, 1, label);
    bench.tell(wire::Happening::kReturning, 2, label);
    bench.tell(wire::Happening::kPulled, 5, label, 8);
    bench.tell(wire::Happening::kComplete, 5, label);
    EXPECT_EQ(bench.book.opened_at(Layer{0}), at(5));
    bench.wait(4, 6, label + 1);
    const Account account = bench.book.take(at(9));
    EXPECT_EQ(account.pull, std::chrono::milliseconds(label == 0 ? 0 : 2)) << label;
    EXPECT_EQ(account.overlapped_pull, std::chrono::milliseconds(label == 0 ? 0 : 3)) << label;
    EXPECT_EQ(account.bytes_pulled, label == 0 ? 0 : 8) << label;
  }
}

}  // namespace
}  // namespace paceline::exchange

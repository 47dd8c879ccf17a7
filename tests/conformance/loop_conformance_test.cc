// What every backend's loop promises.
#include <atomic>

#include "harness.h"

namespace paceline::transport::testing {
namespace {

class LoopConformance : public LeakCheck, public ::testing::WithParamInterface<MakeBackend> {
 protected:
  std::unique_ptr<Transport> transport_ = GetParam()().make();
  Loop& loop_ = transport_->loop();

  void run() {  // on this thread; a watchdog turns a hang into a failure
    std::promise<void> over;
    auto waiting = over.get_future();
    std::thread watchdog([&waiting] {
      if (waiting.wait_for(kPatience) != std::future_status::ready) give_up("the end of run()");
    });
    loop_.run();
    over.set_value();
    watchdog.join();
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, LoopConformance, ::testing::Values(&inproc_backend, &unix_backend, &tcp_backend), backend_name);

TEST_P(LoopConformance, PostedWorkRunsOnceInTheOrderOfPosting) {
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) loop_.post([&order, i] { order.push_back(i); });
  loop_.post([&] {
    loop_.post([&] {
      order.push_back(-2);
      loop_.stop();
    });
    order.push_back(-1);  // posting inside does not run inside
  });
  run();
  ASSERT_EQ(order.size(), 102U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
  EXPECT_EQ(order[100], -1);
  EXPECT_EQ(order[101], -2);
}

TEST_P(LoopConformance, ManyThreadsMayPostAndEachKeepsItsOrder) {
  constexpr int kThreads = 4;
  constexpr int kEach = 2000;
  std::vector<int> next(kThreads);
  int total = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        loop_.post([&, t, i] {
          EXPECT_EQ(next[static_cast<std::size_t>(t)]++, i);
          if (++total == kThreads * kEach) loop_.stop();
        });
      }
    });
  }
  run();
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(total, kThreads * kEach);
}

TEST_P(LoopConformance, StopFromAnotherThreadEndsRun) {
  std::promise<void> running;
  loop_.post([&] { running.set_value(); });
  std::thread stopper([&] {
    running.get_future().wait();
    loop_.stop();
  });
  run();
  stopper.join();
}

TEST_P(LoopConformance, AStopBeforeRunEndsThatRunAndOnlyThatOne) {
  loop_.stop();
  loop_.stop();
  run();
  int ran = 0;
  loop_.post([&] {
    ++ran;
    loop_.stop();
  });
  run();
  EXPECT_EQ(ran, 1);
}

TEST_P(LoopConformance, StopEndsRunAfterTheCallbackInProgressAndTheRestWaitsForTheNextRun) {
  std::vector<int> order;
  loop_.post([&] {
    order.push_back(1);
    loop_.stop();
    order.push_back(2);
  });
  loop_.post([&] { order.push_back(3); });
  run();
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
  loop_.post([&] {
    order.push_back(4);
    loop_.stop();
  });
  run();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3, 4}));
}

TEST_P(LoopConformance, TimersFireInOrderOfTheirTimeAndNotBefore) {
  std::vector<int> order;
  const TimePoint start = loop_.now();
  const auto at = [&](int number, int milliseconds) {
    loop_.run_after(std::chrono::milliseconds(milliseconds), [&, number, milliseconds] {
      order.push_back(number);
      EXPECT_GE(loop_.now() - start, std::chrono::milliseconds(milliseconds));
      if (order.size() == 6) loop_.stop();
    });
  };
  loop_.post([&] {
    at(5, 40);
    at(3, 20);
    at(1, 0);
    at(2, -5);  // not after the one with 0: asked for later
    at(4, 20);
    loop_.run_after(std::chrono::milliseconds(10), [&] { at(6, 50); });
  });
  run();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3, 4, 5, 6}));
}

TEST_P(LoopConformance, ATimerSetFromATimerForAnEarlierMomentThanTheOthersFiresFirst) {
  std::vector<int> order;
  loop_.post([&] {
    loop_.run_after(std::chrono::hours(10), [&] { order.push_back(3); });
    loop_.run_after(std::chrono::milliseconds(5), [&] {
      order.push_back(1);
      loop_.run_after(std::chrono::milliseconds(5), [&] {
        order.push_back(2);
        loop_.stop();
      });
    });
  });
  run();
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST_P(LoopConformance, ACancelledTimerNeverFiresAndUnknownIdsAreIgnored) {
  bool fired = false;
  Loop::TimerId same_moment = 0;
  loop_.post([&] {
    const auto soon = loop_.run_after(std::chrono::milliseconds(1), [&] { fired = true; });
    loop_.run_after(Duration::zero(), [&] { loop_.cancel(same_moment); });
    same_moment = loop_.run_after(Duration::zero(), [&] { fired = true; });
    loop_.cancel(soon);
    loop_.cancel(soon);
    loop_.cancel(0);
    loop_.cancel(~Loop::TimerId{0});
    loop_.run_after(std::chrono::milliseconds(20), [&] { loop_.stop(); });
  });
  run();
  EXPECT_FALSE(fired);
}

TEST_P(LoopConformance, ATimerWithoutDelayDoesNotStarvePostedWork) {
  int turns = 0;
  std::function<void()> again = [&] {
    ++turns;
    loop_.run_after(Duration::zero(), again);
  };
  loop_.post([&] { again(); });
  std::thread stopper([&] { loop_.post([&] { loop_.stop(); }); });
  run();
  stopper.join();
  EXPECT_GE(turns, 1);
}

TEST_P(LoopConformance, RaisesThatWereNotServedMergeAndLaterOnesAreServedAgain) {
  int served = 0;
  auto signal = loop_.make_signal([&] { ++served; });
  for (int i = 0; i < 5; ++i) signal->raise();
  loop_.run_after(std::chrono::milliseconds(1), [&] {
    EXPECT_EQ(served, 1);
    signal->raise();
    signal->raise();
    loop_.run_after(std::chrono::milliseconds(1), [&] { loop_.stop(); });
  });
  run();
  EXPECT_EQ(served, 2);
}

TEST_P(LoopConformance, ARaiseInsideTheCallbackCountsAsNew) {
  int served = 0;
  std::unique_ptr<Signal> signal = loop_.make_signal([&] {
    if (++served < 3) {
      signal->raise();
    } else {
      loop_.stop();
    }
  });
  signal->raise();
  run();
  EXPECT_EQ(served, 3);
}

TEST_P(LoopConformance, SignalsFromOtherThreadsAreNeverLost) {
  constexpr std::uint64_t kRounds = 20000;
  std::atomic<std::uint64_t> work = 0;
  auto signal = loop_.make_signal([&] {
    if (work.load() == kRounds) loop_.stop();
  });
  std::thread raiser([&] {
    for (std::uint64_t i = 1; i <= kRounds; ++i) {
      work.store(i);
      signal->raise();
    }
  });
  run();
  raiser.join();
}

TEST_P(LoopConformance, ASignalDestroyedWhileRaisedIsNotServedAndMayDestroyItselfInItsCallback) {
  int served = 0;
  auto gone = loop_.make_signal([&] { served += 100; });
  gone->raise();
  gone.reset();
  std::unique_ptr<Signal> itself;
  itself = loop_.make_signal([&] {
    ++served;
    itself.reset();
    loop_.stop();
  });
  itself->raise();
  run();
  EXPECT_EQ(served, 1);
}

TEST_P(LoopConformance, WorkThatNeverRanIsDestroyedWithTheLoop) {
  auto witness = std::make_shared<int>(1);
  loop_.post([witness] {});
  loop_.run_after(std::chrono::seconds(1), [witness] {});
  auto signal = loop_.make_signal([witness] {});
  signal->raise();
  EXPECT_EQ(witness.use_count(), 4);
  transport_.reset();
  signal.reset();
  EXPECT_EQ(witness.use_count(), 1);
}

}  // namespace
}  // namespace paceline::transport::testing

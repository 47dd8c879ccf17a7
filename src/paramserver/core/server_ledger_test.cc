// Which pushes make an update, stepped without any number of a tensor.
#include "paramserver/core/server_ledger.h"

#include <map>
#include <random>
#include <set>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/testing_jobs.h"

namespace paceline::paramserver {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr Rank r0{0}, r1{1}, r2{2}, r3{3};

// An update that outlives the ledger's next event.
struct Applied {
  std::uint32_t unit = 0;
  Iteration iteration = 0;
  std::vector<Rank> workers;
  double scale = 1;
  bool operator==(const Applied&) const = default;
};

sync::SyncOptions bsp() { return {}; }
sync::SyncOptions asp() { return {.kind = sync::SyncKind::kAsp}; }
sync::SyncOptions ssp(std::int64_t staleness) { return {.kind = sync::SyncKind::kSsp, .staleness = staleness}; }
sync::SyncOptions elastic(std::int64_t history) {
  return {.kind = sync::SyncKind::kElasticBsp, .lookahead = 5, .objective = sync::Objective::kSpan, .history = history};
}

// A server of units of one element each, whose initial values are there. Values arrive when they leave.
class Ledger {
 public:
  Ledger(const sync::SyncOptions& sync, std::int32_t workers, std::int32_t units = 1, Iteration first = 1) {
    job::PlanOptions options;
    options.workers = workers;
    options.schedule.cut = scheduling::whole_tensors();
    options.schedule.back = scheduling::Return::kBroadcast;
    options.sync = sync;
    options.first = first;
    const auto plan = *job::Plan::make(
        job::testing::table_of(std::vector<std::vector<std::int64_t>>(static_cast<std::size_t>(units), {1})), options);
    ledger = std::make_unique<ServerLedger>(std::move(ServerLedger::make(plan, r0)).value());
    for (std::uint32_t unit = 0; unit < static_cast<std::uint32_t>(units); ++unit) {
      const wire::Initial initial{unit, first - 1};
      EXPECT_TRUE(ledger->on_begin(r0, initial, sizeof(float)).ok());
      EXPECT_TRUE(ledger->on(r0, initial, now, effects).ok());
    }
  }
  Status try_push(Rank worker, std::uint32_t unit, Iteration iteration) {
    const wire::Push push{.unit = unit, .iteration = iteration};
    PACELINE_RETURN_IF_ERROR(ledger->on_begin(worker, push, sizeof(float)));
    return ledger->on(worker, push, now, effects);
  }
  std::vector<Applied> push(Rank worker, std::uint32_t unit, Iteration iteration) {
    const Status pushed = try_push(worker, unit, iteration);
    EXPECT_TRUE(pushed.ok()) << pushed.message();
    return made();
  }
  std::vector<Applied> leave(Rank worker) {
    EXPECT_TRUE(ledger->on_left(worker, now, effects).ok());
    return made();
  }
  Status join(Rank worker, Iteration first) { return ledger->on_joined(worker, first, now, effects); }
  std::vector<Applied> made() {
    std::vector<Applied> all;
    while (const auto update = ledger->next()) {
      all.push_back({update->unit, update->iteration, {update->workers.begin(), update->workers.end()}, update->scale});
      ledger->on_updated(*update, now, effects);
    }
    return all;
  }

  std::unique_ptr<ServerLedger> ledger;
  ServerLedger::Effects effects;
  TimePoint now{};
};

TEST(ServerLedger, AppliesAUnitWhenAllHavePushedItInRankOrderWithTheMean) {
  Ledger server(bsp(), 3, 2);
  EXPECT_THAT(server.push(r2, 0, 1), IsEmpty());
  EXPECT_THAT(server.push(r0, 0, 1), IsEmpty());
  EXPECT_THAT(server.push(r1, 1, 1), IsEmpty());
  EXPECT_THAT(server.push(r1, 0, 1), ElementsAre(Applied{0, 1, {r0, r1, r2}, 1.0 / 3}));
}

TEST(ServerLedger, ALostWorkerIsNoLongerWaitedForAndItsPushStays) {
  Ledger server(bsp(), 3, 2);
  server.push(r0, 0, 1);
  server.push(r0, 1, 1);
  server.push(r1, 0, 1);
  server.push(r1, 1, 1);
  server.push(r2, 1, 1);  // completes unit 1; unit 0 of worker 2 never comes
  EXPECT_THAT(server.leave(r2), ElementsAre(Applied{0, 1, {r0, r1}, 0.5}));

  server.push(r1, 0, 2);
  EXPECT_THAT(server.leave(r1), IsEmpty());  // worker 0 still has to push
  EXPECT_THAT(server.push(r0, 0, 2), ElementsAre(Applied{0, 2, {r0, r1}, 0.5}));
}

TEST(ServerLedger, ThePushesOfTheLastWorkerToLeaveAreApplied) {
  Ledger server(bsp(), 2);
  server.push(r0, 0, 1);
  EXPECT_THAT(server.leave(r0), IsEmpty());
  EXPECT_THAT(server.leave(r1), ElementsAre(Applied{0, 1, {r0}, 1.0}));
}

TEST(ServerLedger, AWorkerJoinsAtAnIterationThatNobodyHasPushed) {
  Ledger server(bsp(), 3);
  server.leave(r2);
  server.push(r0, 0, 1);
  EXPECT_EQ(server.ledger->earliest_join(), 2);
  EXPECT_THAT(server.join(r2, 1).message(), HasSubstr("the earliest is 2"));
  ASSERT_TRUE(server.join(r2, 2).ok());
  EXPECT_THAT(server.push(r1, 0, 1), ElementsAre(Applied{0, 1, {r0, r1}, 0.5}));
  server.push(r0, 0, 2);
  server.push(r1, 0, 2);
  EXPECT_THAT(server.push(r2, 0, 2), ElementsAre(Applied{0, 2, {r0, r1, r2}, 1.0 / 3}));
}

TEST(ServerLedger, ResumesAtALaterIteration) {
  EXPECT_THAT(Ledger(bsp(), 1, 1, 501).push(r0, 0, 501), ElementsAre(Applied{0, 501, {r0}, 1.0}));
}

TEST(ServerLedger, InAspAppliesAtOnceAtFullStep) {
  Ledger server(asp(), 2);
  for (Iteration i = 1; i <= 50; ++i) EXPECT_THAT(server.push(r0, 0, i), ElementsAre(Applied{0, i, {r0}, 1.0}));
}

TEST(ServerLedger, InElasticBspTheFirstIterationsAreSummedAndLaterPushesAppliedAtOnce) {
  Ledger server(elastic(1), 2);
  EXPECT_THAT(server.push(r0, 0, 1), IsEmpty());
  EXPECT_THAT(server.push(r1, 0, 1), ElementsAre(Applied{0, 1, {r0, r1}, 0.5}));
  EXPECT_THAT(server.push(r0, 0, 2), ElementsAre(Applied{0, 2, {r0}, 1.0}));
}

TEST(ServerLedger, AnotherGradientScaleOverridesTheModels) {
  sync::SyncOptions options = ssp(3);
  options.scale = sync::GradientScale::kMean;
  EXPECT_THAT(Ledger(options, 2).push(r1, 0, 1), ElementsAre(Applied{0, 1, {r1}, 0.5}));
  options = bsp();
  options.scale = sync::GradientScale::kFull;
  EXPECT_THAT(Ledger(options, 1).push(r0, 0, 1), ElementsAre(Applied{0, 1, {r0}, 1.0}));
  Ledger server(options, 2);
  server.push(r0, 0, 1);
  EXPECT_THAT(server.push(r1, 0, 1), ElementsAre(Applied{0, 1, {r0, r1}, 1.0}));
}

TEST(ServerLedger, RefusesWrongPushesAndStaysAsItWas) {
  for (const sync::SyncOptions& options : {bsp(), asp(), ssp(1), elastic(1)}) {
    Ledger server(options, 2, 2);
    const auto refused = [&](Rank worker, std::uint32_t unit, Iteration iteration) {
      const Status status = server.try_push(worker, unit, iteration);
      EXPECT_FALSE(server.ledger->next());
      return status.message();
    };
    EXPECT_THAT(refused(r3, 0, 1), HasSubstr("worker 3"));
    EXPECT_THAT(refused(r0, 2, 1), HasSubstr("the job has 2 units"));
    EXPECT_THAT(refused(r0, 0, 2), HasSubstr("expected is iteration 1"));
    server.push(r0, 0, 1);
    EXPECT_THAT(refused(r0, 0, 1), HasSubstr("expected is iteration 2"));
    EXPECT_THAT(refused(r0, 0, 2), HasSubstr("before"));
    EXPECT_EQ(server.ledger->on_left(r3, server.now, server.effects).kind(), ErrorKind::kBadRequest);
    EXPECT_FALSE(server.join(r1, 5).ok());
    server.leave(r1);
    EXPECT_THAT(refused(r1, 0, 1), HasSubstr("has left the job"));
  }
}

// Remembers every push ever made, and looks through all of them after each event.
class Twin {
 public:
  explicit Twin(std::int32_t workers) {
    for (std::int32_t worker = 0; worker < workers; ++worker) live_[Rank{worker}] = 1;
  }
  bool takes_part(Rank worker) const { return live_.contains(worker); }
  bool anybody() const { return !live_.empty(); }
  void on_joined(Rank worker, Iteration first) { live_[worker] = first; }
  std::vector<Applied> on_left(Rank worker) {
    live_.erase(worker);
    return released();
  }
  std::vector<Applied> on_push(Rank worker, std::uint32_t unit, Iteration iteration) {
    waiting_[{iteration, unit}].insert(worker);
    pushed_.insert({worker, unit, iteration});
    newest_ = std::max(newest_, iteration);
    return released();
  }
  bool has_pushed(Rank worker, std::uint32_t unit, Iteration iteration) const {
    return pushed_.contains({worker, unit, iteration});
  }
  Iteration first(Rank worker) const { return live_.at(worker); }
  Iteration newest() const { return newest_; }

 private:
  std::vector<Applied> released() {
    std::vector<Applied> all;
    for (auto at = waiting_.begin(); at != waiting_.end();) {
      const auto [iteration, unit] = at->first;
      const bool complete = std::ranges::all_of(
          live_, [&](const auto& worker) { return worker.second > iteration || has_pushed(worker.first, unit, iteration); });
      if (!complete) {
        ++at;
        continue;
      }
      all.push_back({unit, iteration, {at->second.begin(), at->second.end()}, 1.0 / static_cast<double>(at->second.size())});
      at = waiting_.erase(at);
    }
    return all;
  }

  std::map<Rank, Iteration> live_;  // and their first iterations
  std::map<std::pair<Iteration, std::uint32_t>, std::set<Rank>> waiting_;
  std::set<std::tuple<Rank, std::uint32_t, Iteration>> pushed_;
  Iteration newest_ = 0;
};

TEST(ServerLedger, GivesWhatLookingThroughAllPushesGivesWhoeverLeavesAndComesBack) {
  std::int64_t joined = 0, left = 0;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const auto workers = static_cast<std::int32_t>(1 + random() % 5);
    const auto units = static_cast<std::uint32_t>(1 + random() % 3);
    Ledger fast(bsp(), workers, static_cast<std::int32_t>(units));
    Twin slow(workers);
    std::vector<Iteration> version(units, 0);  // by the twin's updates
    const auto apply = [&](const std::vector<Applied>& updates) {
      for (const Applied& update : updates) version[update.unit] = update.iteration;
      return updates;
    };
    for (int step = 0; step < 150 && slow.anybody(); ++step) {
      const Rank worker{static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(workers))};
      const Iteration running = *std::ranges::min_element(version) + 1;
      if (!slow.takes_part(worker)) {
        if (random() % 4 != 0) continue;
        const Iteration first = std::max(running, slow.newest() + 1);  // which nobody has pushed
        if (fast.ledger->earliest_join() > first) continue;
        ASSERT_TRUE(fast.join(worker, first).ok());
        slow.on_joined(worker, first);
        ++joined;
      } else if (random() % 24 == 0) {
        ASSERT_EQ(fast.leave(worker), apply(slow.on_left(worker))) << "step " << step;
        ++left;
      } else {
        const auto unit = static_cast<std::uint32_t>(random() % units);
        if (slow.first(worker) > running || slow.has_pushed(worker, unit, running)) continue;
        ASSERT_EQ(fast.push(worker, unit, running), apply(slow.on_push(worker, unit, running))) << "step " << step;
      }
    }
  }
  EXPECT_GT(joined, 1000);
  EXPECT_GT(left, 5000);
}

}  // namespace
}  // namespace paceline::paramserver

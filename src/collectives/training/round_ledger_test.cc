#include "collectives/training/round_ledger.h"

#include <deque>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exchange/account.h"

namespace paceline::collectives {
namespace {

using Kind = RoundLedger::Action::Kind;
using exchange::GateLedger;
using ::testing::ElementsAre;

// Layers of one tensor each.
std::shared_ptr<const job::Plan> plan_of(std::int32_t layers, std::int32_t workers, double clip_norm = 0) {
  wire::TensorTable table;
  for (std::int32_t layer = 0; layer < layers; ++layer) {
    table.tensors.push_back({fmt::format("t{}", layer), "float32", {10 + layer}, Layer{layer}});
    table.layers.push_back(fmt::format("l{}", layer));
  }
  job::PlanOptions options;
  options.workers = workers;
  options.schedule = scheduling::layer_wise();
  options.schedule.cut = scheduling::whole_tensors();
  options.update.clip_norm = clip_norm;
  return job::Plan::make(table, options).value();
}

TimePoint at(int milliseconds) { return TimePoint{} + std::chrono::milliseconds(milliseconds); }

// A worker's two ledgers.
struct Bench {
  Bench(std::shared_ptr<const job::Plan> plan, Rank rank, TrainingOptions options)
      : gates(std::move(plan), rank, gate_rule(options)), book(gates), core(gates, rank, options, &book) {}
  exchange::GateLedger gates;
  exchange::AccountBook book;
  RoundLedger core;
};

void stage(Bench& bench, const std::vector<GateLedger::Complete>& complete, RoundLedger::Actions& actions) {
  for (const auto& unit : complete) bench.core.on_staged(unit, at(0), actions);
}

void end_backward(Bench& bench, RoundLedger::Actions& actions) {
  bench.gates.next_iteration();
  bench.core.on_free(at(0), actions);
}

RoundLedger::Actions ready(Bench& bench, std::uint32_t tensor) {
  std::vector<GateLedger::Complete> complete;
  RoundLedger::Actions actions;
  EXPECT_TRUE(bench.gates.on_gradient(tensor, complete).ok());
  stage(bench, complete, actions);
  return actions;
}

RoundLedger::Actions backward_done(Bench& bench, std::vector<std::uint32_t> unused = {}) {
  std::vector<GateLedger::Complete> complete;
  RoundLedger::Actions actions;
  const Status status = bench.gates.on_backward_done(bench.gates.current(), unused, complete);
  EXPECT_TRUE(status.ok()) << status.message();
  stage(bench, complete, actions);
  end_backward(bench, actions);
  return actions;
}

void start(Bench& bench) {
  RoundLedger::Actions actions;
  bench.core.on_start(at(0), actions);
  for (const auto& action : RoundLedger::Actions(actions)) bench.core.on_broadcast(action.unit, at(0));
}

TEST(RoundLedger, WithOverlapReducesBeginFromTheLastUnitWhateverTheOrderOfTheGradients) {
  Bench bench(plan_of(3, 2), Rank{0}, {.loop = Loop::kThreeOverlap});
  start(bench);
  EXPECT_THAT(ready(bench, 0), ElementsAre());
  EXPECT_THAT(ready(bench, 2), ElementsAre(RoundLedger::Action{Kind::kReduce, 2}));
  EXPECT_THAT(ready(bench, 1), ElementsAre(RoundLedger::Action{Kind::kReduce, 1}, RoundLedger::Action{Kind::kReduce, 0}));
}

TEST(RoundLedger, WithoutOverlapReducesBeginInForwardOrderWhenBackwardIsOver) {
  Bench bench(plan_of(3, 2), Rank{0}, {.loop = Loop::kThree});
  start(bench);
  for (const std::uint32_t tensor : {2, 0, 1}) EXPECT_THAT(ready(bench, tensor), ElementsAre());
  EXPECT_THAT(backward_done(bench), ElementsAre(RoundLedger::Action{Kind::kReduce, 0}, RoundLedger::Action{Kind::kReduce, 1},
                                                RoundLedger::Action{Kind::kReduce, 2}));
}

TEST(RoundLedger, NothingIsUpdatedWhileBackwardMayReadTheParameters) {
  Bench bench(plan_of(2, 2), Rank{0}, {.loop = Loop::kThreeOverlap});
  start(bench);
  EXPECT_THAT(ready(bench, 1), ElementsAre(RoundLedger::Action{Kind::kReduce, 1}));
  RoundLedger::Actions actions;
  bench.core.on_reduced(1, at(1), actions);
  EXPECT_THAT(actions, ElementsAre());
  EXPECT_THAT(ready(bench, 0), ElementsAre(RoundLedger::Action{Kind::kReduce, 0}));
  EXPECT_THAT(backward_done(bench), ElementsAre(RoundLedger::Action{Kind::kUpdate, 1}));
  bench.core.on_reduced(0, at(2), actions);
  EXPECT_THAT(actions, ElementsAre(RoundLedger::Action{Kind::kUpdate, 0}));
}

TEST(RoundLedger, AllIsUpdatedWhenTheLastUnitOfARoundIsAndNotAtTheStart) {
  Bench bench(plan_of(2, 2), Rank{0}, {.loop = Loop::kThree});
  start(bench);
  EXPECT_FALSE(bench.core.all_updated()) << "rank 0's own values at the start are no update";
  for (int round = 0; round < 2; ++round) {
    RoundLedger::Actions actions;
    for (const std::uint32_t tensor : {1, 0}) ready(bench, tensor);
    EXPECT_FALSE(bench.core.all_updated());
    backward_done(bench);
    for (const std::uint32_t unit : {0, 1}) {
      bench.core.on_reduced(unit, at(1), actions);
      EXPECT_FALSE(bench.core.all_updated());
    }
    bench.core.on_updated(1, at(2), actions);
    EXPECT_FALSE(bench.core.all_updated());
    bench.core.on_updated(0, at(2), actions);
    EXPECT_TRUE(bench.core.all_updated());
  }
}

TEST(RoundLedger, OfTheFirstLoopOnlyTheLastRankUpdatesAndTheOthersAwaitItsWeights) {
  const auto plan = plan_of(2, 3);
  Bench root(plan, Rank{2}, {.loop = Loop::kOne}), other(plan, Rank{0}, {.loop = Loop::kOne});
  for (Bench* core : {&root, &other}) {
    start(*core);
    ready(*core, 1);
    ready(*core, 0);
  }
  EXPECT_TRUE(root.core.updates_here());
  EXPECT_FALSE(other.core.updates_here());
  EXPECT_THAT(backward_done(root), ElementsAre());
  EXPECT_THAT(backward_done(other),
              ElementsAre(RoundLedger::Action{Kind::kBroadcast, 0}, RoundLedger::Action{Kind::kBroadcast, 1}));
  EXPECT_EQ(other.core.broadcast_root(), Rank{2});

  RoundLedger::Actions actions;
  root.core.on_reduced(1, at(1), actions);
  EXPECT_THAT(std::exchange(actions, {}), ElementsAre(RoundLedger::Action{Kind::kUpdate, 1}));
  root.core.on_updated(1, at(2), actions);
  EXPECT_THAT(actions, ElementsAre()) << "the others receive layer 0 first";
  EXPECT_TRUE(root.gates.open(Layer{1}, 2)) << "its own weights are there";
  root.core.on_reduced(0, at(3), actions);
  EXPECT_THAT(std::exchange(actions, {}), ElementsAre(RoundLedger::Action{Kind::kUpdate, 0}));
  root.core.on_updated(0, at(4), actions);
  EXPECT_THAT(std::exchange(actions, {}),
              ElementsAre(RoundLedger::Action{Kind::kBroadcast, 0}, RoundLedger::Action{Kind::kBroadcast, 1}));
  EXPECT_FALSE(root.core.takes_gradients()) << "its weights are still being sent";
  for (const std::uint32_t unit : {0, 1}) root.core.on_broadcast(unit, at(5));
  EXPECT_TRUE(root.core.takes_gradients());

  for (const std::uint32_t unit : {1, 0}) other.core.on_reduced(unit, at(3), actions);
  EXPECT_THAT(actions, ElementsAre());
  EXPECT_FALSE(other.gates.open(Layer{0}, 2));
  other.core.on_broadcast(0, at(6));
  EXPECT_TRUE(other.gates.open(Layer{0}, 2));
  EXPECT_FALSE(other.gates.open(Layer{1}, 2));
}

TEST(RoundLedger, AJoinedLoopOpensAllLayersAtOnce) {
  Bench bench(plan_of(2, 2), Rank{1}, {.loop = Loop::kThree});
  start(bench);
  backward_done(bench, {0, 1});
  RoundLedger::Actions actions;
  bench.core.on_reduced(0, at(1), actions);
  bench.core.on_updated(0, at(1), actions);
  EXPECT_FALSE(bench.gates.open(Layer{0}, 2));
  bench.core.on_reduced(1, at(1), actions);
  bench.core.on_updated(1, at(1), actions);
  EXPECT_TRUE(bench.gates.open(Layer{0}, 2));
}

TEST(RoundLedger, WeightsAreBroadcastInEveryNthIterationOnly) {
  Bench bench(plan_of(1, 2), Rank{1}, {.loop = Loop::kThree, .broadcast_every = 3});
  start(bench);
  for (Iteration iteration = 1; iteration <= 9; ++iteration) {
    ready(bench, 0);
    backward_done(bench);
    RoundLedger::Actions actions;
    bench.core.on_reduced(0, at(1), actions);
    actions.clear();
    bench.core.on_updated(0, at(1), actions);
    EXPECT_EQ(actions.size(), iteration % 3 == 0 ? 1U : 0U) << iteration;
    EXPECT_EQ(bench.gates.all_open(iteration + 1), iteration % 3 != 0) << "the weights that come are those of rank 0";
    EXPECT_EQ(bench.core.broadcast_root(), Rank{0});
    if (!actions.empty()) bench.core.on_broadcast(0, at(2));
    EXPECT_TRUE(bench.gates.all_open(iteration + 1));
  }
}

TEST(RoundLedger, ClippingWaitsForAllSums) {
  Bench bench(plan_of(2, 2, 0.5), Rank{0}, {.loop = Loop::kThreeOverlap});
  start(bench);
  for (const std::uint32_t tensor : {1, 0}) ready(bench, tensor);
  RoundLedger::Actions actions;
  bench.core.on_reduced(1, at(1), actions);
  EXPECT_THAT(actions, ElementsAre());
  EXPECT_THAT(backward_done(bench), ElementsAre(RoundLedger::Action{Kind::kInspect, 1}));
  EXPECT_EQ(bench.core.on_inspected(actions), RoundLedger::Inspection::kMore);
  bench.core.on_reduced(0, at(2), actions);
  EXPECT_THAT(std::exchange(actions, {}), ElementsAre(RoundLedger::Action{Kind::kInspect, 0}));
  EXPECT_EQ(bench.core.on_inspected(actions), RoundLedger::Inspection::kAll);
  EXPECT_THAT(actions, ElementsAre(RoundLedger::Action{Kind::kUpdate, 0}, RoundLedger::Action{Kind::kUpdate, 1}));
}

TEST(RoundLedger, WhatDoesNotFitIsRefusedNamingIt) {
  Bench bench(plan_of(2, 2), Rank{0}, {.loop = Loop::kThree});
  start(bench);
  std::vector<GateLedger::Complete> complete;
  EXPECT_THAT(bench.gates.on_gradient(2, complete).message(), ::testing::HasSubstr("tensor 2; the model has 2"));
  ready(bench, 0);
  EXPECT_THAT(bench.gates.on_gradient(0, complete).message(), ::testing::HasSubstr("the gradient of \"t0\" came twice"));
  EXPECT_THAT(bench.gates.on_backward_done(1, {}, complete).message(), ::testing::HasSubstr("tensor 1 \"t1\" has neither"));
  const std::vector<std::uint32_t> unused = {0};
  EXPECT_THAT(bench.gates.on_backward_done(1, unused, complete).message(), ::testing::HasSubstr("tensor 0 cannot be unused"));
  EXPECT_THAT(bench.gates.on_backward_done(2, {}, complete).message(),
              ::testing::HasSubstr("backward of iteration 2 is over in iteration 1"));
  EXPECT_FALSE(bench.gates.open(Layer{0}, 2)) << "nothing has changed";
}

TEST(RoundLedger, ExposedTimeIsSplitIntoSumUpdateAndWeights) {
  const auto plan = plan_of(1, 3);
  Bench root(plan, Rank{2}, {.loop = Loop::kOne}), other(plan, Rank{0}, {.loop = Loop::kOne});
  for (Bench* core : {&root, &other}) {
    start(*core);
    static_cast<void>(core->book.take(at(0)));
    RoundLedger::Actions actions;
    ready(*core, 0);
    backward_done(*core);
    core->core.on_reduced(0, at(10), actions);
  }
  RoundLedger::Actions actions;
  root.core.on_updated(0, at(13), actions);
  root.book.on_event(wire::during(at(4), at(14), {.what = wire::Happening::kGate, .iteration = 2}));
  const auto of_root = root.book.take(at(14));
  EXPECT_EQ(of_root.push, std::chrono::milliseconds(6));
  EXPECT_EQ(of_root.update, std::chrono::milliseconds(3));
  EXPECT_EQ(of_root.overlapped_push, std::chrono::milliseconds(4)) << "from 0 to 4";
  other.core.on_broadcast_begins(0, at(20));
  other.core.on_broadcast(0, at(25));
  other.book.on_event(wire::during(at(4), at(25), {.what = wire::Happening::kGate, .iteration = 2}));
  const auto of_other = other.book.take(at(25));
  EXPECT_EQ(of_other.push, std::chrono::milliseconds(6));
  EXPECT_EQ(of_other.wait, std::chrono::milliseconds(10));
  EXPECT_EQ(of_other.pull, std::chrono::milliseconds(5));
  EXPECT_EQ(of_other.update, Duration{});
}

// All ranks of a job, with gradients in an order of their own each, sums and weights that arrive in any order: operations are begun
// in the same order everywhere, everything ends, and no rank ever has two rounds at once.
TEST(RoundLedger, AllRanksBeginTheSameOperationsInTheSameOrder) {
  for (std::uint32_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937 random(seed);
    const auto loop = static_cast<Loop>(random() % 4);
    const auto workers = static_cast<std::int32_t>(1 + random() % 4);
    const auto layers = static_cast<std::int32_t>(1 + random() % 5);
    const Iteration period = updates_everywhere(loop) ? static_cast<Iteration>(random() % 3) : 0;
    const auto plan = plan_of(layers, workers, random() % 3 == 0 ? 1 : 0);
    struct Of {
      Bench bench;
      std::vector<RoundLedger::Action> begun;       // operations, in order
      std::vector<RoundLedger::Action> unfinished;  // what has begun and is not over
      std::vector<std::uint32_t> gradients;         // of the current iteration, still to come
    };
    std::vector<std::unique_ptr<Of>> ranks;
    const auto take = [&](Of& of, const RoundLedger::Actions& actions) {
      for (const auto& action : actions) {
        if (action.kind == Kind::kReduce || action.kind == Kind::kBroadcast) of.begun.push_back(action);
        of.unfinished.push_back(action);
      }
    };
    constexpr Iteration kLast = 4;
    for (std::int32_t rank = 0; rank < workers; ++rank) {
      ranks.push_back(std::unique_ptr<Of>(new Of{Bench(plan, Rank{rank}, {.loop = loop, .broadcast_every = period}), {}, {}, {}}));
      RoundLedger::Actions actions;
      ranks.back()->bench.core.on_start(at(0), actions);
      take(*ranks.back(), actions);
    }
    int steps = 0;
    const auto all_done = [&] {
      return std::all_of(ranks.begin(), ranks.end(),
                         [&](const auto& of) { return of->bench.gates.all_open(kLast + 1) && of->unfinished.empty(); });
    };
    for (; steps < 20'000 && !all_done(); ++steps) {
      Of& of = *ranks[random() % ranks.size()];
      RoundLedger::Actions actions;
      if (!of.unfinished.empty() && random() % 2 == 0) {
        const auto which = of.unfinished.begin() + static_cast<std::ptrdiff_t>(random() % of.unfinished.size());
        const RoundLedger::Action action = *which;
        of.unfinished.erase(which);
        if (action.kind == Kind::kReduce) of.bench.core.on_reduced(action.unit, at(0), actions);
        if (action.kind == Kind::kBroadcast) of.bench.core.on_broadcast(action.unit, at(0));
        if (action.kind == Kind::kInspect) static_cast<void>(of.bench.core.on_inspected(actions));
        if (action.kind == Kind::kUpdate) of.bench.core.on_updated(action.unit, at(0), actions);
      } else if (of.bench.gates.current() <= kLast && of.bench.gates.all_open(of.bench.gates.current()) &&
                 of.bench.core.takes_gradients()) {
        if (of.gradients.empty()) {
          for (std::int32_t tensor = 0; tensor < layers; ++tensor) of.gradients.push_back(static_cast<std::uint32_t>(tensor));
          std::shuffle(of.gradients.begin(), of.gradients.end(), random);
        }
        std::vector<GateLedger::Complete> complete;
        const std::uint32_t tensor = of.gradients.back();
        of.gradients.pop_back();
        const bool unused = random() % 4 == 0 && of.gradients.empty();
        if (!unused) {
          ASSERT_TRUE(of.bench.gates.on_gradient(tensor, complete).ok());
        }
        if (of.gradients.empty()) {
          const std::vector<std::uint32_t> none = unused ? std::vector{tensor} : std::vector<std::uint32_t>();
          ASSERT_TRUE(of.bench.gates.on_backward_done(of.bench.gates.current(), none, complete).ok());
        }
        stage(of.bench, complete, actions);
        if (of.gradients.empty()) end_backward(of.bench, actions);
      }
      take(of, actions);
    }
    ASSERT_TRUE(all_done()) << "it stands still";
    for (const auto& of : ranks) {
      EXPECT_EQ(of->begun, ranks[0]->begun);
      EXPECT_GE(of->begun.size(), static_cast<std::size_t>(layers) * (1 + kLast));
    }
  }
}

}  // namespace
}  // namespace paceline::collectives

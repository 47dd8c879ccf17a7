#include "collectives/training/loop_core.h"

#include <deque>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::collectives {
namespace {

using Kind = LoopCore::Action::Kind;
using ::testing::ElementsAre;

// Layers of one tensor each.
std::shared_ptr<const paramserver::JobPlan> plan_of(std::int32_t layers, std::int32_t workers, double clip_norm = 0) {
  wire::TensorTable table;
  for (std::int32_t layer = 0; layer < layers; ++layer) {
    table.tensors.push_back({fmt::format("t{}", layer), "float32", {10 + layer}, Layer{layer}});
    table.layers.push_back(fmt::format("l{}", layer));
  }
  paramserver::JobOptions options;
  options.workers = workers;
  options.schedule = scheduling::layer_wise();
  options.schedule.cut = scheduling::whole_tensors();
  options.update.clip_norm = clip_norm;
  return paramserver::JobPlan::make(table, options).value();
}

TimePoint at(int milliseconds) { return TimePoint{} + std::chrono::milliseconds(milliseconds); }

LoopCore::Actions ready(LoopCore& core, std::uint32_t tensor) {
  std::vector<std::uint32_t> complete;
  LoopCore::Actions actions;
  EXPECT_TRUE(core.on_gradient_ready(tensor, complete).ok());
  core.on_staged(complete, at(0), actions);
  return actions;
}

LoopCore::Actions backward_done(LoopCore& core, std::vector<std::uint32_t> unused = {}) {
  std::vector<std::uint32_t> complete;
  LoopCore::Actions actions;
  const Status status = core.on_backward_done(core.current(), unused, complete);
  EXPECT_TRUE(status.ok()) << status.message();
  core.on_staged(complete, at(0), actions);
  core.on_free(at(0), actions);
  return actions;
}

void start(LoopCore& core) {
  LoopCore::Actions actions;
  core.on_start(at(0), actions);
  for (const auto& action : LoopCore::Actions(actions)) core.on_broadcast(action.unit, at(0), actions);
}

TEST(LoopCore, WithOverlapReducesBeginFromTheLastUnitWhateverTheOrderOfTheGradients) {
  LoopCore core(plan_of(3, 2), Rank{0}, {.loop = Loop::kThreeOverlap});
  start(core);
  EXPECT_THAT(ready(core, 0), ElementsAre());
  EXPECT_THAT(ready(core, 2), ElementsAre(LoopCore::Action{Kind::kReduce, 2}));
  EXPECT_THAT(ready(core, 1), ElementsAre(LoopCore::Action{Kind::kReduce, 1}, LoopCore::Action{Kind::kReduce, 0}));
}

TEST(LoopCore, WithoutOverlapReducesBeginInForwardOrderWhenBackwardIsOver) {
  LoopCore core(plan_of(3, 2), Rank{0}, {.loop = Loop::kThree});
  start(core);
  for (const std::uint32_t tensor : {2, 0, 1}) EXPECT_THAT(ready(core, tensor), ElementsAre());
  EXPECT_THAT(backward_done(core), ElementsAre(LoopCore::Action{Kind::kReduce, 0}, LoopCore::Action{Kind::kReduce, 1},
                                               LoopCore::Action{Kind::kReduce, 2}));
}

TEST(LoopCore, NothingIsUpdatedWhileBackwardMayReadTheParameters) {
  LoopCore core(plan_of(2, 2), Rank{0}, {.loop = Loop::kThreeOverlap});
  start(core);
  EXPECT_THAT(ready(core, 1), ElementsAre(LoopCore::Action{Kind::kReduce, 1}));
  LoopCore::Actions actions;
  core.on_reduced(1, at(1), actions);
  EXPECT_THAT(actions, ElementsAre());
  EXPECT_THAT(ready(core, 0), ElementsAre(LoopCore::Action{Kind::kReduce, 0}));
  EXPECT_THAT(backward_done(core), ElementsAre(LoopCore::Action{Kind::kUpdate, 1}));
  core.on_reduced(0, at(2), actions);
  EXPECT_THAT(actions, ElementsAre(LoopCore::Action{Kind::kUpdate, 0}));
}

TEST(LoopCore, AllIsUpdatedWhenTheLastUnitOfARoundIsAndNotAtTheStart) {
  LoopCore core(plan_of(2, 2), Rank{0}, {.loop = Loop::kThree});
  start(core);
  EXPECT_FALSE(core.all_updated()) << "rank 0's own values at the start are no update";
  for (int round = 0; round < 2; ++round) {
    LoopCore::Actions actions;
    for (const std::uint32_t tensor : {1, 0}) ready(core, tensor);
    EXPECT_FALSE(core.all_updated());
    backward_done(core);
    for (const std::uint32_t unit : {0, 1}) {
      core.on_reduced(unit, at(1), actions);
      EXPECT_FALSE(core.all_updated());
    }
    core.on_updated(1, at(2), actions);
    EXPECT_FALSE(core.all_updated());
    core.on_updated(0, at(2), actions);
    EXPECT_TRUE(core.all_updated());
  }
}

TEST(LoopCore, OfTheFirstLoopOnlyTheLastRankUpdatesAndTheOthersAwaitItsWeights) {
  const auto plan = plan_of(2, 3);
  LoopCore root(plan, Rank{2}, {.loop = Loop::kOne}), other(plan, Rank{0}, {.loop = Loop::kOne});
  for (LoopCore* core : {&root, &other}) {
    start(*core);
    ready(*core, 1);
    ready(*core, 0);
  }
  EXPECT_TRUE(root.updates_here());
  EXPECT_FALSE(other.updates_here());
  EXPECT_THAT(backward_done(root), ElementsAre());
  EXPECT_THAT(backward_done(other), ElementsAre(LoopCore::Action{Kind::kBroadcast, 0}, LoopCore::Action{Kind::kBroadcast, 1}));
  EXPECT_EQ(other.broadcast_root(), Rank{2});

  LoopCore::Actions actions;
  root.on_reduced(1, at(1), actions);
  EXPECT_THAT(std::exchange(actions, {}), ElementsAre(LoopCore::Action{Kind::kUpdate, 1}));
  root.on_updated(1, at(2), actions);
  EXPECT_THAT(actions, ElementsAre()) << "the others receive layer 0 first";
  EXPECT_TRUE(root.layer_open(Layer{1}, 2)) << "its own weights are there";
  root.on_reduced(0, at(3), actions);
  EXPECT_THAT(std::exchange(actions, {}), ElementsAre(LoopCore::Action{Kind::kUpdate, 0}));
  root.on_updated(0, at(4), actions);
  EXPECT_THAT(std::exchange(actions, {}),
              ElementsAre(LoopCore::Action{Kind::kBroadcast, 0}, LoopCore::Action{Kind::kBroadcast, 1}));
  EXPECT_FALSE(root.takes_gradients()) << "its weights are still being sent";
  for (const std::uint32_t unit : {0, 1}) root.on_broadcast(unit, at(5), actions);
  EXPECT_TRUE(root.takes_gradients());

  for (const std::uint32_t unit : {1, 0}) other.on_reduced(unit, at(3), actions);
  EXPECT_THAT(actions, ElementsAre());
  EXPECT_FALSE(other.layer_open(Layer{0}, 2));
  other.on_broadcast(0, at(6), actions);
  EXPECT_TRUE(other.layer_open(Layer{0}, 2));
  EXPECT_FALSE(other.layer_open(Layer{1}, 2));
}

TEST(LoopCore, AJoinedLoopOpensAllLayersAtOnce) {
  LoopCore core(plan_of(2, 2), Rank{1}, {.loop = Loop::kThree});
  start(core);
  backward_done(core, {0, 1});
  LoopCore::Actions actions;
  core.on_reduced(0, at(1), actions);
  core.on_updated(0, at(1), actions);
  EXPECT_FALSE(core.layer_open(Layer{0}, 2));
  core.on_reduced(1, at(1), actions);
  core.on_updated(1, at(1), actions);
  EXPECT_TRUE(core.layer_open(Layer{0}, 2));
}

TEST(LoopCore, WeightsAreBroadcastInEveryNthIterationOnly) {
  LoopCore core(plan_of(1, 2), Rank{1}, {.loop = Loop::kThree, .broadcast_every = 3});
  start(core);
  for (Iteration iteration = 1; iteration <= 9; ++iteration) {
    ready(core, 0);
    backward_done(core);
    LoopCore::Actions actions;
    core.on_reduced(0, at(1), actions);
    actions.clear();
    core.on_updated(0, at(1), actions);
    EXPECT_EQ(actions.size(), iteration % 3 == 0 ? 1U : 0U) << iteration;
    EXPECT_EQ(core.all_open(iteration + 1), iteration % 3 != 0) << "the weights that come are those of rank 0";
    EXPECT_EQ(core.broadcast_root(), Rank{0});
    if (!actions.empty()) core.on_broadcast(0, at(2), actions);
    EXPECT_TRUE(core.all_open(iteration + 1));
  }
}

TEST(LoopCore, ClippingWaitsForAllSums) {
  LoopCore core(plan_of(2, 2, 0.5), Rank{0}, {.loop = Loop::kThreeOverlap});
  start(core);
  for (const std::uint32_t tensor : {1, 0}) ready(core, tensor);
  LoopCore::Actions actions;
  core.on_reduced(1, at(1), actions);
  EXPECT_THAT(actions, ElementsAre());
  EXPECT_THAT(backward_done(core), ElementsAre(LoopCore::Action{Kind::kInspect, 1}));
  EXPECT_EQ(core.on_inspected(actions), LoopCore::Inspection::kMore);
  core.on_reduced(0, at(2), actions);
  EXPECT_THAT(std::exchange(actions, {}), ElementsAre(LoopCore::Action{Kind::kInspect, 0}));
  EXPECT_EQ(core.on_inspected(actions), LoopCore::Inspection::kAll);
  EXPECT_THAT(actions, ElementsAre(LoopCore::Action{Kind::kUpdate, 0}, LoopCore::Action{Kind::kUpdate, 1}));
}

TEST(LoopCore, WhatDoesNotFitIsRefusedNamingIt) {
  LoopCore core(plan_of(2, 2), Rank{0}, {.loop = Loop::kThree});
  start(core);
  std::vector<std::uint32_t> complete;
  EXPECT_THAT(core.on_gradient_ready(2, complete).message(), ::testing::HasSubstr("tensor 2 does not exist"));
  ready(core, 0);
  EXPECT_THAT(core.on_gradient_ready(0, complete).message(), ::testing::HasSubstr("tensor 0 \"t0\" got its gradient twice"));
  EXPECT_THAT(core.on_backward_done(1, {}, complete).message(), ::testing::HasSubstr("tensor 1 \"t1\" has neither"));
  const std::vector<std::uint32_t> unused = {0};
  EXPECT_THAT(core.on_backward_done(1, unused, complete).message(), ::testing::HasSubstr("tensor 0 cannot be unused"));
  EXPECT_THAT(core.on_backward_done(2, {}, complete).message(),
              ::testing::HasSubstr("backward of iteration 2 ended in iteration 1"));
  EXPECT_FALSE(core.layer_open(Layer{0}, 2)) << "nothing has changed";
}

TEST(LoopCore, ExposedTimeIsSplitIntoSumUpdateAndWeights) {
  const auto plan = plan_of(1, 3);
  LoopCore root(plan, Rank{2}, {.loop = Loop::kOne}), other(plan, Rank{0}, {.loop = Loop::kOne});
  for (LoopCore* core : {&root, &other}) {
    start(*core);
    static_cast<void>(core->take_account(at(0)));
    LoopCore::Actions actions;
    ready(*core, 0);
    backward_done(*core);
    core->on_reduced(0, at(10), actions);
  }
  LoopCore::Actions actions;
  root.on_updated(0, at(13), actions);
  root.account_gate(Layer{0}, 2, at(4), at(14));
  const auto of_root = root.take_account(at(14));
  EXPECT_EQ(of_root.push, std::chrono::milliseconds(6));
  EXPECT_EQ(of_root.update, std::chrono::milliseconds(3));
  EXPECT_EQ(of_root.overlapped_push, std::chrono::milliseconds(4)) << "from 0 to 4";
  other.on_broadcast_begins(0, at(20));
  other.on_broadcast(0, at(25), actions);
  other.account_gate(Layer{0}, 2, at(4), at(25));
  const auto of_other = other.take_account(at(25));
  EXPECT_EQ(of_other.push, std::chrono::milliseconds(6));
  EXPECT_EQ(of_other.wait, std::chrono::milliseconds(10));
  EXPECT_EQ(of_other.pull, std::chrono::milliseconds(5));
  EXPECT_EQ(of_other.update, Duration{});
}

// All ranks of a job, with gradients in an order of their own each, sums and weights that arrive in any order: operations are begun
// in the same order everywhere, everything ends, and no rank ever has two rounds at once.
TEST(LoopCore, AllRanksBeginTheSameOperationsInTheSameOrder) {
  for (std::uint32_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937 random(seed);
    const auto loop = static_cast<Loop>(random() % 4);
    const auto workers = static_cast<std::int32_t>(1 + random() % 4);
    const auto layers = static_cast<std::int32_t>(1 + random() % 5);
    const Iteration period = updates_everywhere(loop) ? static_cast<Iteration>(random() % 3) : 0;
    const auto plan = plan_of(layers, workers, random() % 3 == 0 ? 1 : 0);
    struct Of {
      LoopCore core;
      std::vector<LoopCore::Action> begun;       // operations, in order
      std::vector<LoopCore::Action> unfinished;  // what has begun and is not over
      std::vector<std::uint32_t> gradients;      // of the current iteration, still to come
    };
    std::vector<std::unique_ptr<Of>> ranks;
    const auto take = [&](Of& of, const LoopCore::Actions& actions) {
      for (const auto& action : actions) {
        if (action.kind == Kind::kReduce || action.kind == Kind::kBroadcast) of.begun.push_back(action);
        of.unfinished.push_back(action);
      }
    };
    constexpr Iteration kLast = 4;
    for (std::int32_t rank = 0; rank < workers; ++rank) {
      ranks.push_back(
          std::unique_ptr<Of>(new Of{LoopCore(plan, Rank{rank}, {.loop = loop, .broadcast_every = period}), {}, {}, {}}));
      LoopCore::Actions actions;
      ranks.back()->core.on_start(at(0), actions);
      take(*ranks.back(), actions);
    }
    int steps = 0;
    const auto all_done = [&] {
      return std::all_of(ranks.begin(), ranks.end(),
                         [&](const auto& of) { return of->core.all_open(kLast + 1) && of->unfinished.empty(); });
    };
    for (; steps < 20'000 && !all_done(); ++steps) {
      Of& of = *ranks[random() % ranks.size()];
      LoopCore::Actions actions;
      if (!of.unfinished.empty() && random() % 2 == 0) {
        const auto which = of.unfinished.begin() + static_cast<std::ptrdiff_t>(random() % of.unfinished.size());
        const LoopCore::Action action = *which;
        of.unfinished.erase(which);
        if (action.kind == Kind::kReduce) of.core.on_reduced(action.unit, at(0), actions);
        if (action.kind == Kind::kBroadcast) of.core.on_broadcast(action.unit, at(0), actions);
        if (action.kind == Kind::kInspect) static_cast<void>(of.core.on_inspected(actions));
        if (action.kind == Kind::kUpdate) of.core.on_updated(action.unit, at(0), actions);
      } else if (of.core.current() <= kLast && of.core.all_open(of.core.current()) && of.core.takes_gradients()) {
        if (of.gradients.empty()) {
          for (std::int32_t tensor = 0; tensor < layers; ++tensor) of.gradients.push_back(static_cast<std::uint32_t>(tensor));
          std::shuffle(of.gradients.begin(), of.gradients.end(), random);
        }
        std::vector<std::uint32_t> complete;
        const std::uint32_t tensor = of.gradients.back();
        of.gradients.pop_back();
        const bool unused = random() % 4 == 0 && of.gradients.empty();
        if (!unused) {
          ASSERT_TRUE(of.core.on_gradient_ready(tensor, complete).ok());
        }
        if (of.gradients.empty()) {
          const std::vector<std::uint32_t> none = unused ? std::vector{tensor} : std::vector<std::uint32_t>();
          ASSERT_TRUE(of.core.on_backward_done(of.core.current(), none, complete).ok());
        }
        of.core.on_staged(complete, at(0), actions);
        if (of.gradients.empty()) of.core.on_free(at(0), actions);
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

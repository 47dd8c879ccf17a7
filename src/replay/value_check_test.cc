#include "replay/value_check.h"

#include <cmath>
#include <numeric>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "collectives/plan/plan_player.h"
#include "job/testing.h"

namespace paceline::replay {
namespace {

using job::testing::give;

constexpr std::int64_t kElements = 3 * kPeriod + 77;

job::JobSpec settings_of(const std::string& sync, const std::string& optimizer) {
  job::JobSpec settings;
  settings.task.model = "replay:x";
  give(settings, "sync", sync);
  give(settings, "optimizer", optimizer);
  settings.task.iterations = 5;
  settings.task.seed = 3;
  return settings;
}

std::vector<float> initial_of(const Values& values) {
  std::vector<float> arena(kElements);
  for (std::int64_t i = 0; i < kElements; ++i)
    arena[static_cast<std::size_t>(i)] = values.initial()[static_cast<std::size_t>(i % kPeriod)];
  return arena;
}

std::vector<float> gradient_of(const Values& values, Rank rank, Iteration iteration) {
  std::vector<float> gradient;
  for (std::int64_t i = 0; i < kElements; ++i) gradient.push_back(values.gradient(rank, iteration, i));
  return gradient;
}

TEST(Values, RepeatingAPeriodGivesWhatTheIndexSays) {
  const Values values(1);
  std::vector<float> period(kPeriod);
  values.make_gradient(Rank{2}, 9, period);
  for (const std::int64_t offset : {std::int64_t{0}, std::int64_t{5}, kPeriod - 1, 10 * kPeriod + 3}) {
    std::vector<float> made(2 * kPeriod + 5);
    repeat(period, offset, made);
    for (std::size_t i = 0; i < made.size(); ++i)
      ASSERT_EQ(made[i], values.gradient(Rank{2}, 9, offset + static_cast<std::int64_t>(i)));
    EXPECT_EQ(first_difference(period, offset, made), std::nullopt);
    for (const std::size_t at : {std::size_t{0}, made.size() / 2, made.size() - 1}) {
      const float right = std::exchange(made[at], std::nextafter(made[at], 10.0f));
      EXPECT_EQ(first_difference(period, offset, made), at);
      made[at] = right;
    }
    EXPECT_NE(first_difference(period, offset + 50'000, made), std::nullopt) << "another slice has other numbers";
  }
}

TEST(ValueCheck, InBspItKnowsEveryBitOfEveryElement) {
  for (const auto* optimizer : {"sgd", "momentum", "nesterov", "adam", "adamw", "adagrad"}) {
    const job::JobSpec settings = settings_of("bsp", optimizer);
    auto check = ValueCheck::make(settings, Rank{1}, 3);
    ASSERT_TRUE(check.ok());
    const Values values(3);
    wire::TensorTable table;
    table.layers = {"a"};
    table.tensors = {{"a", "float32", {kElements}, Layer{0}, 0}};
    const auto rules = training::update_rules(settings, table);
    ASSERT_TRUE(rules.ok());
    training::ReferenceUpdate servers(*rules, table);
    std::vector<float> arena = initial_of(values);
    ValueCheck::Part part;
    for (Iteration iteration = 1; iteration <= 4; ++iteration) {
      EXPECT_FALSE(check->find_difference(0, arena, part)) << optimizer << " before " << iteration;
      EXPECT_FALSE(check->find_difference(100, std::span(arena).subspan(100, 200), part));
      std::vector<std::vector<float>> gradients;
      for (const int worker : {0, 1, 2}) gradients.push_back(gradient_of(values, Rank{worker}, iteration));
      ASSERT_TRUE(servers.apply(iteration, gradients, std::vector(3, std::vector<char>{1}), arena).ok());
      EXPECT_TRUE(check->find_difference(0, arena, part)) << "the values of the next iteration";
      ASSERT_TRUE(check->on_iteration(iteration).ok());
    }
    arena[kPeriod + 9] = std::nextafter(arena[kPeriod + 9], 100.0f);
    const auto found = check->find_difference(0, arena, part);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->index, static_cast<std::size_t>(kPeriod + 9));
  }
}

// Without servers the sum is taken in the order of the algorithm, which may be another one in each part of a unit.
TEST(ValueCheck, WithoutServersItKnowsTheBitsOfEveryLoopAndAlgorithm) {
  using collectives::Operation;
  const Values values(3);
  for (const std::string loop : {"loop1", "loop2", "loop3", "loop3-overlap"}) {
    const auto operation = loop.starts_with("loop3") ? Operation::kAllreduce : Operation::kReduce;
    for (const collectives::Algorithm algorithm : collectives::algorithms_for(operation)) {
      for (const int workers : {3, 4, 5}) {
        SCOPED_TRACE(fmt::format("{} by {}, {} workers", loop, to_string(algorithm), workers));
        job::JobSpec settings = settings_of("bsp", "momentum");
        give(settings, "collective", loop);
        settings.loop.algorithm = algorithm;
        auto check = ValueCheck::make(settings, Rank{1}, workers);
        ASSERT_TRUE(check.ok()) << check.status().message();
        // One unit of one tensor; behind its elements stands how often it was used.
        scheduling::Unit unit;
        unit.elements = kElements;
        const int root = operation == Operation::kReduce ? workers - 1 : 0;
        const auto plan = collectives::make_plan({operation, algorithm, workers, kElements + 1, 1000, root});
        ASSERT_TRUE(plan.ok());
        std::vector<std::vector<float>> buffers;
        for (int worker = 0; worker < workers; ++worker) {
          buffers.push_back(gradient_of(values, Rank{worker}, 1));
          buffers.back().push_back(1);
        }
        collectives::PlanPlayer<float> player(*plan, std::move(buffers), 0);
        std::vector<int> order(static_cast<std::size_t>(workers));
        std::iota(order.begin(), order.end(), 0);
        ASSERT_TRUE(player.play(order).ok());
        std::vector<float> arena = initial_of(values);
        const float share = 1.0F / static_cast<float>(workers);
        for (std::size_t i = 0; i < arena.size(); ++i) arena[i] -= 0.05F * (player.buffer(root)[i] * share);
        ASSERT_TRUE(check->on_iteration(1).ok());
        std::size_t begin = 0;
        for (const auto& run : check->additions().runs_of(unit)) {
          ValueCheck::Part part{.order = run.order};
          const auto at = std::span(arena).subspan(begin, static_cast<std::size_t>(run.elements));
          const auto wrong = check->find_difference(static_cast<std::int64_t>(begin), at, part);
          EXPECT_FALSE(wrong) << "element " << begin + wrong->index << " is " << at[wrong->index] << ", expected "
                              << wrong->expected;
          begin += at.size();
        }
        EXPECT_EQ(begin, arena.size());
      }
    }
  }
}

// Pushes of three workers in random orders: any mixture of them is right, one that lacks a part of a push is not.
TEST(ValueCheck, WithoutBarriersAValueMustLieOnItsLine) {
  const job::JobSpec settings = settings_of("asp", "sgd");
  const Values values(3);
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    auto check = ValueCheck::make(settings, Rank{1}, 3);
    ASSERT_TRUE(check.ok());
    std::vector<float> arena = initial_of(values);
    ValueCheck::Part part;
    Iteration next[3] = {1, 1, 1};
    const auto push = [&](int worker, std::size_t elements) {
      const auto gradient = gradient_of(values, Rank{worker}, next[worker]++);
      for (std::size_t i = 0; i < elements; ++i) arena[i] -= 0.05f * gradient[i];
    };
    for (Iteration iteration = 1; iteration <= 20; ++iteration) {
      ASSERT_FALSE(check->find_difference(0, arena, part)) << "seed " << seed << " iteration " << iteration;
      for (int others = std::uniform_int_distribution(0, 3)(random); others > 0; --others)
        push(random() % 2 == 0 ? 0 : 2, arena.size());
      const std::vector<float> without_own = arena;
      push(1, arena.size());
      ASSERT_TRUE(check->on_iteration(iteration).ok());
      if (next[0] > 1 || next[2] > 1) continue;
      EXPECT_TRUE(check->find_difference(0, without_own, part)) << "its own push is lost";
    }
    const std::vector<float> older = arena;
    push(0, arena.size() / 2);
    const auto torn = check->find_difference(0, arena, part);
    ASSERT_TRUE(torn) << "seed " << seed;
    EXPECT_EQ(torn->index, arena.size() / 2);
    push(2, arena.size());
    EXPECT_FALSE(check->find_difference(0, std::span(arena).first(100), part));
    EXPECT_TRUE(check->find_difference(0, std::span(older).first(100), part)) << "values went back";
    arena[50] = std::nanf("");
    EXPECT_EQ(check->find_difference(0, std::span(arena).first(100), part)->index, 50u);
  }
}

}  // namespace
}  // namespace paceline::replay

#include "replay/value_check.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace paceline::replay {
namespace {

constexpr std::int64_t kElements = 3 * kPeriod + 77;

runtime::JobSettings settings_of(const std::string& sync, const std::string& optimizer) {
  runtime::JobSettings settings;
  settings.model = "replay:x";
  settings.sync = sync;
  settings.optimizer = optimizer;
  settings.iterations = 5;
  settings.seed = 3;
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
  for (const auto* optimizer : {"sgd", "momentum", "nesterov", "adam", "adamw"}) {
    const runtime::JobSettings settings = settings_of("bsp", optimizer);
    auto check = ValueCheck::make(settings, Rank{1}, 3);
    ASSERT_TRUE(check.ok());
    const Values values(3);
    runtime::ReferenceUpdate servers(*runtime::update_rules(settings), [] {
      wire::TensorTable table;
      table.layers = {"a"};
      table.tensors = {{"a", "float32", {kElements}, Layer{0}, 0}};
      return table;
    }());
    std::vector<float> arena = initial_of(values);
    ValueCheck::Seen seen;
    for (Iteration iteration = 1; iteration <= 4; ++iteration) {
      EXPECT_FALSE(check->find_difference(0, arena, seen)) << optimizer << " before " << iteration;
      EXPECT_FALSE(check->find_difference(100, std::span(arena).subspan(100, 200), seen));
      std::vector<std::vector<float>> gradients;
      for (const int worker : {0, 1, 2}) gradients.push_back(gradient_of(values, Rank{worker}, iteration));
      ASSERT_TRUE(servers.apply(iteration, gradients, std::vector(3, std::vector<char>{1}), arena).ok());
      EXPECT_TRUE(check->find_difference(0, arena, seen)) << "the values of the next iteration";
      ASSERT_TRUE(check->on_iteration(iteration).ok());
    }
    arena[kPeriod + 9] = std::nextafter(arena[kPeriod + 9], 100.0f);
    const auto found = check->find_difference(0, arena, seen);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->index, static_cast<std::size_t>(kPeriod + 9));
  }
}

// Pushes of three workers in random orders: any mixture of them is right, one that lacks a part of a push is not.
TEST(ValueCheck, WithoutBarriersAValueMustLieOnItsLine) {
  const runtime::JobSettings settings = settings_of("asp", "sgd");
  const Values values(3);
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    auto check = ValueCheck::make(settings, Rank{1}, 3);
    ASSERT_TRUE(check.ok());
    std::vector<float> arena = initial_of(values);
    ValueCheck::Seen seen;
    Iteration next[3] = {1, 1, 1};
    const auto push = [&](int worker, std::size_t elements) {
      const auto gradient = gradient_of(values, Rank{worker}, next[worker]++);
      for (std::size_t i = 0; i < elements; ++i) arena[i] -= 0.05f * gradient[i];
    };
    for (Iteration iteration = 1; iteration <= 20; ++iteration) {
      ASSERT_FALSE(check->find_difference(0, arena, seen)) << "seed " << seed << " iteration " << iteration;
      for (int others = std::uniform_int_distribution(0, 3)(random); others > 0; --others)
        push(random() % 2 == 0 ? 0 : 2, arena.size());
      const std::vector<float> without_own = arena;
      push(1, arena.size());
      ASSERT_TRUE(check->on_iteration(iteration).ok());
      if (next[0] > 1 || next[2] > 1) continue;
      EXPECT_TRUE(check->find_difference(0, without_own, seen)) << "its own push is lost";
    }
    const std::vector<float> older = arena;
    push(0, arena.size() / 2);
    const auto torn = check->find_difference(0, arena, seen);
    ASSERT_TRUE(torn) << "seed " << seed;
    EXPECT_EQ(torn->index, arena.size() / 2);
    push(2, arena.size());
    EXPECT_FALSE(check->find_difference(0, std::span(arena).first(100), seen));
    EXPECT_TRUE(check->find_difference(0, std::span(older).first(100), seen)) << "values went back";
    arena[50] = std::nanf("");
    EXPECT_EQ(check->find_difference(0, std::span(arena).first(100), seen)->index, 50u);
  }
}

}  // namespace
}  // namespace paceline::replay

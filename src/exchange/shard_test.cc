#include "exchange/shard.h"

#include <cmath>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/testing_jobs.h"
#include "tensor/optimizer.h"

namespace paceline::exchange::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::uint32_t kUnit[] = {0};

// All tensors in one unit, a part each.
std::shared_ptr<const job::Plan> plan_of(const job::UpdateOptions& update, const std::vector<std::int64_t>& elements) {
  job::PlanOptions options;
  options.workers = 2;
  options.schedule.cut = {scheduling::Cut::Kind::kTensors, 0, 1'000'000'000};
  options.update = update;
  auto plan = *job::Plan::make(job::testing::table_of({elements}), options);
  EXPECT_EQ(plan->units().units.size(), 1U);
  return plan;
}

job::UpdateOptions with(tensor::OptimizerKind kind) {
  job::UpdateOptions update{.learning_rate = {.base = 0.1}};
  update.optimizer.kind = kind;
  return update;
}

std::vector<float> drawn(std::int64_t elements, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(static_cast<std::size_t>(elements));
  for (float& value : values) value = std::uniform_real_distribution<float>(-1, 1)(random);
  return values;
}

// A step on a whole part, `piece` elements at a time.
void step(Shard& shard, std::uint32_t part, Iteration iteration, std::span<const float> mean, std::span<float> values,
          std::size_t piece) {
  for (std::size_t begin = 0; begin < mean.size(); begin += piece) {
    const std::size_t count = std::min(piece, mean.size() - begin);
    shard.step(part, begin, {iteration}, mean.subspan(begin, count), values.subspan(begin, count));
  }
}

TEST(Shard, PiecesGiveTheBitsOfWholePartsAndTheirState) {
  for (const auto kind : {tensor::OptimizerKind::kSgd, tensor::OptimizerKind::kMomentum, tensor::OptimizerKind::kAdam}) {
    const std::vector<std::int64_t> elements = {277, 5};
    const job::UpdateOptions update = with(kind);
    Shard shard(plan_of(update, elements), kUnit);
    for (std::uint32_t part = 0; part < elements.size(); ++part) {
      std::vector<float> values = drawn(elements[part], 9), expected = values;
      std::vector<float> state(values.size() * static_cast<std::size_t>(tensor::state_floats_per_parameter(update.optimizer)));
      for (Iteration iteration = 1; iteration <= 3; ++iteration) {
        const std::vector<float> mean = drawn(elements[part], static_cast<unsigned>(iteration));
        tensor::step(update.optimizer, {.learning_rate = 0.1, .step = iteration}, expected, mean, state);
        step(shard, part, iteration, mean, values, 100);
        EXPECT_EQ(values, expected) << tensor::name_of(kind) << ", iteration " << iteration;
      }
      EXPECT_EQ(std::vector<float>(shard.save(part).state.begin(), shard.save(part).state.end()), state);
      EXPECT_EQ(shard.save(part).steps, 3);
    }
  }
}

TEST(Shard, GoesOnBitForBitFromTheStateThatWasSavedOfAnother) {
  for (const auto kind : {tensor::OptimizerKind::kSgd, tensor::OptimizerKind::kMomentum, tensor::OptimizerKind::kAdam}) {
    const auto plan = plan_of(with(kind), {50});
    Shard first(plan, kUnit), second(plan, kUnit);
    std::vector<float> values = drawn(50, 1);
    for (Iteration iteration = 1; iteration <= 3; ++iteration)
      step(first, 0, iteration, drawn(50, static_cast<unsigned>(iteration)), values, 20);
    std::vector<float> resumed = values;
    ASSERT_TRUE(second.load(0, first.save(0)).ok());
    for (Iteration iteration = 4; iteration <= 5; ++iteration) {
      step(first, 0, iteration, drawn(50, static_cast<unsigned>(iteration)), values, 20);
      step(second, 0, iteration, drawn(50, static_cast<unsigned>(iteration)), resumed, 50);
    }
    EXPECT_EQ(resumed, values);
  }
}

TEST(Shard, SpendsNothingOnStateThatItNeverNeedsAndRefusesOneThatDoesNotFit) {
  const auto plan = plan_of(with(tensor::OptimizerKind::kAdam), {3});
  Shard held(plan, kUnit), elsewhere(plan, kUnit, Shard::Steps::kElsewhere);
  EXPECT_EQ(held.save(0).state.size(), 6U);
  EXPECT_TRUE(elsewhere.save(0).state.empty());
  EXPECT_TRUE(elsewhere.load(0, {.state = {}, .steps = 4}).ok());
  EXPECT_EQ(elsewhere.save(0).steps, 4);
  const std::vector<float> five(5);
  EXPECT_THAT(held.load(0, {.state = five, .steps = 1}).message(), HasSubstr("5 numbers of optimizer state; the job has 6"));
  EXPECT_FALSE(held.load(0, {.state = held.save(0).state, .steps = -1}).ok());
}

TEST(Shard, AMeanThatIsNotFiniteStopsTheJobOrSkipsTheIteration) {
  job::UpdateOptions update = with(tensor::OptimizerKind::kSgd);
  const std::vector<float> broken = {1, INFINITY, 2}, sound = {1, 2, 3};
  {
    Shard shard(plan_of(update, {3}), kUnit);
    EXPECT_TRUE(shard.look(sound));
    EXPECT_FALSE(shard.look(broken));
    EXPECT_THAT(shard.on_broken(shard.broken_sum(0, 7)).message(),
                HasSubstr("overflows in layer 0 \"layer0\" (tensor \"layer0.tensor0\""));
    EXPECT_THAT(shard.broken_gradient(Rank{1}, 0, 7, 1, INFINITY).message(),
                HasSubstr("worker 1 has a gradient that is not finite in layer 0"));
  }
  update.non_finite = job::NonFinitePolicy::kSkip;
  update.clip_norm = 1;
  Shard shard(plan_of(update, {3}), kUnit);
  EXPECT_FALSE(shard.decision().skip) << "before the first one nothing is skipped";
  EXPECT_FALSE(shard.look(broken));
  EXPECT_TRUE(shard.on_broken(shard.broken_sum(0, 7)).ok());
  EXPECT_TRUE(shard.decide(7).skip);
  EXPECT_THAT(shard.decision().reason.message(), HasSubstr("of iteration 7"));
  EXPECT_TRUE(shard.look(sound));
  EXPECT_FALSE(shard.decide(8).skip) << "the next iteration is judged by itself";
  EXPECT_EQ(shard.decision().coefficient, static_cast<float>(1 / (std::sqrt(14.0) + 1e-6)));
  update.non_finite = job::NonFinitePolicy::kApply;
  Shard applies(plan_of(update, {3}), kUnit);
  EXPECT_TRUE(applies.look(broken));
}

}  // namespace
}  // namespace paceline::exchange::testing

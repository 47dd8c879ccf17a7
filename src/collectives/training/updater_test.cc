#include "collectives/training/updater.h"

#include <cmath>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tensor/optimizer.h"

namespace paceline::collectives {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<const paramserver::JobPlan> plan_of(const paramserver::UpdateOptions& update,
                                                    const std::vector<std::int64_t>& elements, std::int32_t workers) {
  wire::TensorTable table;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    table.tensors.push_back({fmt::format("t{}", i), "float32", {elements[i]}, Layer{static_cast<std::int32_t>(i)}});
    table.layers.push_back(fmt::format("l{}", i));
  }
  paramserver::JobOptions options;
  options.workers = workers;
  options.schedule = scheduling::layer_wise();
  options.schedule.cut = {scheduling::Cut::Kind::kTensors, 0, 1'000'000'000};
  options.update = update;
  return paramserver::JobPlan::make(table, options).value();
}

std::vector<float> drawn(std::int64_t elements, std::mt19937& random) {
  std::vector<float> values(static_cast<std::size_t>(elements));
  for (float& value : values) value = std::uniform_real_distribution<float>(-1, 1)(random);
  return values;
}

// All pieces of unit 0.
Status update(Updater& updater, Iteration iteration, std::span<float> sum, std::span<float> parameters) {
  for (std::uint32_t piece = 0; piece < updater.pieces(0); ++piece)
    PACELINE_RETURN_IF_ERROR(updater.make_mean(0, piece, iteration, sum));
  for (std::uint32_t piece = 0; piece < updater.pieces(0); ++piece) updater.step(0, piece, iteration, sum, parameters);
  return {};
}

TEST(Updater, PiecesGiveTheBitsOfWholeTensorsAndWhatNobodyUsedStays) {
  for (const auto kind : {tensor::OptimizerKind::kSgd, tensor::OptimizerKind::kMomentum, tensor::OptimizerKind::kAdam}) {
    paramserver::UpdateOptions options;
    options.optimizer.kind = kind;
    options.learning_rate = tensor::parse_schedule("0.1").value();
    const std::vector<std::int64_t> elements = {Updater::kPieceElements * 2 + 77, 5, Updater::kPieceElements};
    const auto plan = plan_of(options, elements, 3);
    ASSERT_EQ(plan->units().units.size(), 1U);
    const std::int64_t all = plan->units().elements;
    std::mt19937 random(1);
    std::vector<float> parameters = drawn(all, random), expected = parameters;
    Updater updater(plan, Updater::Role::kUpdates);
    EXPECT_EQ(updater.pieces(0), 3U + 1 + 1);
    std::vector<std::vector<float>> state;
    for (const std::int64_t of : elements)
      state.emplace_back(static_cast<std::size_t>(of * tensor::state_floats_per_parameter(options.optimizer)), 0.0F);
    std::vector<std::int64_t> steps(elements.size(), 0);
    for (Iteration iteration = 1; iteration <= 3; ++iteration) {
      std::vector<float> sum = drawn(all, random);
      const std::size_t unused = iteration == 2 ? 1 : elements.size();
      std::size_t begin = 0;
      for (std::size_t tensor = 0; tensor < elements.size(); ++tensor) {
        const auto count = static_cast<std::size_t>(elements[tensor]);
        std::vector<float> mean(sum.begin() + static_cast<std::ptrdiff_t>(begin),
                                sum.begin() + static_cast<std::ptrdiff_t>(begin + count));
        for (float& value : mean) value *= static_cast<float>(1.0 / 3);
        if (tensor != unused) {
          tensor::step(options.optimizer, {.learning_rate = 0.1, .step = ++steps[tensor]},
                       std::span(expected).subspan(begin, count), mean, state[tensor]);
        }
        begin += count;
      }
      for (std::size_t tensor = 0; tensor < elements.size(); ++tensor) sum.push_back(tensor == unused ? 0.0F : 2.0F);
      ASSERT_TRUE(update(updater, iteration, sum, parameters).ok());
      EXPECT_EQ(parameters, expected) << "iteration " << iteration;
    }
  }
}

TEST(Updater, GoesOnBitForBitFromTheStateThatWasSavedOfAnother) {
  for (const auto kind : {tensor::OptimizerKind::kSgd, tensor::OptimizerKind::kMomentum, tensor::OptimizerKind::kAdam}) {
    paramserver::UpdateOptions options;
    options.optimizer.kind = kind;
    options.learning_rate = tensor::parse_schedule("0.1").value();
    const std::vector<std::int64_t> elements = {5, Updater::kPieceElements * 2 + 77, 3};
    const auto plan = plan_of(options, elements, 3);
    std::mt19937 random(1);
    std::vector<float> parameters = drawn(plan->units().elements, random);
    Updater first(plan, Updater::Role::kUpdates), second(plan, Updater::Role::kUpdates), never(plan, Updater::Role::kNever);
    const auto sum = [&](Iteration iteration) {
      std::mt19937 of(static_cast<unsigned>(iteration));
      std::vector<float> values = drawn(plan->units().elements, of);
      values.insert(values.end(), {3, iteration == 2 ? 0.0F : 3.0F, 3});  // the second part has had fewer updates
      return values;
    };
    for (Iteration iteration = 1; iteration <= 3; ++iteration) {
      auto values = sum(iteration);
      ASSERT_TRUE(update(first, iteration, values, parameters).ok());
    }
    std::vector<float> resumed = parameters;
    for (std::uint32_t part = 0; part < elements.size(); ++part) {
      const auto state = first.export_part(part);
      EXPECT_EQ(state.steps, part == 1 ? 2 : 3);
      EXPECT_EQ(state.state.size(),
                static_cast<std::size_t>(elements[part] * tensor::state_floats_per_parameter(options.optimizer)));
      second.import_part(part, state);
      EXPECT_EQ(second.export_part(part).state, state.state);
      EXPECT_TRUE(never.export_part(part).state.empty());
    }
    for (Iteration iteration = 4; iteration <= 5; ++iteration) {
      auto values = sum(iteration), same = values;
      ASSERT_TRUE(update(first, iteration, values, parameters).ok());
      ASSERT_TRUE(update(second, iteration, same, resumed).ok());
    }
    EXPECT_EQ(resumed, parameters);
  }
}

TEST(Updater, StateIsSavedAsThePlanesOfWholeTensors) {
  paramserver::UpdateOptions options;
  options.optimizer.kind = tensor::OptimizerKind::kAdam;
  options.learning_rate = tensor::parse_schedule("0.1").value();
  const std::int64_t elements = Updater::kPieceElements + 9;
  const auto plan = plan_of(options, {elements}, 1);
  Updater updater(plan, Updater::Role::kUpdates);
  std::mt19937 random(7);
  std::vector<float> gradient = drawn(elements, random), parameters(gradient.size(), 0.0F), expected = parameters;
  std::vector<float> state(2 * gradient.size(), 0.0F);
  tensor::step(options.optimizer, {.learning_rate = 0.1, .step = 1}, expected, gradient, state);
  gradient.push_back(1);
  ASSERT_TRUE(update(updater, 1, gradient, parameters).ok());
  EXPECT_EQ(parameters, expected);
  EXPECT_EQ(updater.export_part(0).state, state);
}

TEST(Updater, ASumThatOverflowsStopsTheJobOrSkipsTheIteration) {
  paramserver::UpdateOptions options;
  options.learning_rate = tensor::parse_schedule("0.1").value();
  std::vector<float> sum = {1, INFINITY, 2, 1};
  std::vector<float> parameters = {1, 2, 3};
  {
    Updater updater(plan_of(options, {3}, 2), Updater::Role::kUpdates);
    std::vector<float> own = sum;
    EXPECT_THAT(update(updater, 7, own, parameters).message(),
                HasSubstr("overflows in layer 0 \"l0\" (tensor \"t0\") of iteration 7"));
  }
  options.non_finite = paramserver::NonFinitePolicy::kSkip;
  Updater updater(plan_of(options, {3}, 2), Updater::Role::kUpdates);
  ASSERT_TRUE(updater.make_mean(0, 0, 7, sum).ok());
  EXPECT_EQ(updater.decide(), Updater::Verdict::kSkip);
  updater.step(0, 0, 7, sum, parameters);
  EXPECT_EQ(parameters, (std::vector<float>{1, 2, 3}));
  sum = {2, 2, 2, 1};
  ASSERT_TRUE(updater.make_mean(0, 0, 8, sum).ok());
  EXPECT_EQ(updater.decide(), Updater::Verdict::kStep) << "the next iteration is judged by itself";
  updater.step(0, 0, 8, sum, parameters);
  EXPECT_NE(parameters, (std::vector<float>{1, 2, 3}));
}

TEST(Updater, ABrokenGradientIsFoundWhereItIsMadeUnlessItsPartIsUnused) {
  Updater updater(plan_of({}, {2, 2}, 2), Updater::Role::kNever);
  const std::vector<float> gradient = {1, 2, 3, NAN};
  EXPECT_THAT(updater.check_own(Rank{1}, 0, 0, 7, gradient).message(),
              HasSubstr("worker 1 has a gradient that is not finite in layer 1 \"l1\" (tensor \"t1\") of iteration 7: element 1"));
  EXPECT_TRUE(updater.check_own(Rank{1}, 0, 0b10, 7, gradient).ok());
}

}  // namespace
}  // namespace paceline::collectives

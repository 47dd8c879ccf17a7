// Our optimizers against LibTorch's, fed the same gradients: equal up to what LibTorch's fused multiply-adds round differently.
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <torch/torch.h>

#include "tensor/optimizer.h"

namespace paceline {
namespace {

using tensor::OptimizerKind;
using tensor::OptimizerOptions;

constexpr int kSteps = 100;
constexpr double kBound = 1e-6;  // of the larger of the parameter and the tensor's root mean square

std::unique_ptr<torch::optim::Optimizer> torch_optimizer(const OptimizerOptions& ours, double rate, torch::Tensor parameter) {
  const std::vector<torch::Tensor> parameters = {std::move(parameter)};
  switch (ours.kind) {
    case OptimizerKind::kSgd:
      return std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(rate).weight_decay(ours.weight_decay));
    case OptimizerKind::kMomentum:
    case OptimizerKind::kNesterov:
      return std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(rate)
                                                                 .momentum(ours.momentum)
                                                                 .weight_decay(ours.weight_decay)
                                                                 .nesterov(ours.kind == OptimizerKind::kNesterov));
    case OptimizerKind::kAdam:
      return std::make_unique<torch::optim::Adam>(
          parameters,
          torch::optim::AdamOptions(rate).betas({ours.beta1, ours.beta2}).eps(ours.epsilon).weight_decay(ours.weight_decay));
    case OptimizerKind::kAdamW:
      return std::make_unique<torch::optim::AdamW>(
          parameters,
          torch::optim::AdamWOptions(rate).betas({ours.beta1, ours.beta2}).eps(ours.epsilon).weight_decay(ours.weight_decay));
    case OptimizerKind::kAdagrad:
      return std::make_unique<torch::optim::Adagrad>(
          parameters, torch::optim::AdagradOptions(rate).eps(ours.epsilon).weight_decay(ours.weight_decay));
    case OptimizerKind::kMean:  // no step: LibTorch has none
      break;
  }
  return nullptr;
}

// The largest |ours - torch| / max(|torch|, rms of torch's tensor).
double largest_difference(const std::vector<float>& ours, const torch::Tensor& theirs) {
  const float* reference = theirs.const_data_ptr<float>();
  double squares = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) squares += static_cast<double>(reference[i]) * reference[i];
  const double rms = std::sqrt(squares / static_cast<double>(ours.size()));
  double largest = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const double difference =
        std::fabs(static_cast<double>(ours[i]) - reference[i]) / std::max<double>(std::fabs(reference[i]), rms);
    if (!(difference <= largest)) largest = difference;  // a NaN stays
  }
  return largest;
}

// 100 steps with a rate that changes, on parameters of about 1 with gradients of several magnitudes. Returns the largest difference
// after any step.
double compare(const OptimizerOptions& options, double rate, std::uint64_t seed) {
  constexpr std::size_t kElements = 4099;
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> ours(kElements), gradient(kElements);
  for (float& value : ours) value = normal(random);
  std::vector<float> state(kElements * static_cast<std::size_t>(state_floats_per_parameter(options)));
  torch::Tensor theirs = torch::from_blob(ours.data(), {static_cast<std::int64_t>(kElements)}).clone().set_requires_grad(true);
  const auto optimizer = torch_optimizer(options, rate, theirs);
  double largest = 0;
  for (int t = 1; t <= kSteps; ++t) {
    const double rate_now = t <= kSteps / 2 ? rate : rate / 10;
    for (std::size_t i = 0; i < kElements; ++i) gradient[i] = std::ldexp(normal(random), -static_cast<int>(i % 12));
    optimizer->param_groups()[0].options().set_lr(rate_now);
    theirs.mutable_grad() = torch::from_blob(gradient.data(), {static_cast<std::int64_t>(kElements)}).clone();
    optimizer->step();
    tensor::step(options, {.learning_rate = rate_now, .step = t}, ours, gradient, state);
    largest = std::max(largest, largest_difference(ours, theirs.detach()));
  }
  return largest;
}

class OptimizerAgainstTorch : public ::testing::TestWithParam<OptimizerKind> {};

TEST_P(OptimizerAgainstTorch, StaysWithinRoundingFor100Steps) {
  torch::set_num_threads(1);
  const bool adaptive = GetParam() == OptimizerKind::kAdam || GetParam() == OptimizerKind::kAdamW;
  double largest = 0;
  for (const double decay : {0.0, 0.01}) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      const double found = compare({.kind = GetParam(), .weight_decay = decay}, adaptive ? 1e-3 : 1e-2, seed);
      EXPECT_LE(found, kBound) << name_of(GetParam()) << ", weight decay " << decay << ", seed " << seed;
      largest = std::max(largest, found);
    }
  }
  RecordProperty("largest_difference", std::to_string(largest * 1e6) + "e-6");
}

TEST(OptimizerAgainstTorchBound, IsTightEnoughToSeeAWrongFormula) {
  // A millionth of the decay is forgotten: the bound must notice it in 100 steps of a decay of 0.5.
  torch::set_num_threads(1);
  const OptimizerOptions right{.kind = OptimizerKind::kSgd, .weight_decay = 0.5};
  std::vector<float> ours = {1, -2, 3}, wrong = ours, gradient = {0, 0, 0};
  torch::Tensor theirs = torch::from_blob(ours.data(), {3}).clone().set_requires_grad(true);
  const auto optimizer = torch_optimizer(right, 0.1, theirs);
  for (int t = 1; t <= kSteps; ++t) {
    theirs.mutable_grad() = torch::zeros({3});
    optimizer->step();
    tensor::step(right, {.learning_rate = 0.1, .step = t}, ours, gradient, {});
    tensor::step({.kind = OptimizerKind::kSgd, .weight_decay = 0.5 * (1 - 1e-6)}, {.learning_rate = 0.1, .step = t}, wrong,
                 gradient, {});
  }
  EXPECT_LE(largest_difference(ours, theirs.detach()), kBound);
  EXPECT_GT(largest_difference(wrong, theirs.detach()), kBound);
}

INSTANTIATE_TEST_SUITE_P(EveryKind, OptimizerAgainstTorch,
                         ::testing::Values(OptimizerKind::kSgd, OptimizerKind::kMomentum, OptimizerKind::kNesterov,
                                           OptimizerKind::kAdam, OptimizerKind::kAdamW, OptimizerKind::kAdagrad),
                         [](const auto& each) { return std::string(tensor::name_of(each.param)); });

}  // namespace
}  // namespace paceline

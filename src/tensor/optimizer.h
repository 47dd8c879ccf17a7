// Optimizers: one step on a run of parameters. Elementwise, so the result does not depend on how tensors are cut into slices or on
// the instruction set. Pure functions, any thread. The same arithmetic as LibTorch's C++ optimizers (torch::optim::SGD, Adam,
// AdamW, Adagrad; single tensor, no amsgrad, dampening 0, lr_decay 0), except that LibTorch may fuse a multiplication with an
// addition and we never do.
//
// The arithmetic. `coefficients()` below is the one place where hyper-parameters, float64, become float32. Then for each element,
// all in float32, each operation rounded by itself, in the order the parentheses give (p parameter, g gradient, m and v state):
//
//   all but kAdamW and kMean, when weight_decay != 0:   g = g + (decay * p)
//   kMean       p = g: no rate, no decay, no state; for whoever makes its steps elsewhere
//   kSgd        p = p - (rate * g)
//   kMomentum   m = (momentum * m) + g;    p = p - (rate * m)
//   kNesterov   m = (momentum * m) + g;    g = g + (momentum * m);    p = p - (rate * g)
//   kAdamW, when weight_decay != 0:   p = p * keep          (decoupled)
//   kAdam, kAdamW
//               m = (beta1 * m) + (one_minus_beta1 * g)
//               v = (beta2 * v) + ((one_minus_beta2 * g) * g)
//               p = p - ((step_size * m) / ((sqrt(v) / correction2_sqrt) + epsilon))
//   kAdagrad    m = m + (g * g);    p = p - ((rate * g) / (sqrt(m) + epsilon))
//
// sqrt and / are IEEE's, exactly rounded. State starts as zeros, so the momentum's first value is the first gradient, as in torch.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace paceline::tensor {

enum class OptimizerKind { kSgd, kMomentum, kNesterov, kAdam, kAdamW, kMean, kAdagrad };

// What an optimizer is called, keeps for each parameter, and which options it has.
struct OptimizerTraits {
  const char* name;
  int planes;         // float32 of state for each parameter
  bool steps = true;  // false: the values are taken as they come, by no rate and no decay
  bool momentum = false, betas = false, epsilon = false;
  double usual_rate = 0.05;  // the learning rate where nobody gives one
};
const OptimizerTraits& traits_of(OptimizerKind kind);
std::vector<std::string> optimizer_names();
// "adam or adamw": those that have it.
std::string optimizers_with(bool OptimizerTraits::*trait);

const char* name_of(OptimizerKind kind);  // "sgd"
Result<OptimizerKind> parse_optimizer(std::string_view name);

// The defaults are torch's, except for the momentum, which torch leaves at 0, AdamW's weight decay, 0.01 there, and Adagrad's
// epsilon, 1e-10 there.
struct OptimizerOptions {
  using Kind = OptimizerKind;
  Kind kind = Kind::kSgd;
  double momentum = 0.9;    // 0 <= momentum < 1, above 0 for kNesterov; kMomentum and kNesterov only
  double beta1 = 0.9;       // 0 <= beta1 < 1; kAdam and kAdamW only
  double beta2 = 0.999;     // 0 <= beta2 < 1; kAdam and kAdamW only
  double epsilon = 1e-8;    // above 0, also as float32; kAdam, kAdamW and kAdagrad only
  double weight_decay = 0;  // at least 0; decoupled for kAdamW, added to the gradient for the others

  friend bool operator==(const OptimizerOptions&, const OptimizerOptions&) = default;
};

// The options, or kBadRequest that names the first one out of range (as on the command line), its value and what is legal. Every
// option is checked, whether the kind uses it or not.
Result<OptimizerOptions> validated(OptimizerOptions options);

int state_floats_per_parameter(const OptimizerOptions& options);

struct StepContext {
  double learning_rate = 0;  // tensor/learning_rate.h; any finite number
  std::int64_t step = 1;  // how many updates these parameters have had, this one included: from 1. Adam's bias correction. Not the
                          // iteration, when parameters that no worker used were skipped.
};

// The float32 constants of one step. Each is computed in float64 as written and then rounded once.
struct Coefficients {
  float rate = 0;              // learning_rate
  float decay = 0;             // weight_decay
  float momentum = 0;          // momentum
  float keep = 1;              // 1 - learning_rate * weight_decay
  float beta1 = 0;             // beta1
  float one_minus_beta1 = 0;   // 1 - beta1
  float beta2 = 0;             // beta2
  float one_minus_beta2 = 0;   // 1 - beta2
  float epsilon = 0;           // epsilon
  float step_size = 0;         // learning_rate / (1 - power(beta1, step))
  float correction2_sqrt = 0;  // sqrt(1 - power(beta2, step))
};
// `power` multiplies by repeated squaring, float64, because the library's pow differs between machines in the last bit.
Coefficients coefficients(const OptimizerOptions& options, const StepContext& context);

// One step on n = parameters.size() parameters. `gradient` has n elements; `state` has n * state_floats_per_parameter() as planes:
// m in [0, n), v in [n, 2n). `options` are valid. Arrays do not overlap. Sizes that disagree or a step below 1 abort. n may be 0.
// About as fast as memory is.
void step(const OptimizerOptions& options, const StepContext& context, std::span<float> parameters, std::span<const float> gradient,
          std::span<float> state);
// The same for a run of a longer array of parameters: `state` begins at the run's place in the first plane, and each next plane
// stands `pitch` >= n floats behind the one before.
void step(const OptimizerOptions& options, const StepContext& context, std::span<float> parameters, std::span<const float> gradient,
          std::span<float> state, std::size_t pitch);

}  // namespace paceline::tensor

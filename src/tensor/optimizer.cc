#include "tensor/optimizer.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/optimizer.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h
#include "tensor/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace paceline::tensor {
namespace HWY_NAMESPACE {

// What optimizer.h writes with infix operators, for one vector. kDecay: weight_decay != 0.
template <OptimizerKind kKind, bool kDecay>
struct Rule {
  static constexpr bool kIsAdam = kKind == OptimizerKind::kAdam || kKind == OptimizerKind::kAdamW;

  template <class D>
  static HWY_INLINE void update(D d, const Coefficients& c, float* parameter, const float* gradient, float* m, float* v) {
    auto p = hn::LoadU(d, parameter);
    auto g = hn::LoadU(d, gradient);
    if constexpr (kDecay && kKind == OptimizerKind::kAdamW) p = hn::Mul(p, hn::Set(d, c.keep));
    if constexpr (kDecay && kKind != OptimizerKind::kAdamW) g = hn::Add(g, hn::Mul(hn::Set(d, c.decay), p));
    if constexpr (kIsAdam) {
      p = hn::Sub(p, adam_change(d, c, g, m, v));
    } else if constexpr (kKind == OptimizerKind::kAdagrad) {
      p = hn::Sub(p, adagrad_change(d, c, g, m));
    } else {
      p = hn::Sub(p, hn::Mul(hn::Set(d, c.rate), direction(d, c, g, m)));
    }
    hn::StoreU(p, d, parameter);
  }

  template <class D>
  static HWY_INLINE hn::Vec<D> direction([[maybe_unused]] D d, [[maybe_unused]] const Coefficients& c, hn::Vec<D> g,
                                         [[maybe_unused]] float* m) {
    if constexpr (kKind == OptimizerKind::kSgd) {
      return g;
    } else {
      const auto momentum = hn::Set(d, c.momentum);
      const auto new_m = hn::Add(hn::Mul(momentum, hn::LoadU(d, m)), g);
      hn::StoreU(new_m, d, m);
      return kKind == OptimizerKind::kNesterov ? hn::Add(g, hn::Mul(momentum, new_m)) : new_m;
    }
  }

  template <class D>
  static HWY_INLINE hn::Vec<D> adagrad_change(D d, const Coefficients& c, hn::Vec<D> g, float* m) {
    const auto new_m = hn::Add(hn::LoadU(d, m), hn::Mul(g, g));
    hn::StoreU(new_m, d, m);
    return hn::Div(hn::Mul(hn::Set(d, c.rate), g), hn::Add(hn::Sqrt(new_m), hn::Set(d, c.epsilon)));
  }

  template <class D>
  static HWY_INLINE hn::Vec<D> adam_change(D d, const Coefficients& c, hn::Vec<D> g, float* m, float* v) {
    const auto new_m = hn::Add(hn::Mul(hn::Set(d, c.beta1), hn::LoadU(d, m)), hn::Mul(hn::Set(d, c.one_minus_beta1), g));
    const auto new_v =
        hn::Add(hn::Mul(hn::Set(d, c.beta2), hn::LoadU(d, v)), hn::Mul(hn::Mul(hn::Set(d, c.one_minus_beta2), g), g));
    hn::StoreU(new_m, d, m);
    hn::StoreU(new_v, d, v);
    const auto denominator = hn::Add(hn::Div(hn::Sqrt(new_v), hn::Set(d, c.correction2_sqrt)), hn::Set(d, c.epsilon));
    return hn::Div(hn::Mul(hn::Set(d, c.step_size), new_m), denominator);
  }
};

template <OptimizerKind kKind, bool kDecay>
HWY_INLINE void run(const Coefficients& c, float* parameters, const float* gradient, float* m, float* v, std::size_t n) {
  for_each_run<float>(
      n, [=](auto d, std::size_t i) HWY_ATTR { Rule<kKind, kDecay>::update(d, c, parameters + i, gradient + i, m + i, v + i); });
}

template <OptimizerKind kKind>
HWY_INLINE void run_kind(bool decay, const Coefficients& c, float* p, const float* g, float* m, float* v, std::size_t n) {
  return decay ? run<kKind, true>(c, p, g, m, v, n) : run<kKind, false>(c, p, g, m, v, n);
}

void step_any(OptimizerKind kind, bool decay, const Coefficients& c, float* p, const float* g, float* m, float* v, std::size_t n) {
  switch (kind) {
    case OptimizerKind::kSgd:
      return run_kind<OptimizerKind::kSgd>(decay, c, p, g, m, v, n);
    case OptimizerKind::kMomentum:
      return run_kind<OptimizerKind::kMomentum>(decay, c, p, g, m, v, n);
    case OptimizerKind::kNesterov:
      return run_kind<OptimizerKind::kNesterov>(decay, c, p, g, m, v, n);
    case OptimizerKind::kAdam:
      return run_kind<OptimizerKind::kAdam>(decay, c, p, g, m, v, n);
    case OptimizerKind::kAdamW:
      return run_kind<OptimizerKind::kAdamW>(decay, c, p, g, m, v, n);
    case OptimizerKind::kAdagrad:
      return run_kind<OptimizerKind::kAdagrad>(decay, c, p, g, m, v, n);
    case OptimizerKind::kMean:
      std::copy_n(g, n, p);
      return;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace paceline::tensor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include <fmt/ranges.h>

#include "base/text.h"

namespace paceline::tensor {
namespace {

HWY_EXPORT(step_any);

// By OptimizerKind.
constexpr std::array kTraits = {OptimizerTraits{.name = "sgd", .planes = 0},
                                OptimizerTraits{.name = "momentum", .planes = 1, .momentum = true},
                                OptimizerTraits{.name = "nesterov", .planes = 1, .momentum = true},
                                OptimizerTraits{.name = "adam", .planes = 2, .betas = true, .epsilon = true, .usual_rate = 0.001},
                                OptimizerTraits{.name = "adamw", .planes = 2, .betas = true, .epsilon = true, .usual_rate = 0.001},
                                OptimizerTraits{.name = "mean", .planes = 0, .steps = false},
                                OptimizerTraits{.name = "adagrad", .planes = 1, .epsilon = true}};

double power(double base, std::int64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 != 0) result *= base;
    base *= base;
  }
  return result;
}

// Also false for NaN.
bool is_share(double value) { return value >= 0 && value < 1; }

}  // namespace

const OptimizerTraits& traits_of(OptimizerKind kind) { return kTraits.at(static_cast<std::size_t>(kind)); }

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const OptimizerTraits& traits : kTraits) names.emplace_back(traits.name);
  return names;
}

std::string optimizers_with(bool OptimizerTraits::*trait) {
  std::vector<std::string> names;
  for (const OptimizerTraits& traits : kTraits) {
    if (traits.*trait) names.emplace_back(traits.name);
  }
  const std::string last = names.back();
  names.pop_back();
  return names.empty() ? last : fmt::format("{} or {}", fmt::join(names, ", "), last);
}

const char* name_of(OptimizerKind kind) { return traits_of(kind).name; }

Result<OptimizerKind> parse_optimizer(std::string_view name) {
  const std::vector<std::string> names = optimizer_names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<OptimizerKind>(found - names.begin());
  return error(ErrorKind::kBadRequest, "'{}' is no optimizer{}; legal are {}", name, suggestion(name, names),
               fmt::join(names, ", "));
}

Result<OptimizerOptions> validated(OptimizerOptions options) {
  const auto refuse = [](const char* name, double value, const char* legal) {
    return error(ErrorKind::kBadRequest, "--{} {} is out of range; legal is {}", name, value, legal);
  };
  if (!is_share(options.momentum)) return refuse("momentum", options.momentum, "at least 0 and less than 1");
  // One so small that it vanishes in float32 is no momentum either.
  if (options.kind == OptimizerKind::kNesterov && static_cast<float>(options.momentum) == 0) {
    return refuse("momentum", options.momentum, "above 0 and less than 1 for nesterov");
  }
  if (!is_share(options.beta1)) return refuse("beta1", options.beta1, "at least 0 and less than 1");
  if (!is_share(options.beta2)) return refuse("beta2", options.beta2, "at least 0 and less than 1");
  const float epsilon = static_cast<float>(options.epsilon);
  if (!(epsilon > 0 && std::isfinite(epsilon))) return refuse("epsilon", options.epsilon, "above 0 and finite, also as float32");
  const float decay = static_cast<float>(options.weight_decay);
  if (!(decay >= 0 && std::isfinite(decay)))
    return refuse("weight-decay", options.weight_decay, "at least 0 and finite, also as float32");
  return options;
}

int state_floats_per_parameter(const OptimizerOptions& options) { return traits_of(options.kind).planes; }

Coefficients coefficients(const OptimizerOptions& options, const StepContext& context) {
  PACELINE_CHECK(context.step >= 1, "steps are counted from 1, not {}", context.step);
  const double rate = context.learning_rate;
  const auto rounded = [](double value) { return static_cast<float>(value); };
  return {
      .rate = rounded(rate),
      .decay = rounded(options.weight_decay),
      .momentum = rounded(options.momentum),
      .keep = rounded(1 - rate * options.weight_decay),
      .beta1 = rounded(options.beta1),
      .one_minus_beta1 = rounded(1 - options.beta1),
      .beta2 = rounded(options.beta2),
      .one_minus_beta2 = rounded(1 - options.beta2),
      .epsilon = rounded(options.epsilon),
      .step_size = rounded(rate / (1 - power(options.beta1, context.step))),
      .correction2_sqrt = rounded(std::sqrt(1 - power(options.beta2, context.step))),
  };
}

void step(const OptimizerOptions& options, const StepContext& context, std::span<float> parameters, std::span<const float> gradient,
          std::span<float> state) {
  const std::size_t n = parameters.size();
  const auto planes = static_cast<std::size_t>(state_floats_per_parameter(options));
  PACELINE_CHECK(state.size() == n * planes, "a state of {} floats for {} parameters of {}", state.size(), n,
                 name_of(options.kind));
  step(options, context, parameters, gradient, state, n);
}

void step(const OptimizerOptions& options, const StepContext& context, std::span<float> parameters, std::span<const float> gradient,
          std::span<float> state, std::size_t pitch) {
  const std::size_t n = parameters.size();
  const auto planes = static_cast<std::size_t>(state_floats_per_parameter(options));
  PACELINE_CHECK(gradient.size() == n, "a gradient of {} elements for {} parameters", gradient.size(), n);
  PACELINE_CHECK(pitch >= n && (planes == 0 || state.size() >= (planes - 1) * pitch + n),
                 "a state of {} floats, planes {} apart, for {} parameters of {}", state.size(), pitch, n, name_of(options.kind));
  // Planes that the kind does not have stand for others and are never touched.
  float* const m = planes == 0 ? parameters.data() : state.data();
  float* const v = planes == 2 ? m + pitch : m;
  HWY_DYNAMIC_DISPATCH(step_any)
  (options.kind, options.weight_decay != 0, coefficients(options, context), parameters.data(), gradient.data(), m, v, n);
}

}  // namespace paceline::tensor
#endif

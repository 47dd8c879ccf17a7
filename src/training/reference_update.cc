#include "training/reference_update.h"

#include <cmath>
#include <utility>

#include "base/check.h"
#include "tensor/exact_square_sum.h"
#include "training/reference_wire.h"

namespace paceline::training {

Result<UpdateRules> update_rules(const job::JobSpec& settings, wire::TensorTable& table) {
  UpdateRules rules;
  job::UpdateOptions update = job::server_update(settings);
  PACELINE_RETURN_IF_ERROR(job::assign_groups(settings.groups, table, update));
  rules.groups = update.groups;
  rules.optimizer = update.optimizer;
  rules.learning_rate = update.learning_rate;
  rules.non_finite = update.non_finite;
  rules.clip_norm = update.clip_norm;
  PACELINE_ASSIGN_OR_RETURN(rules.wire, job::wire_of(settings));
  return rules;
}

ReferenceUpdate::ReferenceUpdate(const UpdateRules& rules, const wire::TensorTable& table,
                                 std::optional<collectives::Additions> additions)
    : rules_(rules),
      table_(table),
      additions_(std::move(additions)),
      offsets_(table.offsets()),
      steps_(table.tensors.size(), 0),
      first_(static_cast<std::size_t>(table.elements()), 0.0f),
      second_(first_.size(), 0.0f) {}

void ReferenceUpdate::begin(std::span<float> parameters) {
  if (!rules_.wire.narrow()) return;
  values_.assign(parameters.begin(), parameters.end());
  if (rules_.optimizer.kind == tensor::OptimizerKind::kMean) return;  // which begin as they are
  for (float& parameter : parameters) parameter = reference_rounded(rules_.wire, parameter);
}

Status ReferenceUpdate::apply(Iteration iteration, const std::vector<std::vector<float>>& computed,
                              const std::vector<std::vector<char>>& used, std::span<float> parameters) {
  const std::vector<std::vector<float>>& gradients = receive(iteration, computed, used) ? received_ : computed;
  std::vector<float> mean = mean_of(gradients);
  if (rules_.non_finite != job::NonFinitePolicy::kApply) {
    Status reason = non_finite(iteration, gradients, mean);
    if (!reason.ok()) return rules_.non_finite == job::NonFinitePolicy::kSkip ? Status() : reason;
  }
  if (rules_.clip_norm > 0) {
    const float coefficient = clip_coefficient(mean);
    if (coefficient != 1.0f) {
      for (float& value : mean) value *= coefficient;
    }
  }
  if (!rules_.wire.narrow()) {
    update(iteration, used, mean, parameters);
    return {};
  }
  PACELINE_CHECK(values_.size() == parameters.size(), "{} parameters of {}", parameters.size(), values_.size());
  update(iteration, used, mean, values_);
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] = reference_rounded(rules_.wire, values_[i]);
  return {};
}

std::vector<float> ReferenceUpdate::mean_of(const std::vector<std::vector<float>>& gradients) const {
  const auto additions = additions_.value_or(collectives::in_rank_order(static_cast<int>(gradients.size())));
  const auto sum_at = static_cast<std::size_t>(additions.empty() ? 0 : additions.back().to);
  const float share = static_cast<float>(1.0 / static_cast<double>(gradients.size()) / rules_.wire.loss_scale);
  std::vector<float> mean(gradients[0].size()), held(gradients.size());
  for (std::size_t i = 0; i < mean.size(); ++i) {
    for (std::size_t worker = 0; worker < gradients.size(); ++worker) held[worker] = gradients[worker][i];
    for (const auto& [to, from] : additions) held[static_cast<std::size_t>(to)] += held[static_cast<std::size_t>(from)];
    mean[i] = held[sum_at] * share;
  }
  return mean;
}

// Fills received_; false when the codec changes nothing.
bool ReferenceUpdate::receive(Iteration iteration, const std::vector<std::vector<float>>& computed,
                              const std::vector<std::vector<char>>& used) {
  if (!rules_.wire.narrow() && !rules_.wire.drops()) return false;
  received_ = computed;
  if (rules_.wire.drops()) dropping_.resize(computed.size(), ReferenceDropping(rules_.wire, offsets_));
  for (std::size_t worker = 0; worker < received_.size(); ++worker) {
    const float coefficient =
        rules_.wire.drops() ? dropping_[worker].clip_coefficient(computed.size(), used[worker], received_[worker]) : 1.0f;
    for (std::size_t tensor = 0; rules_.wire.drops() && tensor + 1 < offsets_.size(); ++tensor) {
      if (used[worker][tensor] != 0) dropping_[worker].drop(tensor, iteration, coefficient, received_[worker]);
    }
    for (float& value : received_[worker]) value = reference_sent(rules_.wire, value);
  }
  return true;
}

void ReferenceUpdate::update(Iteration iteration, const std::vector<std::vector<char>>& used, std::span<const float> mean,
                             std::span<float> parameters) {
  const double rate = tensor::learning_rate(rules_.learning_rate, iteration);
  for (std::size_t tensor = 0; tensor + 1 < offsets_.size(); ++tensor) {
    bool by_anyone = false;
    for (const auto& worker : used) by_anyone = by_anyone || worker[tensor] != 0;
    if (!by_anyone) continue;
    step(tensor, rate, mean, parameters);
  }
}

Status ReferenceUpdate::non_finite(Iteration iteration, const std::vector<std::vector<float>>& gradients,
                                   std::span<const float> mean) const {
  for (std::size_t tensor = 0; tensor + 1 < offsets_.size(); ++tensor) {
    const wire::TensorInfo& entry = table_.tensors[tensor];
    const std::string where = fmt::format("layer {} \"{}\" (tensor \"{}\") of iteration {}", entry.layer.index,
                                          table_.layers[static_cast<std::size_t>(entry.layer.index)], entry.name, iteration);
    for (auto i = static_cast<std::size_t>(offsets_[tensor]); i < static_cast<std::size_t>(offsets_[tensor + 1]); ++i) {
      if (std::isfinite(mean[i])) continue;
      for (std::size_t worker = 0; worker < gradients.size(); ++worker) {
        if (std::isfinite(gradients[worker][i])) continue;
        return error(ErrorKind::kCorrupt,
                     "worker {} has a gradient that is not finite in {}; lower the learning rate, or give --non-finite skip",
                     worker, where)
            .because({"not-finite", ""});
      }
      return error(ErrorKind::kCorrupt,
                   "the sum of the workers' gradients overflows in {}; lower the learning rate, or give --non-finite skip", where)
          .because({"not-finite", ""});
    }
  }
  return {};
}

float ReferenceUpdate::clip_coefficient(const std::vector<float>& gradient) const {
  tensor::ExactSquareSum squares;
  squares.add(gradient);
  const double coefficient = rules_.clip_norm / (std::sqrt(squares.value()) + 1e-6);
  return static_cast<float>(coefficient < 1 || std::isnan(coefficient) ? coefficient : 1.0);
}

void ReferenceUpdate::step(std::size_t tensor, double learning_rate, std::span<const float> gradient, std::span<float> parameters) {
  using Kind = tensor::OptimizerKind;
  tensor::OptimizerOptions options = rules_.optimizer;
  if (!rules_.groups.empty()) {
    const job::ParameterGroup& group = rules_.groups[static_cast<std::size_t>(table_.tensors[tensor].group)];
    options.weight_decay = group.weight_decay;
    learning_rate = learning_rate * group.learning_rate_factor;
  }
  const std::int64_t count = ++steps_[tensor];
  const auto power = [](double base, std::int64_t exponent) {  // by repeated squaring
    double product = 1;
    for (; exponent > 0; exponent >>= 1, base *= base) {
      if ((exponent & 1) != 0) product *= base;
    }
    return product;
  };
  const auto rate = static_cast<float>(learning_rate), decay = static_cast<float>(options.weight_decay),
             momentum = static_cast<float>(options.momentum);
  const auto keep = static_cast<float>(1 - learning_rate * options.weight_decay);
  const auto beta1 = static_cast<float>(options.beta1), rest1 = static_cast<float>(1 - options.beta1);
  const auto beta2 = static_cast<float>(options.beta2), rest2 = static_cast<float>(1 - options.beta2);
  const auto epsilon = static_cast<float>(options.epsilon);
  const auto size = static_cast<float>(learning_rate / (1 - power(options.beta1, count)));
  const auto correction = static_cast<float>(std::sqrt(1 - power(options.beta2, count)));
  for (auto i = static_cast<std::size_t>(offsets_[tensor]); i < static_cast<std::size_t>(offsets_[tensor + 1]); ++i) {
    float g = gradient[i];
    float& p = parameters[i];
    if (options.weight_decay != 0) {
      if (options.kind == Kind::kAdamW)
        p = p * keep;
      else
        g = g + decay * p;
    }
    if (options.kind == Kind::kMean) {
      p = g;
    } else if (options.kind == Kind::kSgd) {
      p = p - rate * g;
    } else if (options.kind == Kind::kMomentum || options.kind == Kind::kNesterov) {
      first_[i] = momentum * first_[i] + g;
      p = p - rate * (options.kind == Kind::kMomentum ? first_[i] : g + momentum * first_[i]);
    } else if (options.kind == Kind::kAdagrad) {
      first_[i] = first_[i] + g * g;
      p = p - (rate * g) / (std::sqrt(first_[i]) + epsilon);
    } else {
      first_[i] = beta1 * first_[i] + rest1 * g;
      second_[i] = beta2 * second_[i] + (rest2 * g) * g;
      p = p - (size * first_[i]) / (std::sqrt(second_[i]) / correction + epsilon);
    }
  }
}

}  // namespace paceline::training

#include "exchange/shard.h"

#include <algorithm>
#include <utility>

#include "tensor/optimizer.h"
#include "tensor/reduce.h"

namespace paceline::exchange {

Shard::Shard(std::shared_ptr<const job::Plan> plan, std::span<const std::uint32_t> units, Steps steps) : plan_(std::move(plan)) {
  parts_.resize(plan_->units().parts.size());
  for (const std::uint32_t unit : units) {
    if (steps == Steps::kElsewhere) break;
    const scheduling::Unit& planned = plan_->units().units[unit];
    for (std::uint32_t part = planned.first_part; part < planned.first_part + planned.parts; ++part) {
      const scheduling::Part& of = plan_->units().parts[part];
      const auto planes = static_cast<std::size_t>(tensor::state_floats_per_parameter(plan_->optimizer_of(of.tensor)));
      parts_[part].state.assign(static_cast<std::size_t>(of.elements) * planes, 0.0F);
    }
  }
  other_squares_.resize(static_cast<std::size_t>(plan_->options().servers));
}

// --- a mean gradient ---

bool Shard::look(std::span<const float> mean) {
  const job::UpdateOptions& options = plan_->options().update;
  if (options.clip_norm > 0) own_squares_.add(mean);
  return options.non_finite == job::NonFinitePolicy::kApply || tensor::all_finite(mean);
}

Status Shard::on_broken(Status reason) {
  if (plan_->options().update.non_finite != job::NonFinitePolicy::kSkip) return reason;
  if (own_failure_.ok()) own_failure_ = std::move(reason);
  own_squares_.mark_nan();
  return {};
}

// A gradient may be no number only once it was rounded.
std::string Shard::wire_text() const {
  const job::WireOptions& wire = plan_->options().wire;
  if (!wire.narrow()) return {};
  return fmt::format(" in {}{}", wire.text(), wire.loss_scale == 1 ? "" : fmt::format(" times {}", wire.loss_scale));
}

Status Shard::broken_gradient(Rank worker, std::uint32_t part, Iteration iteration, std::size_t element, float value) const {
  return error(ErrorKind::kCorrupt,
               "worker {} has a gradient that is not finite in {} of iteration {}: element {} is {}{}; lower the learning rate, "
               "or give --non-finite skip",
               worker.value, plan_->part_text(part), iteration, element, value, wire_text())
      .because({"not-finite", ""});
}

Status Shard::broken_sum(std::uint32_t part, Iteration iteration) const {
  return error(ErrorKind::kCorrupt,
               "the sum of the workers' gradients overflows in {} of iteration {}; lower the learning rate, or give --non-finite "
               "skip",
               plan_->part_text(part), iteration)
      .because({"not-finite", ""});
}

void Shard::step(std::uint32_t part, std::size_t begin, const Rates& rates, std::span<const float> mean, std::span<float> values) {
  const scheduling::Part& planned = plan_->units().parts[part];
  Part& of = parts_[part];
  if (begin == 0) ++of.steps;
  const std::span<float> state = of.state.empty() ? std::span<float>() : std::span(of.state).subspan(begin);
  tensor::OptimizerOptions options = plan_->optimizer_of(planned.tensor);
  tensor::StepContext context{.learning_rate = 0, .step = of.steps};
  if (rates.told.empty()) {
    context.learning_rate = plan_->learning_rate_of(planned.tensor, rates.iteration);
  } else {
    const GroupRates& told = rates.told[static_cast<std::size_t>(plan_->table().tensors[planned.tensor].group)];
    context.learning_rate = told.learning_rate;
    options.weight_decay = told.weight_decay;
  }
  tensor::step(options, context, values, mean, state, static_cast<std::size_t>(planned.elements));
}

// --- held updates ---

std::span<const std::byte> Shard::squares(Iteration iteration) {
  auto& bytes = sent_squares_[static_cast<std::size_t>(iteration % 2)];
  own_squares_.write(bytes);
  return bytes;
}

void Shard::put_squares(Rank server, Iteration iteration, std::span<const std::byte, tensor::kSquareSumBytes> part) {
  other_squares_[static_cast<std::size_t>(server.value)][static_cast<std::size_t>(iteration % 2)] = {
      iteration, tensor::ExactSquareSum::read(part)};
}

const Shard::Decision& Shard::decide(Iteration iteration) {
  tensor::ExactSquareSum squares = std::exchange(own_squares_, {});
  for (const auto& parts : other_squares_) {
    const SquarePart& part = parts[static_cast<std::size_t>(iteration % 2)];
    if (part.iteration == iteration) squares.add(part.sum);
  }
  const job::UpdateOptions& options = plan_->options().update;
  decision_ = {.skip = options.non_finite == job::NonFinitePolicy::kSkip && !squares.finite(), .reason = {}, .coefficient = 1};
  Status own = std::exchange(own_failure_, {});
  if (decision_.skip && own.ok())
    own = error(ErrorKind::kCorrupt, "another server found a gradient of iteration {} that is not finite", iteration)
              .because({"not-finite", ""});
  if (decision_.skip) decision_.reason = std::move(own);
  if (options.clip_norm > 0 && !decision_.skip) decision_.coefficient = tensor::clip_coefficient(squares, options.clip_norm);
  return decision_;
}

// --- checkpoints ---

Status Shard::load(std::uint32_t part, const PartState& from) {
  Part& of = parts_[part];
  if (from.state.size() != of.state.size()) {
    return error(ErrorKind::kBadRequest, "a saved state of {} has {} numbers of optimizer state; the job has {}",
                 plan_->part_text(part), from.state.size(), of.state.size());
  }
  if (from.steps < 0)
    return error(ErrorKind::kBadRequest, "a saved state of {} is of {} steps", plan_->part_text(part), from.steps);
  std::ranges::copy(from.state, of.state.begin());
  of.steps = from.steps;
  return {};
}

}  // namespace paceline::exchange

// Of Shard: how an update is made, at once or held until the sums of a whole iteration are known.
#include <algorithm>
#include <utility>

#include "paramserver/core/shard.h"
#include "tensor/narrow.h"
#include "tensor/optimizer.h"
#include "tensor/reduce.h"

namespace paceline::paramserver {

// The part of a unit's gradient as it came.
tensor::ConstTensorView Shard::received(const void* gradient, std::uint32_t part) const {
  const std::int64_t skipped = planned(part).offset - plan_->units().units[planned(part).unit].offset;
  return tensor::ConstTensorView(gradient, plan_->options().wire.type(), elements(planned(part).unit))
      .slice(static_cast<std::size_t>(skipped), static_cast<std::size_t>(planned(part).elements));
}

// The same with dropping; checked when it had come.
tensor::SparseSource Shard::received_sparse(const Arrival& arrival, std::uint32_t part) const {
  const std::uint32_t unit = planned(part).unit;
  const auto payload = bytes_of(arrival.gradient, arrival.bytes);
  if (payload.size() == plan_->payload_bytes(unit)) return {.dense = received(payload.data(), part).as<float>()};
  const std::int64_t skipped = planned(part).offset - plan_->units().units[unit].offset;
  return tensor::part_of(tensor::sparse_view(payload), static_cast<std::size_t>(skipped),
                         static_cast<std::size_t>(planned(part).elements));
}

// Fills sources_, with dropping sparse_, with the gradients of an update in rank order; false when no worker used the part.
bool Shard::gather(std::uint32_t part, const Update& update) {
  bool used = false;
  sources_.clear();
  sparse_.clear();
  for (const Rank worker : update.workers) {
    const Arrival& arrival = at(update.unit, worker);
    const bool unused = (arrival.unused_parts & bit_of(part)) != 0;
    if (plan_->options().wire.drops()) {
      sparse_.push_back(unused ? tensor::SparseSource() : received_sparse(arrival, part));
    } else if (unused) {
      if (zeros_.empty()) zeros_.resize(sum_.size());
      sources_.push_back(received(zeros_.data(), part));  // whose bits are zeros of every type
    } else {
      sources_.push_back(received(pool_.of(arrival.gradient, gradient_floats(update.unit)).data(), part));
    }
    used |= !unused;
  }
  return used;
}

// What gather() found.
void Shard::add_up(std::span<float> sum, double scale) const {
  const WireOptions& wire = plan_->options().wire;
  if (wire.drops()) return tensor::sum_sparse(sum, sparse_, scale);
  tensor::sum_widened(sum, sources_, scale / wire.loss_scale);
}

// For messages about a gradient that is not finite: it may have been so only once it was rounded.
std::string Shard::wire_text() const {
  const WireOptions& wire = plan_->options().wire;
  if (!wire.narrow()) return {};
  return fmt::format(" in {}{}", wire.text(), wire.loss_scale == 1 ? "" : fmt::format(" times {}", wire.loss_scale));
}

// Why the mean gradient of an update must not be applied; nothing when it is finite.
std::optional<Status> Shard::non_finite(std::uint32_t part, const Update& update, std::span<const float> sum) const {
  if (tensor::all_finite(sum)) return std::nullopt;
  const auto refused = [&](std::size_t source, std::size_t element, float value) {
    return error(ErrorKind::kCorrupt,
                 "worker {} has a gradient that is not finite in {} of iteration {}: element {} is {}{}; lower the learning rate, "
                 "or give --non-finite skip",
                 update.workers[source].value, part_text(part), update.iteration, element, value, wire_text());
  };
  for (std::size_t i = 0; i < sparse_.size(); ++i) {
    if (const auto element = tensor::first_non_finite(sparse_[i])) return refused(i, *element, element_of(sparse_[i], *element));
  }
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    if (const auto element = tensor::first_non_finite(sources_[i])) {
      float value = 0;
      tensor::convert(std::span(&value, 1), sources_[i].slice(*element, 1));
      return refused(i, *element, value);
    }
  }
  return error(
      ErrorKind::kCorrupt,
      "the sum of the workers' gradients overflows in {} of iteration {}; lower the learning rate, or give --non-finite skip",
      part_text(part), update.iteration);
}

void Shard::step_part(std::uint32_t part, Iteration rate_iteration, std::span<const float> gradient) {
  const std::uint32_t unit = planned(part).unit;
  Part& of = at(unit).parts[place_in_unit(part)];
  ++of.steps;
  tensor::step(plan_->optimizer_of(planned(part).tensor),
               {.learning_rate = plan_->learning_rate_of(planned(part).tensor, rate_iteration), .step = of.steps},
               part_of(writable_value(unit), part), gradient, of.state);
}

// --- at once ---

// False when nobody used the part.
Result<bool> Shard::update_part(std::uint32_t part, const Update& update) {
  if (!gather(part, update)) return false;
  // A lone dense gradient is used where it stands.
  std::span<const float> gradient = std::span(sum_).first(static_cast<std::size_t>(planned(part).elements));
  if (sources_.size() == 1 && update.scale == 1 && !plan_->options().wire.narrow()) {
    gradient = sources_.front().as<float>();
  } else {
    add_up(std::span(sum_).first(gradient.size()), update.scale);
  }
  if (plan_->options().update.non_finite == NonFinitePolicy::kStop) {
    if (auto reason = non_finite(part, update, gradient)) return *std::move(reason);
  }
  step_part(part, update.rate_iteration, gradient);
  return true;
}

Status Shard::update(const Update& update) {
  const scheduling::Unit& unit = plan_->units().units[update.unit];
  bool used = false;
  for (std::uint32_t part = unit.first_part; part < unit.first_part + unit.parts; ++part) {
    PACELINE_ASSIGN_OR_RETURN(const bool part_used, update_part(part, update));
    used |= part_used;
  }
  ++(used ? counters_.updates : counters_.skipped_units);
  give_back_gradients(update);
  return {};
}

// --- held ---

Status Shard::sum_part(std::uint32_t part, const Update& update) {
  if (!gather(part, update)) return {};
  const UpdateOptions& options = plan_->options().update;
  Unit& of = at(update.unit);
  if (of.sum == kNoBuffer) of.sum = take_buffer(elements(update.unit));
  of.used_parts |= bit_of(part);
  const auto sum = part_of(pool_.of(of.sum, elements(update.unit)), part);
  add_up(sum, update.scale);
  if (options.non_finite != NonFinitePolicy::kApply) {
    if (auto reason = non_finite(part, update, sum)) {
      if (options.non_finite == NonFinitePolicy::kStop) return *std::move(reason);
      if (own_failure_.ok()) own_failure_ = *std::move(reason);
      own_squares_.mark_nan();
    }
  }
  if (options.clip_norm > 0) own_squares_.add(sum);
  return {};
}

Status Shard::sum(const Update& update) {
  const scheduling::Unit& unit = plan_->units().units[update.unit];
  at(update.unit).used_parts = 0;
  for (std::uint32_t part = unit.first_part; part < unit.first_part + unit.parts; ++part)
    PACELINE_RETURN_IF_ERROR(sum_part(part, update));
  give_back_gradients(update);
  return {};
}

std::span<const std::byte> Shard::squares(Iteration iteration) {
  auto& bytes = sent_squares_[static_cast<std::size_t>(iteration % 2)];
  own_squares_.write(bytes);
  return bytes;
}

void Shard::put_squares(Rank server, Iteration iteration, std::span<const std::byte, tensor::kSquareSumBytes> part) {
  other_squares_[static_cast<std::size_t>(server.value)][static_cast<std::size_t>(iteration % 2)] = {
      iteration, tensor::ExactSquareSum::read(part)};
}

Shard::Verdict Shard::decide(Iteration iteration) {
  tensor::ExactSquareSum squares = std::exchange(own_squares_, {});
  for (const auto& parts : other_squares_) {
    const SquarePart& part = parts[static_cast<std::size_t>(iteration % 2)];
    if (part.iteration == iteration) squares.add(part.sum);
  }
  const UpdateOptions& options = plan_->options().update;
  verdict_ = {.skip = options.non_finite == NonFinitePolicy::kSkip && !squares.finite(), .reason = {}, .coefficient = 1};
  Status own = std::exchange(own_failure_, {});
  if (verdict_.skip && own.ok())
    own = error(ErrorKind::kCorrupt, "another server found a gradient of iteration {} that is not finite", iteration);
  if (verdict_.skip) verdict_.reason = std::move(own);
  if (options.clip_norm > 0 && !verdict_.skip) verdict_.coefficient = tensor::clip_coefficient(squares, options.clip_norm);
  return verdict_;
}

void Shard::step(const Update& update) {
  Unit& of = at(update.unit);
  const bool skipped = verdict_.skip || of.sum == kNoBuffer;
  const scheduling::Unit& unit = plan_->units().units[update.unit];
  for (std::uint32_t part = unit.first_part; part < unit.first_part + unit.parts; ++part) {
    if (skipped || (of.used_parts & bit_of(part)) == 0) continue;
    const auto gradient = part_of(pool_.of(of.sum, elements(update.unit)), part);
    if (verdict_.coefficient != 1.0F) tensor::scale(gradient, static_cast<double>(verdict_.coefficient));
    step_part(part, update.rate_iteration, gradient);
  }
  ++(skipped ? counters_.skipped_units : counters_.updates);
  give_back(of.sum, elements(update.unit));
}

}  // namespace paceline::paramserver

// Of ServerMemory: how an update is made, at once or held until the sums of a whole iteration are known.
#include <algorithm>
#include <utility>

#include "paramserver/core/server_memory.h"
#include "tensor/narrow.h"
#include "tensor/reduce.h"

namespace paceline::paramserver {

// The part of a unit's gradient as it came.
tensor::ConstTensorView ServerMemory::received(const void* gradient, std::uint32_t part) const {
  const std::int64_t skipped = planned(part).offset - plan_->units().units[planned(part).unit].offset;
  return tensor::ConstTensorView(gradient, plan_->options().wire.type(), elements(planned(part).unit))
      .slice(static_cast<std::size_t>(skipped), static_cast<std::size_t>(planned(part).elements));
}

// The same with dropping; checked when it had come.
tensor::SparseSource ServerMemory::received_sparse(const Arrival& arrival, std::uint32_t part) const {
  const std::uint32_t unit = planned(part).unit;
  const auto payload = bytes_of(arrival.gradient, arrival.bytes);
  if (payload.size() == plan_->payload_bytes(unit)) return {.dense = received(payload.data(), part).as<float>()};
  const std::int64_t skipped = planned(part).offset - plan_->units().units[unit].offset;
  return tensor::part_of(tensor::sparse_view(payload), static_cast<std::size_t>(skipped),
                         static_cast<std::size_t>(planned(part).elements));
}

// Fills sources_, with dropping sparse_, with the gradients of an update in rank order; false when no worker used the part.
bool ServerMemory::gather(std::uint32_t part, const Update& update) {
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
void ServerMemory::add_up(std::span<float> sum, double scale) const {
  const job::WireOptions& wire = plan_->options().wire;
  if (wire.drops()) return tensor::sum_sparse(sum, sparse_, scale);
  tensor::sum_widened(sum, sources_, scale / wire.loss_scale);
}

// An error: the mean gradient of an update must not be applied, and the job is to stop.
Status ServerMemory::look(std::uint32_t part, const Update& update, std::span<const float> mean) {
  return shard_.look(mean) ? Status() : shard_.on_broken(broken(part, update));
}

// The first one of those that gather() found that is not finite.
std::optional<ServerMemory::Broken> ServerMemory::find_broken(const Update& update) const {
  for (std::size_t i = 0; i < sparse_.size(); ++i) {
    if (const auto element = tensor::first_non_finite(sparse_[i]))
      return Broken{update.workers[i], *element, element_of(sparse_[i], *element)};
  }
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const auto element = tensor::first_non_finite(sources_[i]);
    if (!element) continue;
    float value = 0;
    tensor::convert(std::span(&value, 1), sources_[i].slice(*element, 1));
    return Broken{update.workers[i], *element, value};
  }
  return std::nullopt;
}

Status ServerMemory::broken(std::uint32_t part, const Update& update) const {
  const auto found = find_broken(update);
  return found ? shard_.broken_gradient(found->worker, part, update.iteration, found->element, found->value)
               : shard_.broken_sum(part, update.iteration);
}

void ServerMemory::judge(std::uint32_t part, const Update& update, std::span<const float> mean) {
  if (verdict_.add(mean)) return;
  const auto found = find_broken(update);
  verdict_.add_non_finite({.rank = found ? found->worker : exchange::Verdict::kNobody, .tensor = planned(part).tensor});
}

// --- at once ---

// False when nobody used the part.
Result<bool> ServerMemory::update_part(std::uint32_t part, const Update& update, Told told) {
  const bool judges = plan_->options().update.verdict;
  if (!gather(part, update)) {
    if (judges) verdict_.add_unused(planned(part).tensor);
    return false;
  }
  // A lone dense gradient is used where it stands.
  std::span<const float> gradient = std::span(sum_).first(static_cast<std::size_t>(planned(part).elements));
  if (sources_.size() == 1 && update.scale == 1 && !plan_->options().wire.narrow()) {
    gradient = sources_.front().as<float>();
  } else {
    add_up(std::span(sum_).first(gradient.size()), update.scale);
  }
  PACELINE_RETURN_IF_ERROR(look(part, update, gradient));
  if (judges) judge(part, update, gradient);
  shard_.step(part, 0, {update.rate_iteration, told}, gradient, part_of(writable_value(update.unit), part));
  return true;
}

Status ServerMemory::update(const Update& update, Told told) {
  const scheduling::Unit& unit = plan_->units().units[update.unit];
  bool used = false;
  for (std::uint32_t part = unit.first_part; part < unit.first_part + unit.parts; ++part) {
    PACELINE_ASSIGN_OR_RETURN(const bool part_used, update_part(part, update, told));
    used |= part_used;
  }
  ++(used ? counters_.updates : counters_.skipped_units);
  give_back_gradients(update);
  return {};
}

// --- held ---

Status ServerMemory::sum_part(std::uint32_t part, const Update& update) {
  if (!gather(part, update)) return {};
  Unit& of = at(update.unit);
  if (of.sum == kNoBuffer) of.sum = take_buffer(elements(update.unit));
  of.used_parts |= bit_of(part);
  const auto sum = part_of(pool_.of(of.sum, elements(update.unit)), part);
  add_up(sum, update.scale);
  return look(part, update, sum);
}

Status ServerMemory::sum(const Update& update) {
  const scheduling::Unit& unit = plan_->units().units[update.unit];
  at(update.unit).used_parts = 0;
  for (std::uint32_t part = unit.first_part; part < unit.first_part + unit.parts; ++part)
    PACELINE_RETURN_IF_ERROR(sum_part(part, update));
  give_back_gradients(update);
  return {};
}

void ServerMemory::step(const Update& update, Told told) {
  Unit& of = at(update.unit);
  const exchange::Shard::Decision& decision = shard_.decision();
  const bool skipped = decision.skip || of.sum == kNoBuffer;
  const scheduling::Unit& unit = plan_->units().units[update.unit];
  for (std::uint32_t part = unit.first_part; part < unit.first_part + unit.parts; ++part) {
    if (skipped || (of.used_parts & bit_of(part)) == 0) continue;
    const auto mean = part_of(pool_.of(of.sum, elements(update.unit)), part);
    if (decision.coefficient != 1.0F) tensor::scale(mean, static_cast<double>(decision.coefficient));
    shard_.step(part, 0, {update.rate_iteration, told}, mean, part_of(writable_value(update.unit), part));
  }
  ++(skipped ? counters_.skipped_units : counters_.updates);
  give_back(of.sum, elements(update.unit));
}

}  // namespace paceline::paramserver

// Of ServerMemory: how an update is made, at once or held until the sums of a whole iteration are known.
#include <algorithm>
#include <utility>

#include "paramserver/core/server_memory.h"
#include "tensor/reduce.h"

namespace paceline::paramserver {

// An error: the mean gradient of an update must not be applied, and the job is to stop.
Status ServerMemory::look(std::uint32_t part, const Update& update, std::span<const float> mean) {
  return shard_.look(mean) ? Status() : shard_.on_broken(broken(part, update));
}

Status ServerMemory::broken(std::uint32_t part, const Update& update) const {
  const auto found = gradients_.find_broken(update);
  return found ? shard_.broken_gradient(found->worker, part, update.iteration, found->element.index, found->element.value)
               : shard_.broken_sum(part, update.iteration);
}

void ServerMemory::judge(std::uint32_t part, const Update& update, std::span<const float> mean) {
  if (verdict_.add(mean)) return;
  const auto found = gradients_.find_broken(update);
  verdict_.add_non_finite(
      {.rank = found ? found->worker : exchange::Verdict::kNobody, .tensor = plan_->units().parts[part].tensor});
}

void ServerMemory::give_back_gradients(const Update& update) {
  for (const Rank worker : update.workers) forget(update.unit, worker);
}

// --- at once ---

// False when nobody used the part.
Result<bool> ServerMemory::update_part(std::uint32_t part, const Update& update, Told told) {
  const bool judges = plan_->options().update.verdict;
  if (!gradients_.gather(part, update)) {
    if (judges) verdict_.add_unused(plan_->units().parts[part].tensor);
    return false;
  }
  // A lone dense gradient is used where it stands.
  const auto scratch = std::span(sum_).first(static_cast<std::size_t>(plan_->units().parts[part].elements));
  const auto lone = update.scale == 1 ? gradients_.lone() : std::nullopt;
  if (!lone) gradients_.add_up(scratch, update.scale);
  const std::span<const float> gradient = lone.value_or(scratch);
  PACELINE_RETURN_IF_ERROR(look(part, update, gradient));
  if (judges) judge(part, update, gradient);
  shard_.step(part, 0, {update.rate_iteration, told}, gradient, plan_->units().of_part(writable_value(update.unit), part));
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
  if (!gradients_.gather(part, update)) return {};
  Unit& of = at(update.unit);
  if (of.sum == kNoBuffer) of.sum = gradients_.take(plan_->elements(update.unit));
  of.used_parts |= plan_->units().bit_of(part);
  const auto sum = plan_->units().of_part(pool_.of(of.sum, plan_->elements(update.unit)), part);
  gradients_.add_up(sum, update.scale);
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
    if (skipped || (of.used_parts & plan_->units().bit_of(part)) == 0) continue;
    const auto mean = plan_->units().of_part(pool_.of(of.sum, plan_->elements(update.unit)), part);
    if (decision.coefficient != 1.0F) tensor::scale(mean, static_cast<double>(decision.coefficient));
    shard_.step(part, 0, {update.rate_iteration, told}, mean, plan_->units().of_part(writable_value(update.unit), part));
  }
  ++(skipped ? counters_.skipped_units : counters_.updates);
  gradients_.give_back(of.sum, plan_->elements(update.unit));
}

}  // namespace paceline::paramserver

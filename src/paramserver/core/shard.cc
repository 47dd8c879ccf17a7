#include "paramserver/core/shard.h"

#include <algorithm>
#include <utility>

#include "tensor/dtype.h"
#include "tensor/narrow.h"
#include "tensor/optimizer.h"

namespace paceline::paramserver {

Shard::Shard(std::shared_ptr<const JobPlan> plan, Rank server) : plan_(std::move(plan)), server_(server) {
  const JobOptions& options = plan_->options();
  sources_.reserve(static_cast<std::size_t>(options.workers));
  arrivals_.resize(units().size() * static_cast<std::size_t>(options.workers));
  units_.resize(units().size());
  std::size_t largest = 0;
  for (const std::uint32_t unit : units()) {
    Unit& made = at(unit);
    made.value = pool_.take(elements(unit));
    std::ranges::fill(pool_.of(made.value, elements(unit)), 0.0F);
    for (const scheduling::Part& part : plan_->units().parts_of(plan_->units().units[unit])) {
      const auto planes = static_cast<std::size_t>(tensor::state_floats_per_parameter(plan_->optimizer_of(part.tensor)));
      made.parts.emplace_back().state.assign(static_cast<std::size_t>(part.elements) * planes, 0.0F);
    }
    largest = std::max(largest, elements(unit));
  }
  sum_.resize(largest);
  other_squares_.resize(static_cast<std::size_t>(options.servers));
}

std::string Shard::part_text(std::uint32_t part) const {
  const wire::TensorInfo& tensor = plan_->table().tensors[planned(part).tensor];
  return fmt::format("{} (tensor \"{}\", unit {})", plan_->layer_text(tensor.layer), tensor.name, planned(part).unit);
}

// --- gradients ---

std::uint32_t Shard::take_buffer(std::size_t floats) {
  counters_.gradient_bytes += static_cast<std::int64_t>(floats * sizeof(float));
  counters_.gradient_bytes_high = std::max(counters_.gradient_bytes_high, counters_.gradient_bytes);
  return pool_.take(floats);
}

void Shard::give_back(std::uint32_t& buffer, std::size_t floats) {
  if (buffer == kNoBuffer) return;
  counters_.gradient_bytes -= static_cast<std::int64_t>(floats * sizeof(float));
  pool_.release(std::exchange(buffer, kNoBuffer));
}

void Shard::give_back_gradients(const Update& update) {
  for (const Rank worker : update.workers) forget(update.unit, worker);
}

void Shard::forget(std::uint32_t unit, Rank worker) { give_back(at(unit, worker).gradient, gradient_floats(unit)); }

std::span<float> Shard::place(std::uint32_t unit, Rank worker, std::size_t bytes) {
  Arrival& arrival = at(unit, worker);
  arrival.bytes = bytes;
  arrival.gradient = take_buffer(gradient_floats(unit));  // for the largest, so that one block serves every iteration
  return pool_.of(arrival.gradient, (bytes + sizeof(float) - 1) / sizeof(float));
}

Status Shard::check(std::uint32_t unit, Rank worker, Iteration iteration) const {
  const Arrival& arrival = at(unit, worker);
  if (arrival.gradient == kNoBuffer || arrival.bytes == plan_->payload_bytes(unit)) return {};
  if (tensor::parse_sparse(bytes_of(arrival.gradient, arrival.bytes), elements(unit))) return {};
  return error(ErrorKind::kBadRequest, "worker {} pushed {} for iteration {} with elements that it does not have, or not in order",
               worker.value, part_text(plan_->units().units[unit].first_part), iteration);
}

void Shard::on_arrived(std::uint32_t unit, Rank worker, std::uint32_t unused_parts) {
  at(unit, worker).unused_parts = unused_parts;
}

std::span<const std::byte> Shard::bytes_of(std::uint32_t buffer, std::size_t bytes) const {
  return std::as_bytes(pool_.of(buffer, (bytes + sizeof(float) - 1) / sizeof(float))).first(bytes);
}

// --- values ---

// The buffer that holds the unit's value as it is sent.
std::uint32_t Shard::sent_buffer(std::uint32_t unit) {
  const WireOptions& wire = plan_->options().wire;
  Unit& of = at(unit);
  if (!wire.narrow()) return of.value;
  if (of.narrow == kNoBuffer) {
    of.narrow = pool_.take(gradient_floats(unit));
    const tensor::TensorView copy(pool_.of(of.narrow, 0).data(), wire.type(), elements(unit));
    tensor::convert(copy, std::span<const float>(pool_.of(of.value, elements(unit))));
  }
  return of.narrow;
}

Shard::Sent Shard::send(std::span<const std::uint32_t> units, Which which) {
  const auto buffer_of = [&](std::uint32_t unit) { return which == Which::kKept ? at(unit).kept : sent_buffer(unit); };
  if (units.size() == 1) {
    const std::uint32_t buffer = buffer_of(units.front());
    pool_.add_reference(buffer);
    return {bytes_of(buffer, plan_->payload_bytes(units.front())), buffer};
  }
  std::size_t total = 0;
  for (const std::uint32_t unit : units) total += plan_->payload_bytes(unit);
  const std::size_t floats = (total + sizeof(float) - 1) / sizeof(float);
  const std::uint32_t all = pool_.take(floats);
  auto rest = std::as_writable_bytes(pool_.of(all, floats));
  for (const std::uint32_t unit : units) {
    const auto value = bytes_of(buffer_of(unit), plan_->payload_bytes(unit));
    std::ranges::copy(value, rest.begin());
    rest = rest.subspan(value.size());
  }
  return {bytes_of(all, total), all};
}

void Shard::release(std::uint32_t ticket) { pool_.release(ticket); }

void Shard::keep(std::uint32_t unit) {
  PACELINE_CHECK(at(unit).kept == kNoBuffer, "unit {} is kept twice", unit);
  at(unit).kept = sent_buffer(unit);
  pool_.add_reference(at(unit).kept);
}

void Shard::forget_kept(std::uint32_t unit) { pool_.release(std::exchange(at(unit).kept, kNoBuffer)); }

std::span<float> Shard::writable_value(std::uint32_t unit) {
  std::uint32_t& value = at(unit).value;
  if (at(unit).narrow != kNoBuffer) pool_.release(std::exchange(at(unit).narrow, kNoBuffer));
  if (pool_.references(value) > 1) {
    const std::uint32_t copy = pool_.take(elements(unit));
    std::ranges::copy(pool_.of(value, elements(unit)), pool_.of(copy, elements(unit)).begin());
    pool_.release(std::exchange(value, copy));
    ++counters_.value_copies;
  }
  return pool_.of(value, elements(unit));
}

// --- checkpoints ---

Shard::PartState Shard::save(std::uint32_t part) const {
  const Unit& unit = at(planned(part).unit);
  const Part& of = unit.parts[place_in_unit(part)];
  return {part_of(pool_.of(unit.value, elements(planned(part).unit)), part), of.state, of.steps};
}

Status Shard::load(std::uint32_t part, const PartState& from) {
  const std::uint32_t unit = planned(part).unit;
  Part& of = at(unit).parts[place_in_unit(part)];
  const auto value = part_of(initial(unit), part);
  if (from.value.size() != value.size() || from.state.size() != of.state.size()) {
    return error(ErrorKind::kBadRequest,
                 "a saved state of {} has {} values and {} numbers of optimizer state; the job has {} and {}", part_text(part),
                 from.value.size(), from.state.size(), value.size(), of.state.size());
  }
  if (from.steps < 0) return error(ErrorKind::kBadRequest, "a saved state of {} is of {} steps", part_text(part), from.steps);
  std::ranges::copy(from.value, value.begin());
  std::ranges::copy(from.state, of.state.begin());
  of.steps = from.steps;
  return {};
}

}  // namespace paceline::paramserver

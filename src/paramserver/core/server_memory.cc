#include "paramserver/core/server_memory.h"

#include <algorithm>
#include <utility>

#include "exchange/optimizer_state.h"

namespace paceline::paramserver {

ServerMemory::ServerMemory(std::shared_ptr<const job::Plan> plan, Rank server)
    : plan_(std::move(plan)),
      shard_(plan_, plan_->units().moving_of(server)),
      gradients_(plan_, server, pool_),
      verdict_(plan_->table().tensors.size()) {
  const auto& units = plan_->units().of_server[static_cast<std::size_t>(server.value)];
  units_.resize(units.size());
  std::size_t largest = 0;
  for (const std::uint32_t unit : units) {
    Unit& made = at(unit);
    made.value = pool_.take(plan_->elements(unit));
    std::ranges::fill(pool_.of(made.value, plan_->elements(unit)), 0.0F);
    largest = std::max(largest, plan_->elements(unit));
  }
  sum_.resize(largest);
}

std::span<const std::byte> ServerMemory::bytes_of(std::uint32_t buffer, std::size_t bytes) const {
  return std::as_bytes(pool_.of(buffer, (bytes + sizeof(float) - 1) / sizeof(float))).first(bytes);
}

ServerMemory::Counters ServerMemory::counters() const {
  Counters now = counters_;
  now.gradient_bytes = gradients_.bytes();
  now.gradient_bytes_high = gradients_.most_bytes();
  return now;
}

// --- optimizer state ---

std::span<float> ServerMemory::initial_with_state(std::uint32_t unit) {
  const std::size_t floats = plan_->elements(unit) + exchange::state_bytes(*plan_, unit) / sizeof(float);
  at(unit).arriving = pool_.take(floats);
  return pool_.of(at(unit).arriving, floats);
}

Status ServerMemory::take_initial_state(std::uint32_t unit) {
  if (at(unit).arriving == kNoBuffer) return {};
  const std::uint32_t arrived = std::exchange(at(unit).arriving, kNoBuffer);
  const std::size_t value = plan_->elements(unit), bytes = value * sizeof(float) + exchange::state_bytes(*plan_, unit);
  std::ranges::copy(pool_.of(arrived, value), initial(unit).begin());
  const Status status = exchange::read_state(*plan_, unit, bytes_of(arrived, bytes).subspan(value * sizeof(float)), shard_);
  pool_.release(arrived);
  return status;
}

ServerMemory::Sent ServerMemory::send_state(std::uint32_t unit) {
  const std::size_t bytes = exchange::state_bytes(*plan_, unit);
  const std::uint32_t state = pool_.take(bytes / sizeof(float));
  exchange::write_state(*plan_, unit, shard_, std::as_writable_bytes(pool_.of(state, bytes / sizeof(float))));
  return {bytes_of(state, bytes), state};
}

// --- values ---

// The buffer that holds the unit's value as it is sent with that label.
std::uint32_t ServerMemory::sent_buffer(std::uint32_t unit, Iteration label) {
  const tensor::Codec& codec = plan_->value_codec(label);
  Unit& of = at(unit);
  if (codec.raw()) return of.value;
  if (of.encoded == kNoBuffer) {
    const std::size_t bytes = plan_->value_bytes(unit, label), floats = (bytes + sizeof(float) - 1) / sizeof(float);
    of.encoded = pool_.take(floats);
    codec.encode(pool_.of(of.value, plan_->elements(unit)), std::as_writable_bytes(pool_.of(of.encoded, floats)).first(bytes));
  }
  return of.encoded;
}

ServerMemory::Sent ServerMemory::send(std::span<const std::uint32_t> units, Which which, Iteration label) {
  const auto buffer_of = [&](std::uint32_t unit) { return which == Which::kKept ? at(unit).kept : sent_buffer(unit, label); };
  if (units.size() == 1) {
    const std::uint32_t buffer = buffer_of(units.front());
    pool_.add_reference(buffer);
    return {bytes_of(buffer, plan_->value_bytes(units.front(), label)), buffer};
  }
  std::size_t total = 0;
  for (const std::uint32_t unit : units) total += plan_->value_bytes(unit, label);
  const std::size_t floats = (total + sizeof(float) - 1) / sizeof(float);
  const std::uint32_t all = pool_.take(floats);
  auto rest = std::as_writable_bytes(pool_.of(all, floats));
  for (const std::uint32_t unit : units) {
    const auto value = bytes_of(buffer_of(unit), plan_->value_bytes(unit, label));
    std::ranges::copy(value, rest.begin());
    rest = rest.subspan(value.size());
  }
  return {bytes_of(all, total), all};
}

void ServerMemory::release(std::uint32_t ticket) { pool_.release(ticket); }

ServerMemory::Sent ServerMemory::send_verdict(Iteration iteration) {
  if (std::exchange(told_, iteration) != iteration) {
    if (told_buffer_ != kNoBuffer) pool_.release(told_buffer_);
    told_buffer_ = pool_.take(verdict_.bytes() / sizeof(float));
    verdict_.write(std::as_writable_bytes(pool_.of(told_buffer_, verdict_.bytes() / sizeof(float))));
    verdict_.clear();
  }
  pool_.add_reference(told_buffer_);
  return {bytes_of(told_buffer_, verdict_.bytes()), told_buffer_};
}

void ServerMemory::keep(std::uint32_t unit) {
  PACELINE_CHECK(at(unit).kept == kNoBuffer, "unit {} is kept twice", unit);
  at(unit).kept = sent_buffer(unit, plan_->options().first);  // an initial value is not kept
  pool_.add_reference(at(unit).kept);
}

void ServerMemory::forget_kept(std::uint32_t unit) { pool_.release(std::exchange(at(unit).kept, kNoBuffer)); }

std::span<float> ServerMemory::writable_value(std::uint32_t unit) {
  std::uint32_t& value = at(unit).value;
  if (at(unit).encoded != kNoBuffer) pool_.release(std::exchange(at(unit).encoded, kNoBuffer));
  if (pool_.references(value) > 1) {
    const std::uint32_t copy = pool_.take(plan_->elements(unit));
    std::ranges::copy(pool_.of(value, plan_->elements(unit)), pool_.of(copy, plan_->elements(unit)).begin());
    pool_.release(std::exchange(value, copy));
    ++counters_.value_copies;
  }
  return pool_.of(value, plan_->elements(unit));
}

// --- checkpoints ---

ServerMemory::PartState ServerMemory::save(std::uint32_t part) const {
  const std::uint32_t unit = plan_->units().parts[part].unit;
  const exchange::Shard::PartState of = shard_.save(part);
  return {plan_->units().of_part(pool_.of(at(unit).value, plan_->elements(unit)), part), of.state, of.steps};
}

Status ServerMemory::load(std::uint32_t part, const PartState& from) {
  const auto value = plan_->units().of_part(initial(plan_->units().parts[part].unit), part);
  if (from.value.size() != value.size()) {
    return error(ErrorKind::kBadRequest, "a saved state of {} has {} values; the job has {}", plan_->part_text(part),
                 from.value.size(), value.size());
  }
  PACELINE_RETURN_IF_ERROR(shard_.load(part, {from.state, from.steps}));
  std::ranges::copy(from.value, value.begin());
  return {};
}

}  // namespace paceline::paramserver

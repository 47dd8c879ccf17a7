// How values leave ServerCore: to all whom they are due, or to those who have asked.
#include <algorithm>

#include "paramserver/core/server_core.h"
#include "tensor/dtype.h"

namespace paceline::paramserver {

void ServerCore::offer_to_all(std::uint32_t unit, Iteration label, std::vector<ServerAction>& actions) {
  for (std::int32_t worker = 0; worker < static_cast<std::int32_t>(live_.size()); ++worker)
    offer(unit, Rank{worker}, label, actions);
}

void ServerCore::offer(std::uint32_t unit, Rank worker, Iteration label, std::vector<ServerAction>& actions) {
  if (live_[static_cast<std::size_t>(worker.value)] == 0) return;
  Slot& at = slot(unit, worker);
  const bool asked = at.asked != kNone && at.asked <= label;
  const bool first_answer = asked && at.due < at.asked;
  at.due = label;
  if (at.batch != kNoBatch) {
    if (first_answer && --batches_[at.batch].missing == 0) send_batch(at.batch, worker, label, actions);
  } else if (asked || plan_->options().schedule.back == scheduling::Return::kBroadcast) {
    send(unit, worker, label, actions);
  } else if (plan_->options().schedule.back == scheduling::Return::kNotifyAndPull) {
    actions.push_back({.kind = ServerAction::Kind::kNotify, .to = worker, .unit = unit, .last = unit, .iteration = label});
  }
}

// This server's units from `unit` to `last`, which live on it.
std::span<const std::uint32_t> ServerCore::units_between(std::uint32_t unit, std::uint32_t last) const {
  const std::size_t first = plan_->units().place_in_server[unit];
  return std::span(my_units()).subspan(first, plan_->units().place_in_server[last] - first + 1);
}

Status ServerCore::on_pull(Rank worker, std::uint32_t unit, std::uint32_t last, Iteration label,
                           std::vector<ServerAction>& actions) {
  PACELINE_RETURN_IF_ERROR(check(worker, unit));
  PACELINE_RETURN_IF_ERROR(check(worker, last));
  if (unit > last) return error(ErrorKind::kBadRequest, "worker {} asked for units {} to {}", worker.value, unit, last);
  const auto asked = units_between(unit, last);
  for (const std::uint32_t one : asked) {
    const Slot& at = slot(one, worker);
    // A pull may overtake the push of its iteration, but no more than that.
    if (label <= at.answered || label > at.pushed + 1) {
      return error(ErrorKind::kBadRequest,
                   "worker {} asked for the value of {} of iteration {}; it has that of {} and has pushed up to {}", worker.value,
                   unit_text(one), label, at.answered, at.pushed);
    }
    if (at.asked != kNone)
      return error(ErrorKind::kBadRequest, "worker {} asked for the value of {} of iteration {} twice", worker.value,
                   unit_text(one), label);
  }
  for (const std::uint32_t one : asked) slot(one, worker).asked = label;
  if (asked.size() == 1) {
    if (slot(unit, worker).due >= label) send(unit, worker, slot(unit, worker).due, actions);
    return {};
  }
  const Batch waiting{
      unit, last,
      static_cast<std::size_t>(std::ranges::count_if(asked, [&](std::uint32_t one) { return slot(one, worker).due < label; }))};
  const std::uint32_t batch = take_batch(waiting);
  for (const std::uint32_t one : asked) slot(one, worker).batch = batch;
  if (waiting.missing == 0) send_batch(batch, worker, label, actions);
  return {};
}

std::uint32_t ServerCore::take_batch(const Batch& batch) {
  auto place = std::ranges::find_if(batches_, [](const Batch& other) { return other.missing == 0; });
  if (place == batches_.end()) place = batches_.emplace(batches_.end());
  *place = batch;
  return static_cast<std::uint32_t>(place - batches_.begin());
}

// The buffer that holds the unit's value as it is sent.
std::uint32_t ServerCore::sent_value(std::uint32_t unit) {
  const WireOptions& wire = plan_->options().wire;
  UnitState& of = state(unit);
  if (!wire.narrow()) return of.value;
  if (of.narrow == kNoBuffer) {
    of.narrow = pool_.take(gradient_floats(unit));
    const tensor::TensorView copy(pool_.of(of.narrow, 0).data(), wire.type(), elements(unit));
    tensor::convert(copy, std::span<const float>(pool_.of(of.value, elements(unit))));
  }
  return of.narrow;
}

std::span<const std::byte> ServerCore::payload_of(std::uint32_t buffer, std::size_t bytes) const {
  return std::as_bytes(pool_.of(buffer, (bytes + sizeof(float) - 1) / sizeof(float))).first(bytes);
}

// All of the batch have the label: a worker asks for its own iteration, and no value goes beyond it before its push.
void ServerCore::send_batch(std::uint32_t batch, Rank worker, Iteration label, std::vector<ServerAction>& actions) {
  const Batch sent = batches_[batch];
  const auto units = units_between(sent.unit, sent.last);
  std::size_t total = 0;
  for (const std::uint32_t unit : units) total += plan_->payload_bytes(unit);
  const std::size_t floats = (total + sizeof(float) - 1) / sizeof(float);
  const std::uint32_t buffer = pool_.take(floats);
  auto rest = std::as_writable_bytes(pool_.of(buffer, floats));
  for (const std::uint32_t unit : units) {
    Slot& at = slot(unit, worker);
    PACELINE_CHECK(at.due == label, "a value of iteration {} in a batch of {}", at.due, label);
    at.answered = label;
    at.asked = kNone;
    at.batch = kNoBatch;
    const std::uint32_t value = at.kept != kNoBuffer ? at.kept : sent_value(unit);
    std::ranges::copy(payload_of(value, plan_->payload_bytes(unit)), rest.begin());
    forget_kept(at);
    rest = rest.subspan(plan_->payload_bytes(unit));
  }
  add_in_flight(worker, buffer);
  actions.push_back({.kind = ServerAction::Kind::kSendValues,
                     .to = worker,
                     .unit = sent.unit,
                     .last = sent.last,
                     .iteration = label,
                     .payload = payload_of(buffer, total),
                     .ticket = buffer});
}

void ServerCore::add_in_flight(Rank worker, std::uint32_t buffer) {
  auto& in_flight = in_flight_[static_cast<std::size_t>(worker.value)];
  if (buffer >= in_flight.size()) in_flight.resize(buffer + 1, 0);
  ++in_flight[buffer];
}

void ServerCore::send(std::uint32_t unit, Rank worker, Iteration label, std::vector<ServerAction>& actions) {
  Slot& at = slot(unit, worker);
  at.answered = label;
  at.asked = kNone;
  const std::uint32_t value = at.kept != kNoBuffer ? at.kept : sent_value(unit);
  pool_.add_reference(value);
  forget_kept(at);
  add_in_flight(worker, value);
  actions.push_back({.kind = ServerAction::Kind::kSendValue,
                     .to = worker,
                     .unit = unit,
                     .last = unit,
                     .iteration = label,
                     .payload = payload_of(value, plan_->payload_bytes(unit)),
                     .ticket = value});
}

void ServerCore::on_delivered(Rank worker, std::uint64_t ticket) {
  PACELINE_CHECK(worker.value >= 0 && static_cast<std::size_t>(worker.value) < in_flight_.size(), "delivered to worker {}",
                 worker.value);
  auto& in_flight = in_flight_[static_cast<std::size_t>(worker.value)];
  PACELINE_CHECK(ticket < in_flight.size() && in_flight[ticket] > 0, "ticket {} was not sent to worker {}", ticket, worker.value);
  --in_flight[ticket];
  pool_.release(static_cast<std::uint32_t>(ticket));
}

}  // namespace paceline::paramserver

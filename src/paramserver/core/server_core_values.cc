// How values leave ServerCore: to all whom they are due, or to those who have asked.
#include "paramserver/core/server_core.h"

namespace paceline::paramserver {

void ServerCore::offer_to_all(std::uint32_t unit, Iteration label, std::vector<ServerAction>& actions) {
  for (std::int32_t worker = 0; worker < static_cast<std::int32_t>(live_.size()); ++worker)
    offer(unit, Rank{worker}, label, actions);
}

void ServerCore::offer(std::uint32_t unit, Rank worker, Iteration label, std::vector<ServerAction>& actions) {
  if (live_[static_cast<std::size_t>(worker.value)] == 0) return;
  Slot& at = slot(unit, worker);
  at.due = label;
  const bool asked = at.asked != kNone && at.asked <= label;
  if (asked || plan_->options().schedule.back == scheduling::Return::kBroadcast) send(unit, worker, label, actions);
}

void ServerCore::start(std::span<const sync::Start> starts, std::vector<ServerAction>& actions) {
  for (const sync::Start& allowed : starts) {
    for (const std::uint32_t unit : my_units()) offer(unit, allowed.worker, allowed.iteration - 1, actions);
  }
}

Status ServerCore::on_pull(Rank worker, std::uint32_t unit, Iteration label, std::vector<ServerAction>& actions) {
  PACELINE_RETURN_IF_ERROR(check(worker, unit));
  Slot& at = slot(unit, worker);
  // A pull may overtake the push of its iteration, but no more than that.
  if (label <= at.answered || label > at.pushed + 1) {
    return error(ErrorKind::kBadRequest,
                 "worker {} asked for the value of {} of iteration {}; it has that of {} and has pushed up to {}", worker.value,
                 unit_text(unit), label, at.answered, at.pushed);
  }
  if (at.asked != kNone)
    return error(ErrorKind::kBadRequest, "worker {} asked for the value of {} of iteration {} twice", worker.value, unit_text(unit),
                 label);
  at.asked = label;
  if (at.due >= label) send(unit, worker, at.due, actions);
  return {};
}

void ServerCore::send(std::uint32_t unit, Rank worker, Iteration label, std::vector<ServerAction>& actions) {
  Slot& at = slot(unit, worker);
  at.answered = label;
  at.asked = kNone;
  const std::uint32_t value = state(unit).value;
  pool_.add_reference(value);
  auto& in_flight = in_flight_[static_cast<std::size_t>(worker.value)];
  if (value >= in_flight.size()) in_flight.resize(value + 1, 0);
  ++in_flight[value];
  actions.push_back({.kind = ServerAction::Kind::kSendValue,
                     .to = worker,
                     .unit = unit,
                     .iteration = label,
                     .payload = std::as_bytes(std::span<const float>(pool_.of(value, elements(unit)))),
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

// What the carrier by servers does with messages. Loop only.
#include <algorithm>

#include "paramserver/service/server_carrier.h"

namespace paceline::paramserver {
namespace {

PushLedger::Values values_of(const wire::MessageHead& head) {
  return {head.unit, head.kind == wire::MessageKind::kValues ? head.detail : head.unit, head.iteration};
}

}  // namespace

void ServerCarrier::send(wire::MessageKind kind, const WorkerAction& action, std::span<const std::byte> payload) {
  const scheduling::Unit& planned = plan_.units().units[action.unit];
  const wire::MessageHead head{.kind = kind,
                               .layer = order_.urgency().of(planned),
                               .unit = action.unit,
                               .detail = action.detail,
                               .iteration = action.iteration,
                               .payload_bytes = payload.size()};
  // Messages without payload borrow nothing, so nobody needs to know when they have arrived.
  sender_.send(planned.server, head, payload, payload.empty() ? kNoTicket : ticket_of(kind, action.unit));
}

// Before all that waits for the same server, whatever the schedule.
void ServerCarrier::send_rates(Iteration iteration) {
  rates_sent_ = iteration;
  const auto payload = std::as_bytes(std::span(rates_[static_cast<std::size_t>(iteration & 1)]));
  const wire::MessageHead head{
      .kind = wire::MessageKind::kRates, .layer = wire::kControlLayer, .iteration = iteration, .payload_bytes = payload.size()};
  for (const Rank server : plan_.servers_with_units()) sender_.send(server, head, payload, kNoTicket);
}

void ServerCarrier::send_actions() {
  const bool tells = plan_.options().update.told_rates;
  for (const WorkerAction& action : actions_) {
    if (tells && action.kind != WorkerAction::Kind::kPull && action.iteration != rates_sent_) send_rates(action.iteration);
    switch (action.kind) {
      case WorkerAction::Kind::kPush:
        send(wire::MessageKind::kPush, action, gradients_.of(action));
        break;
      case WorkerAction::Kind::kPushBatch:
        send(wire::MessageKind::kPushes, action, gradients_.of(action));
        break;
      case WorkerAction::Kind::kPull:
        send(wire::MessageKind::kPull, action, {});
        break;
    }
  }
  actions_.clear();
}

// What is no value. Sessions keep order and lose nothing, so another count of mini-batches than the next is a fault of the server.
Status ServerCarrier::on_told(Rank server, const wire::MessageHead& head, std::span<const std::byte> payload) {
  if (head.kind == wire::MessageKind::kState) return state_.on_state(server, head);
  {
    const exchange::Gatehouse::Lock lock = house_.lock();
    if (head.kind == wire::MessageKind::kVerdict) {
      PACELINE_RETURN_IF_ERROR(verdicts_->on_part(server, head.iteration, payload, house_.gates().current()));
    } else if (plan_.uneven() && head.unit == mini_batches_.added() + 1 && head.iteration >= 1) {
      mini_batches_.add(head.iteration);
    } else {
      return error(ErrorKind::kBadRequest, "worker {} was handed out mini-batch {} for its {}. iteration; so far it has {}",
                   worker_.value, head.iteration, head.unit, mini_batches_.added());
    }
  }
  house_.wake();
  return {};
}

bool ServerCarrier::takes(const wire::MessageHead& head) {
  if (head.flags != 0) return false;
  switch (head.kind) {
    case wire::MessageKind::kValue:
    case wire::MessageKind::kValues:
      return true;
    case wire::MessageKind::kVerdict:
    case wire::MessageKind::kState:
      return head.payload_bytes != 0;
    case wire::MessageKind::kNotify:
    case wire::MessageKind::kMiniBatch:
      return head.payload_bytes == 0;
    default:
      return false;
  }
}

Status ServerCarrier::unexpected(Rank server, const wire::MessageHead& head) const {
  return error(ErrorKind::kBadRequest, "server {} sent worker {} a message it does not take: kind {}, flags {}, {} bytes",
               server.value, worker_.value, static_cast<int>(head.kind), static_cast<int>(head.flags), head.payload_bytes);
}

Result<std::span<std::byte>> ServerCarrier::on_message_begin(Rank from, const wire::MessageHead& head) {
  if (!takes(head) || head.payload_bytes == 0) return unexpected(from, head);
  if (head.kind == wire::MessageKind::kVerdict) {
    const auto place = verdicts_ ? verdicts_->place(from, head.iteration, head.payload_bytes) : std::span<std::byte>();
    if (place.empty()) return unexpected(from, head);
    return place;
  }
  if (head.kind == wire::MessageKind::kState) return state_.place(from, head);
  const PushLedger::Values values = values_of(head);
  const exchange::Gatehouse::Lock lock = house_.lock();
  const TimePoint now = house_.loop().now();
  PACELINE_ASSIGN_OR_RETURN(const auto place, ledger_.on_value_begin(from, values, head.payload_bytes, now));
  return values_.begin(values, place);
}

void ServerCarrier::on_message(Rank from, const wire::MessageHead& head, std::span<std::byte> payload) {
  if (!takes(head)) return house_.fail(unexpected(from, head));
  if (head.kind == wire::MessageKind::kMiniBatch || head.kind == wire::MessageKind::kVerdict ||
      head.kind == wire::MessageKind::kState) {
    if (const Status status = on_told(from, head, payload); !status.ok()) house_.fail(status);
    return;
  }
  const PushLedger::Values values = values_of(head);
  if (!payload.empty()) values_.complete(values, payload);
  Status status;
  bool opened = false;
  {
    const exchange::Gatehouse::Lock lock = house_.lock();
    const TimePoint now = house_.loop().now();
    if (head.kind == wire::MessageKind::kNotify) {
      status = ledger_.on_notify(from, head.unit, head.iteration, actions_);
    } else {
      const std::uint32_t micros = head.kind == wire::MessageKind::kValue ? head.detail : 0;
      status = ledger_.on_value(from, values, micros, now, actions_);
      opened = status.ok() && ledger_.any_open(values);
    }
    count_bytes();
    if (!house_.failure().ok()) actions_.clear();
  }
  if (!status.ok()) return house_.fail(status);
  if (opened) house_.wake();
  send_actions();
}

void ServerCarrier::on_delivered(Rank, wire::Channel, std::uint64_t ticket) {
  if (ticket == kNoTicket || order_.on_delivered(ticket)) return;
  const auto unit = static_cast<std::uint32_t>(ticket);
  if (ticket == ticket_of(wire::MessageKind::kInitial, unit)) state_.on_initial_delivered(unit);
  bool changed = false;
  {
    const exchange::Gatehouse::Lock lock = house_.lock();
    exchange::GateLedger& gates = house_.gates();
    if (ticket == ticket_of(wire::MessageKind::kInitial, unit)) {
      ledger_.on_initial_received(unit);
      changed = gates.all_open(plan_.options().first);
    } else {
      for (const std::uint32_t delivered : ledger_.on_push_delivered(unit, house_.loop().now(), actions_)) {
        const scheduling::Unit& planned = plan_.units().units[delivered];
        changed = changed || gates.free(planned.last_layer) || gates.free(planned.layer);
      }
    }
    count_bytes();
    if (!house_.failure().ok()) actions_.clear();
  }
  if (changed) house_.wake();
  send_actions();
}

void ServerCarrier::on_peer_lost(Rank, wire::Channel, const Status& reason) { house_.fail(reason); }

}  // namespace paceline::paramserver

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
                               .layer = planned.layer,
                               .unit = action.unit,
                               .detail = action.detail,
                               .iteration = action.iteration,
                               .payload_bytes = payload.size()};
  // Messages without payload borrow nothing, so nobody needs to know when they have arrived.
  outbox_.send_to_server(planned.server, head, payload, payload.empty() ? kNoTicket : ticket_of(kind, action.unit));
}

void ServerCarrier::send_actions() {
  for (const WorkerAction& action : actions_) {
    switch (action.kind) {
      case WorkerAction::Kind::kPush: {
        const bool borrows = action.detail != scheduling::all_parts(plan_.units().units[action.unit]);
        send(wire::MessageKind::kPush, action, borrows ? gradient_payload(action) : std::span<const std::byte>());
        break;
      }
      case WorkerAction::Kind::kPushBatch:
        send(wire::MessageKind::kPushes, action, gather_gradients(action.unit, action.detail));
        break;
      case WorkerAction::Kind::kPull:
        send(wire::MessageKind::kPull, action, {});
        break;
    }
  }
  actions_.clear();
}

// Sessions keep order and lose nothing, so another count than the next is a fault of the server.
Status ServerCarrier::on_mini_batch(const wire::MessageHead& head) {
  {
    const Gatehouse::Lock lock = house_.lock();
    if (!plan_.uneven() || head.unit != mini_batches_.added() + 1 || head.iteration < 1) {
      return error(ErrorKind::kBadRequest, "worker {} was handed out mini-batch {} for its {}. iteration; so far it has {}",
                   worker_.value, head.iteration, head.unit, mini_batches_.added());
    }
    mini_batches_.add(head.iteration);
  }
  house_.wake();
  return {};
}

bool ServerCarrier::takes(const session::PeerName& from, const wire::MessageHead& head) const {
  return from.role == session::Role::kServer && head.flags == 0 &&
         (head.kind == wire::MessageKind::kValue || head.kind == wire::MessageKind::kValues ||
          ((head.kind == wire::MessageKind::kNotify || head.kind == wire::MessageKind::kMiniBatch) && head.payload_bytes == 0));
}

Status ServerCarrier::unexpected(const session::PeerName& from, const wire::MessageHead& head) const {
  return error(ErrorKind::kBadRequest, "{} sent worker {} a message it does not take: kind {}, flags {}, {} bytes", from.text(),
               worker_.value, static_cast<int>(head.kind), static_cast<int>(head.flags), head.payload_bytes);
}

Result<std::span<std::byte>> ServerCarrier::on_message_begin(const session::PeerName& from, const wire::MessageHead& head) {
  if (!takes(from, head) || head.payload_bytes == 0) return unexpected(from, head);
  const PushLedger::Values values = values_of(head);
  const Gatehouse::Lock lock = house_.lock();
  const TimePoint now = house_.loop().now();
  PACELINE_ASSIGN_OR_RETURN(const auto place, ledger_.on_value_begin(from.rank, values, head.payload_bytes, now));
  if (profile_ && from.rank != own_server_) profile_->on_pull_begun(values.unit, now);
  const bool staged = place == PushLedger::Place::kStaging;
  if (!plan_.options().wire.narrow()) return place_of(values, staged);
  widen_now_[values.unit] = staged ? 0 : 1;
  return place_of(values, true);
}

std::span<std::byte> ServerCarrier::value_place(std::uint32_t unit, bool staged) const {
  return staged ? sent_part(staging_, unit) : std::as_writable_bytes(memory_.parameters(unit));
}

// Straight to where they belong when the units stand behind each other there.
Result<std::span<std::byte>> ServerCarrier::place_of(const PushLedger::Values& values, bool staged) {
  const std::size_t bytes = bytes_of(ledger_.units_of(values));
  if (in_one_piece(values.unit, values.last)) return std::span(value_place(values.unit, staged).data(), bytes);
  Parcel& parcel = parcels_[values.unit];
  parcel.memory.resize((bytes + sizeof(float) - 1) / sizeof(float));
  parcel.staged = staged;
  parcel.arriving = true;
  return std::as_writable_bytes(std::span(parcel.memory)).first(bytes);
}

// Nobody reads these places before on_value, so the copy needs no lock.
void ServerCarrier::deal_out(const PushLedger::Values& values, std::span<const std::byte> payload) {
  const auto found = parcels_.find(values.unit);
  if (found == parcels_.end() || !std::exchange(found->second.arriving, false)) return;
  for (const std::uint32_t unit : ledger_.units_of(values)) {
    const auto to = value_place(unit, found->second.staged);
    std::ranges::copy(payload.first(to.size()), to.begin());
    payload = payload.subspan(to.size());
  }
}

void ServerCarrier::on_message(const session::PeerName& from, const wire::MessageHead& head, std::span<std::byte> payload) {
  if (!takes(from, head)) return house_.fail(unexpected(from, head));
  if (head.kind == wire::MessageKind::kMiniBatch) {
    if (const Status status = on_mini_batch(head); !status.ok()) house_.fail(status);
    return;
  }
  const PushLedger::Values values = values_of(head);
  if (!payload.empty()) {
    deal_out(values, payload);
    if (!widen_now_.empty() && std::exchange(widen_now_[values.unit], 0) != 0) {
      for (const std::uint32_t unit : ledger_.units_of(values)) widen(unit);
    }
  }
  Status status;
  bool opened = false;
  {
    const Gatehouse::Lock lock = house_.lock();
    const TimePoint now = house_.loop().now();
    if (head.kind == wire::MessageKind::kNotify) {
      status = ledger_.on_notify(from.rank, head.unit, head.iteration, actions_);
    } else {
      const std::uint32_t micros = head.kind == wire::MessageKind::kValue ? head.detail : 0;
      status = ledger_.on_value(from.rank, values, micros, now, actions_);
      if (profile_ && from.rank != own_server_)
        profile_->on_pulled(values.unit, Bytes{static_cast<std::int64_t>(head.payload_bytes)}, now);
      opened = status.ok() && ledger_.any_open(values);
    }
    count_bytes();
    if (!house_.failure().ok()) actions_.clear();
  }
  if (!status.ok()) return house_.fail(status);
  if (opened) house_.wake();
  send_actions();
}

void ServerCarrier::on_delivered(const session::PeerName&, std::uint64_t ticket) {
  if (ticket == kNoTicket) return;
  const auto unit = static_cast<std::uint32_t>(ticket);
  bool changed = false;
  {
    const Gatehouse::Lock lock = house_.lock();
    GateLedger& gates = house_.gates();
    if (ticket == ticket_of(wire::MessageKind::kInitial, unit)) {
      ledger_.on_initial_received(unit);
      changed = gates.all_open(plan_.options().first);
    } else {
      for (const std::uint32_t delivered : ledger_.on_push_delivered(unit, house_.loop().now())) {
        const scheduling::Unit& planned = plan_.units().units[delivered];
        changed = changed || gates.free(planned.last_layer) || gates.free(planned.layer);
      }
    }
    count_bytes();
  }
  if (changed) house_.wake();
}

void ServerCarrier::on_peer_lost(const session::PeerName& peer, const Status& reason) {
  if (peer.role == session::Role::kServer) house_.fail(reason);
}

}  // namespace paceline::paramserver

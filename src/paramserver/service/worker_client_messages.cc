// What the worker client does with messages. Loop only.
#include <algorithm>

#include "paramserver/service/worker_client.h"

namespace paceline::paramserver {
namespace {

// What a ticket says: the kind of message above, the unit below. Never kNoTicket, which messages have that borrow nothing.
constexpr std::uint64_t kNoTicket = 0;
constexpr std::uint64_t ticket_of(wire::MessageKind kind, std::uint32_t unit) {
  return ((static_cast<std::uint64_t>(kind) + 1) << 32) | unit;
}

PushLedger::Values values_of(const wire::MessageHead& head) {
  return {head.unit, head.kind == wire::MessageKind::kValues ? head.detail : head.unit, head.iteration};
}

}  // namespace

void WorkerClient::send(wire::MessageKind kind, const WorkerAction& action, std::span<const std::byte> payload) {
  const scheduling::Unit& planned = plan_->units().units[action.unit];
  const wire::MessageHead head{.kind = kind,
                               .layer = planned.layer,
                               .unit = action.unit,
                               .detail = action.detail,
                               .iteration = action.iteration,
                               .payload_bytes = payload.size()};
  // Messages without payload borrow nothing, so nobody needs to know when they have arrived.
  outbox_.send_to_server(planned.server, head, payload, payload.empty() ? kNoTicket : ticket_of(kind, action.unit));
}

void WorkerClient::send_outgoing() {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.ok()) return;
    if (const auto round_trip = outbox_.round_trip(); profile_ && round_trip) profile_->on_round_trip(*round_trip);
    std::swap(sending_, outgoing_);
  }
  for (const WorkerAction& action : sending_) {
    switch (action.kind) {
      case WorkerAction::Kind::kPush: {
        const bool borrows = action.detail != scheduling::all_parts(plan_->units().units[action.unit]);
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
  sending_.clear();
}

void WorkerClient::send_initial() {
  for (const scheduling::Unit& unit : plan_->units().units)
    send(wire::MessageKind::kInitial, {.unit = unit.id, .iteration = plan_->options().first - 1},
         std::as_bytes(part(options_.parameters, unit.id)));
}

void WorkerClient::send_done() {
  Iteration last = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.ok()) return;
    last = gates_.current() - 2;
  }
  const wire::MessageHead head{.kind = wire::MessageKind::kDone, .layer = wire::kControlLayer, .iteration = last};
  const auto& of_server = plan_->units().of_server;
  for (std::size_t server = 0; server < of_server.size(); ++server) {
    if (!of_server[server].empty()) outbox_.send_to_server(Rank{static_cast<std::int32_t>(server)}, head, {}, kNoTicket);
  }
}

// Sessions keep order and lose nothing, so another count than the next is a fault of the server.
Status WorkerClient::on_mini_batch(const wire::MessageHead& head) {
  {
    const std::lock_guard lock(mutex_);
    if (!plan_->uneven() || head.unit != handed_out_ + 1 || head.iteration < 1) {
      return error(ErrorKind::kBadRequest, "worker {} was handed out mini-batch {} for its {}. iteration; so far it has {}",
                   worker_.value, head.iteration, head.unit, handed_out_);
    }
    ++handed_out_;
    mini_batches_.push_back(head.iteration);
    if (reader_) reader_(head.iteration);
  }
  changed_.notify_all();
  return {};
}

bool WorkerClient::takes(const session::PeerName& from, const wire::MessageHead& head) const {
  return from.role == session::Role::kServer && head.flags == 0 &&
         (head.kind == wire::MessageKind::kValue || head.kind == wire::MessageKind::kValues ||
          ((head.kind == wire::MessageKind::kNotify || head.kind == wire::MessageKind::kMiniBatch) && head.payload_bytes == 0));
}

Status WorkerClient::unexpected(const session::PeerName& from, const wire::MessageHead& head) const {
  return error(ErrorKind::kBadRequest, "{} sent worker {} a message it does not take: kind {}, flags {}, {} bytes", from.text(),
               worker_.value, static_cast<int>(head.kind), static_cast<int>(head.flags), head.payload_bytes);
}

Result<std::span<std::byte>> WorkerClient::on_message_begin(const session::PeerName& from, const wire::MessageHead& head) {
  if (!takes(from, head) || head.payload_bytes == 0) return unexpected(from, head);
  const PushLedger::Values values = values_of(head);
  const std::lock_guard lock(mutex_);
  const TimePoint now = loop_.now();
  PACELINE_ASSIGN_OR_RETURN(const auto place, core_.on_value_begin(from.rank, values, head.payload_bytes, now));
  if (profile_ && from.rank != options_.own_server) profile_->on_pull_begun(values.unit, now);
  const bool staged = place == PushLedger::Place::kStaging;
  if (!plan_->options().wire.narrow()) return place_of(values, staged ? staging_ : std::as_writable_bytes(options_.parameters));
  widen_now_[values.unit] = staged ? 0 : 1;
  return place_of(values, staging_);
}

// Straight into the arena when the units stand behind each other there.
Result<std::span<std::byte>> WorkerClient::place_of(const PushLedger::Values& values, std::span<std::byte> arena) {
  if (const auto piece = in_one_piece(arena, values.unit, values.last)) return *piece;
  const std::size_t bytes = bytes_of(core_.units_of(values));
  Parcel& parcel = parcels_[values.unit];
  parcel.memory.resize((bytes + sizeof(float) - 1) / sizeof(float));
  parcel.arena = arena;
  parcel.arriving = true;
  return std::as_writable_bytes(std::span(parcel.memory)).first(bytes);
}

// Nobody reads these places before on_value, so the copy needs no lock.
void WorkerClient::deal_out(const PushLedger::Values& values, std::span<const std::byte> payload) {
  const auto found = parcels_.find(values.unit);
  if (found == parcels_.end() || !std::exchange(found->second.arriving, false)) return;
  for (const std::uint32_t unit : core_.units_of(values)) {
    const auto to = sent_part(found->second.arena, unit);
    std::ranges::copy(payload.first(to.size()), to.begin());
    payload = payload.subspan(to.size());
  }
}

void WorkerClient::on_message(const session::PeerName& from, const wire::MessageHead& head, std::span<std::byte> payload) {
  if (!takes(from, head)) return fail(unexpected(from, head));
  if (head.kind == wire::MessageKind::kMiniBatch) {
    if (const Status status = on_mini_batch(head); !status.ok()) fail(status);
    return;
  }
  const PushLedger::Values values = values_of(head);
  if (!payload.empty()) {
    deal_out(values, payload);
    if (!widen_now_.empty() && std::exchange(widen_now_[values.unit], 0) != 0) {
      for (const std::uint32_t unit : core_.units_of(values)) widen(unit);
    }
  }
  Status status;
  bool opened = false, more = false;
  {
    const std::lock_guard lock(mutex_);
    if (head.kind == wire::MessageKind::kNotify) {
      status = core_.on_notify(from.rank, head.unit, head.iteration, outgoing_);
    } else {
      const std::uint32_t micros = head.kind == wire::MessageKind::kValue ? head.detail : 0;
      const TimePoint now = loop_.now();
      status = core_.on_value(from.rank, values, micros, now, outgoing_);
      if (profile_ && from.rank != options_.own_server)
        profile_->on_pulled(values.unit, Bytes{static_cast<std::int64_t>(head.payload_bytes)}, now);
      opened = status.ok() && core_.any_open(values);
    }
    more = !outgoing_.empty();
  }
  if (!status.ok()) return fail(status);
  if (opened) changed_.notify_all();
  if (more) send_outgoing();
}

void WorkerClient::on_delivered(const session::PeerName&, std::uint64_t ticket) {
  if (ticket == kNoTicket) return;
  const auto unit = static_cast<std::uint32_t>(ticket);
  bool changed = false;
  {
    const std::lock_guard lock(mutex_);
    if (ticket == ticket_of(wire::MessageKind::kInitial, unit)) {
      core_.on_initial_received(unit);
      changed = gates_.all_open(plan_->options().first);
    } else {
      for (const std::uint32_t delivered : core_.on_push_delivered(unit, loop_.now())) {
        const scheduling::Unit& planned = plan_->units().units[delivered];
        changed = changed || gates_.free(planned.last_layer) || gates_.free(planned.layer);
      }
    }
  }
  if (changed) changed_.notify_all();
}

void WorkerClient::on_peer_lost(const session::PeerName& peer, const Status& reason) {
  if (peer.role == session::Role::kServer) fail(reason);
}

void WorkerClient::fail(const Status& reason) {
  cancel(reason);
  if (!std::exchange(reported_, true) && options_.on_failed) options_.on_failed(reason);
}

}  // namespace paceline::paramserver

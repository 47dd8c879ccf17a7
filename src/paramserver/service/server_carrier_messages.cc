// What the carrier by servers does with messages. Loop only.
#include <utility>

#include "paramserver/service/server_carrier.h"

namespace paceline::paramserver {
// --- sent ---

// Messages without payload borrow nothing, so nobody needs to know when they have arrived.
void ServerCarrier::send(const Send& send, std::span<const std::byte> payload) {
  const std::uint32_t unit = *wire::unit_of(send.message);
  const Layer urgency = order_.urgency().of(plan_.units().units[unit]);
  sender_.send(send.to, wire::head_of(send.message, urgency, payload.size()), payload,
               payload.empty() ? kNoTicket : ticket_of(wire::kind_of(send.message), unit));
}

// Before all that waits for the same server, whatever the schedule.
void ServerCarrier::send_rates(Iteration iteration) {
  if (!plan_.options().update.told_rates || std::exchange(rates_sent_, iteration) == iteration) return;
  const auto payload = std::as_bytes(std::span(rates_[static_cast<std::size_t>(iteration & 1)]));
  const wire::MessageHead head = wire::head_of(wire::Rates{iteration}, wire::kControlLayer, payload.size());
  for (const Rank server : plan_.servers_with_units()) sender_.send(server, head, payload, kNoTicket);
}

void ServerCarrier::send_all() {
  const auto send_gradients = [this](const Send& message, const auto& push) {
    send_rates(push.iteration);
    send(message, gradients_.of(push));
  };
  for (const Send& message : sends_) {
    if (const auto* push = std::get_if<wire::Push>(&message.message))
      send_gradients(message, *push);
    else if (const auto* pushes = std::get_if<wire::Pushes>(&message.message))
      send_gradients(message, *pushes);
    else
      send(message, {});
  }
  sends_.clear();
}

// --- received ---

Status ServerCarrier::not_taken(Rank server, const wire::MessageHead& head) const {
  return wire::not_taken(head, server, {wire::Role::kWorker, worker_});
}

// What the carrier does with a message; wire::deliver() finds it.
struct ServerCarrier::Received {
  using Place = Result<std::span<std::byte>>;

  Place on_begin(Rank server, const wire::Value& value, std::uint64_t bytes) { return on_begin(server, as_values(value), bytes); }
  Place on_begin(Rank server, const wire::Values& values, std::uint64_t bytes) {
    const exchange::Gatehouse::Lock lock = of.house_.lock();
    const TimePoint now = of.house_.loop().now();
    PACELINE_ASSIGN_OR_RETURN(const auto place, of.ledger_.on_begin(server, values, bytes, now));
    return of.values_.begin(values, place);
  }
  Status on(Rank server, const wire::Value& value, std::span<const std::byte> payload) { return on_values(server, value, payload); }
  Status on(Rank server, const wire::Values& values, std::span<const std::byte> payload) {
    return on_values(server, values, payload);
  }
  Status on_values(Rank server, const auto& values, std::span<const std::byte> payload) {
    const wire::Values all = as_values(values);
    if (!payload.empty()) of.values_.complete(all, payload);
    Status status;
    bool opened = false;
    {
      const exchange::Gatehouse::Lock lock = of.house_.lock();
      const TimePoint now = of.house_.loop().now();
      status = of.ledger_.on(server, values, now, of.sends_);
      opened = status.ok() && of.ledger_.any_open(all);
      of.end_step();
    }
    if (opened) of.house_.wake();
    return status;
  }

  Status on(Rank server, const wire::Notify& notify, std::span<const std::byte>) {
    const exchange::Gatehouse::Lock lock = of.house_.lock();
    Status status = of.ledger_.on(server, notify, of.house_.loop().now(), of.sends_);
    of.end_step();
    return status;
  }

  // Sessions keep order and lose nothing, so another count than the next is a fault of the server.
  Status on(Rank, const wire::MiniBatch& handed_out, std::span<const std::byte>) {
    {
      const exchange::Gatehouse::Lock lock = of.house_.lock();
      if (!of.plan_.uneven() || handed_out.count != of.mini_batches_.added() + 1 || handed_out.number < 1) {
        return error(ErrorKind::kBadRequest, "worker {} was handed out mini-batch {} for its {}. iteration; so far it has {}",
                     of.worker_.value, handed_out.number, handed_out.count, of.mini_batches_.added());
      }
      of.mini_batches_.add(handed_out.number);
    }
    of.house_.wake();
    return {};
  }

  Place on_begin(Rank server, const wire::VerdictPart& part, std::uint64_t bytes) {
    const auto place = of.verdicts_ ? of.verdicts_->place(server, part.iteration, bytes) : std::span<std::byte>();
    if (!place.empty()) return place;
    return error(ErrorKind::kBadRequest, "server {} told worker {} a verdict of iteration {} in {} bytes, which nobody awaits",
                 server.value, of.worker_.value, part.iteration, bytes);
  }
  Status on(Rank server, const wire::VerdictPart& part, std::span<const std::byte> payload) {
    {
      const exchange::Gatehouse::Lock lock = of.house_.lock();
      PACELINE_RETURN_IF_ERROR(of.verdicts_->on_part(server, part.iteration, payload, of.house_.gates().current()));
    }
    of.house_.wake();
    return {};
  }

  Place on_begin(Rank server, const wire::State& state, std::uint64_t bytes) { return of.state_.place(server, state, bytes); }
  Status on(Rank server, const wire::State& state, std::span<const std::byte>) { return of.state_.on_state(server, state); }

  ServerCarrier& of;
};

Result<std::span<std::byte>> ServerCarrier::on_message_begin(Rank from, const wire::MessageHead& head) {
  Received received{*this};
  const auto message = wire::message_of(head);
  auto place = message ? wire::deliver_begin<Received::Place>(received, from, *message, head.payload_bytes) : std::nullopt;
  return place ? *std::move(place) : not_taken(from, head);
}

void ServerCarrier::on_message(Rank from, const wire::MessageHead& head, std::span<std::byte> payload) {
  Received received{*this};
  const auto message = wire::message_of(head);
  const auto status = message ? wire::deliver(received, from, *message, payload) : std::nullopt;
  if (!status) return house_.fail(not_taken(from, head));
  if (!status->ok()) return house_.fail(*status);
  send_all();
}

// Locked. Once the job has failed nothing is sent any more.
void ServerCarrier::end_step() {
  count_bytes();
  if (!house_.failure().ok()) sends_.clear();
}

void ServerCarrier::on_delivered(Rank, wire::Channel, std::uint64_t ticket) {
  if (ticket == kNoTicket || order_.on_delivered(ticket)) return;
  const auto unit = static_cast<std::uint32_t>(ticket);
  if (ticket == ticket_of(wire::Initial::kKind, unit)) state_.on_initial_delivered(unit);
  bool changed = false;
  {
    const exchange::Gatehouse::Lock lock = house_.lock();
    exchange::GateLedger& gates = house_.gates();
    if (ticket == ticket_of(wire::Initial::kKind, unit)) {
      ledger_.on_initial_received(unit);
      changed = gates.all_open(plan_.options().first);
    } else {
      for (const std::uint32_t delivered : ledger_.on_push_delivered(unit, house_.loop().now(), sends_)) {
        const scheduling::Unit& planned = plan_.units().units[delivered];
        changed = changed || gates.free(planned.last_layer) || gates.free(planned.layer);
      }
    }
    end_step();
  }
  if (changed) house_.wake();
  send_all();
}

void ServerCarrier::on_peer_lost(Rank, wire::Channel, const Status& reason) { house_.fail(reason); }

}  // namespace paceline::paramserver

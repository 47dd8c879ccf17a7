#include "paramserver/service/server_service.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace paceline::paramserver {
namespace {

// Work on pushes goes on for so long before the sockets are served again.
constexpr Duration kTurn = std::chrono::microseconds(500);

// The ticket of a message without payload; Server's are small numbers.
constexpr std::uint64_t kNothingBorrowed = std::uint64_t{1} << 32;

}  // namespace

Result<std::unique_ptr<ServerService>> ServerService::make(std::shared_ptr<const job::Plan> plan, Rank server,
                                                           transport::Loop& loop, session::Sender& sender,
                                                           ServerCallbacks callbacks) {
  PACELINE_ASSIGN_OR_RETURN(auto core, Server::make(std::move(plan), server));
  return std::unique_ptr<ServerService>(new ServerService(std::move(core), loop, sender, std::move(callbacks)));
}

ServerService::ServerService(std::unique_ptr<Server> server, transport::Loop& loop, session::Sender& sender,
                             ServerCallbacks callbacks)
    : server_(std::move(server)),
      plan_(server_->plan()),
      loop_(loop),
      dear_(plan_.options().message_start_up > Duration{}
                ? std::make_unique<DearSender>(loop, sender, plan_.options().message_start_up)
                : nullptr),
      sender_(dear_ ? *dear_ : sender),
      callbacks_(std::move(callbacks)),
      queue_(scheduling::ingress_order(plan_.options().schedule)),
      orders_(plan_) {
  const std::size_t units = plan_.units().of_server[static_cast<std::size_t>(server_->rank().value)].size();
  const auto workers = static_cast<std::size_t>(plan_.options().workers);
  queue_.reserve(units * workers);
  leaving_.reserve(units * workers + static_cast<std::size_t>(plan_.options().servers) + 2);
  spent_.resize(units);
  work_signal_ = loop.make_signal([this] { work(); });
  if (callbacks_.events != nullptr) server_->observe(*callbacks_.events);
}

Status ServerService::not_taken(Rank from, const wire::MessageHead& head) const {
  return wire::not_taken(head, from, {wire::Role::kServer, server_->rank()});
}

Result<std::span<std::byte>> ServerService::on_message_begin(Rank from, const wire::MessageHead& head) {
  if (failed_) return error(ErrorKind::kCancelled, "server {} has stopped", server_->rank().value);
  const auto message = wire::message_of(head);
  auto place = message ? wire::deliver_begin<Server::Place>(*this, from, *message, head.payload_bytes) : std::nullopt;
  return place ? *std::move(place) : not_taken(from, head);
}

void ServerService::on_message(Rank from, const wire::MessageHead& head, std::span<std::byte> payload) {
  if (failed_ || frozen_) return;
  const TimePoint begin = loop_.now();
  const auto message = wire::message_of(head);
  const auto status = message ? wire::deliver(*this, from, *message, payload, begin) : std::nullopt;
  if (!status) return fail(not_taken(from, head));
  carry_out(*status, loop_.now() - begin);
}

// --- pushes ---

Server::Place ServerService::on_begin(Rank worker, const wire::Pushes& pushes, std::uint64_t bytes) {
  const auto& units = plan_.units().units;
  const auto lives_here = [&](std::uint32_t unit) { return unit < units.size() && units[unit].server == server_->rank(); };
  if (!lives_here(pushes.unit) || !lives_here(pushes.last)) {
    return error(ErrorKind::kBadRequest, "worker {} pushed units {} to {} to server {}, which has no such units", worker.value,
                 pushes.unit, pushes.last, server_->rank().value);
  }
  const auto pushed = plan_.units().between(pushes.unit, pushes.last);
  std::uint64_t expected = 0;
  for (const std::uint32_t unit : pushed) expected += plan_.payload_bytes(unit);
  if (bytes != expected) {
    return error(ErrorKind::kBadRequest, "worker {} pushed {} bytes for units {} to {} in iteration {}; they have {}", worker.value,
                 bytes, pushes.unit, pushes.last, pushes.iteration, expected);
  }
  Parcel& parcel = parcels_[{worker, pushes.unit}];
  parcel.units = pushed;
  parcel.places.clear();
  for (const std::uint32_t unit : pushed) {
    const wire::Push push{.unit = unit, .iteration = pushes.iteration};
    PACELINE_ASSIGN_OR_RETURN(const auto place, server_->on_begin(worker, push, plan_.payload_bytes(unit)));
    parcel.places.push_back(place);
  }
  parcel.memory.resize(bytes);
  return std::span(parcel.memory);
}

// Each gradient to where it belongs; then they are as if each had come by itself.
Status ServerService::on(Rank worker, const wire::Pushes& pushes, std::span<const std::byte> payload, TimePoint) {
  const auto parcel = parcels_.find({worker, pushes.unit});
  if (parcel == parcels_.end() || payload.size() != parcel->second.memory.size()) {
    return error(ErrorKind::kBadRequest, "worker {} pushed units {} to {} without gradients", worker.value, pushes.unit,
                 pushes.last);
  }
  for (std::size_t i = 0; i < parcel->second.places.size(); ++i) {
    const std::span<std::byte> place = parcel->second.places[i];
    std::ranges::copy(payload.first(place.size()), place.begin());
    payload = payload.subspan(place.size());
    wait_for_turn(worker, {.unit = parcel->second.units[i], .iteration = pushes.iteration});
  }
  return {};
}

Status ServerService::on(Rank worker, const wire::Push& push, std::span<const std::byte>, TimePoint) {
  const std::size_t units = plan_.units().units.size();
  if (push.unit >= units)
    return error(ErrorKind::kBadRequest, "worker {} pushed unit {}; the job has {} units", worker.value, push.unit, units);
  wait_for_turn(worker, push);
  return {};
}

// By the order that the worker has told, which is one of the job's layers, not by the message's head, which may say anything.
void ServerService::wait_for_turn(Rank worker, const wire::Push& push) {
  queue_.on_arrived(orders_.urgency(worker, plan_.units().units[push.unit]), {worker, push});
  work_signal_->raise();
}

void ServerService::work() {
  const TimePoint end = loop_.now() + kTurn;
  while (may_work()) {
    work_one();
    if (loop_.now() >= end) break;
  }
  if (may_work()) work_signal_->raise();
}

void ServerService::release_updates() {
  if (std::exchange(held_, false)) work_signal_->raise();
}

void ServerService::work_one() {
  const auto [worker, push] = *queue_.take();
  ++counters_.pushes;
  counters_.reorderings = queue_.reorderings();

  const TimePoint begin = loop_.now();
  const Status status = server_->on(worker, push, begin, leaving_);
  const Duration spent = loop_.now() - begin;
  counters_.updating += spent;
  tell(wire::during(begin, begin + spent,
                    {.what = wire::Happening::kAggregate, .peer = worker.value, .unit = push.unit, .iteration = push.iteration}));
  if (status.ok()) {
    Spent& of = spent_[plan_.units().place_in_server[push.unit]];
    if (std::exchange(of.iteration, push.iteration) != push.iteration || plan_.options().sync.kind != sync::SyncKind::kBsp)
      of.total = {};
    if (!plan_.holds_updates()) of.total += spent;
  }
  carry_out(status, spent);
}

// --- servers ---

Status ServerService::on(Rank server, const wire::SquareSum& part, std::span<const std::byte>, TimePoint now) {
  Status status = server_->on(server, part, now, leaving_);
  tell(wire::during(now, loop_.now(), {.what = wire::Happening::kAggregate, .unit = wire::kAllUnits, .iteration = part.iteration}));
  return status;
}

Status ServerService::on(Rank server, const wire::Barrier& barrier, std::span<const std::byte>, TimePoint now) {
  if (server == plan_.pacing_server()) return server_->on(server, barrier, now, leaving_);
  return error(ErrorKind::kBadRequest, "server {} sent server {} a message of a barrier, which only server {} does", server.value,
               server_->rank().value, plan_.pacing_server().value);
}

// --- what follows ---

// Of a gradient that was taken. Says whether something was updated; a square sum that released nothing is nothing to tell of.
void ServerService::tell(wire::Event work) {
  if (callbacks_.events == nullptr) return;
  const std::int64_t updates = server_->counters().updates + server_->counters().skipped_units;
  const bool updated = std::exchange(updates_told_, updates) != updates;
  if (!updated && work.unit == wire::kAllUnits) return;
  if (updated && plan_.holds_updates() && work.unit != wire::kAllUnits) {
    callbacks_.events->on_event(wire::at(work.began(), work));  // the gradient itself was kept like the others
    work.unit = wire::kAllUnits;
  }
  if (updated) work.what = wire::Happening::kUpdate;
  callbacks_.events->on_event(work);
}

// `spent`: what the event cost. When it released a whole iteration, its units share the time by size.
void ServerService::carry_out(const Status& status, Duration spent) {
  const auto complete = server_->take_complete();
  if (complete && plan_.holds_updates()) share_time(spent);
  if (const auto skipped = server_->take_skipped()) {
    ++counters_.skipped_iterations;
    if (callbacks_.on_skipped) callbacks_.on_skipped(skipped->first, skipped->second);
  }
  if (complete && callbacks_.on_iteration_complete) callbacks_.on_iteration_complete(*complete);
  for (Leaving& leaving : leaving_) {
    if (failed_) break;
    send(leaving);
  }
  leaving_.clear();
  if (!status.ok()) return fail(status);
  ask_for_barriers();
}

void ServerService::ask_for_barriers() {
  if (failed_ || !server_->paces()) return;
  if (callbacks_.on_superstep) {
    if (const auto superstep = server_->take_superstep()) callbacks_.on_superstep(*superstep);
  }
  auto question = server_->take_question();
  if (!question) return;
  if (callbacks_.on_question) return callbacks_.on_question(*std::move(question));
  set_barriers(question->workers, sync::answer(*question));
}

void ServerService::set_barriers(std::span<const Rank> workers, std::span<const Iteration> barriers) {
  PACELINE_CHECK(workers.size() == barriers.size(), "{} barriers for {} workers", barriers.size(), workers.size());
  for (std::size_t i = 0; i < workers.size() && !failed_; ++i) {
    const wire::Barrier barrier{static_cast<std::uint32_t>(workers[i].value), barriers[i]};
    for (const Rank other : plan_.servers_with_units()) {
      if (other != server_->rank()) sender_.send(other, wire::head_of(barrier), {}, kNothingBorrowed);
    }
    carry_out(server_->on(server_->rank(), barrier, loop_.now(), leaving_), Duration{});
  }
}

void ServerService::share_time(Duration spent) {
  const auto elements = static_cast<double>(plan_.units().elements_of(server_->rank()));
  for (const std::uint32_t unit : plan_.units().of_server[static_cast<std::size_t>(server_->rank().value)]) {
    const double share = static_cast<double>(plan_.units().units[unit].elements) / elements;
    spent_[plan_.units().place_in_server[unit]].total = from_seconds(seconds(spent) * share);
  }
}

void ServerService::send(Leaving& leaving) {
  if (auto* const value = std::get_if<wire::Value>(&leaving.message)) {
    const Duration spent = spent_[plan_.units().place_in_server[value->unit]].total;
    const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(spent).count();
    value->update_micros =
        static_cast<std::uint32_t>(std::clamp<std::int64_t>(micros, 0, std::numeric_limits<std::uint32_t>::max()));
  }
  const auto& [to, message, sent] = leaving;
  const auto unit = wire::unit_of(message);
  const Layer urgency = unit ? orders_.urgency(to, plan_.units().units[*unit]) : wire::kControlLayer;
  sender_.send(to, wire::head_of(message, urgency, sent.payload.size()), sent.payload,
               sent.payload.empty() ? kNothingBorrowed : sent.ticket);
}

void ServerService::on_delivered(Rank to, wire::Channel channel, std::uint64_t ticket) {
  if (channel == wire::Channel::kServers || ticket == kNothingBorrowed) return;
  server_->on_delivered(ticket);
  if (dear_) dear_->on_delivered(to, ticket);
}

void ServerService::on_peer_lost(Rank peer, wire::Channel channel, const Status&) {
  if (dear_ && channel == wire::Channel::kGradients) dear_->on_peer_lost(peer);
  if (failed_ || channel != wire::Channel::kGradients) return;
  if (!plan_.uneven()) {
    frozen_ = true;
    return;
  }
  while (queue_.waiting() > 0 && !failed_) work_one();  // what it had pushed completely counts
  if (failed_) return;
  std::erase_if(parcels_, [&](const auto& parcel) { return parcel.first.first == peer; });
  const TimePoint begin = loop_.now();
  const Status status = server_->on_left(peer, begin, leaving_);
  carry_out(status, loop_.now() - begin);
}

void ServerService::fail(const Status& reason) {
  if (std::exchange(failed_, true)) return;
  if (callbacks_.on_failed) callbacks_.on_failed(reason);
}

}  // namespace paceline::paramserver

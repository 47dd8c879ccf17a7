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
  actions_.reserve(units * workers + static_cast<std::size_t>(plan_.options().servers) + 2);
  spent_.resize(units);
  square_sums_.resize(static_cast<std::size_t>(plan_.options().servers));
  work_signal_ = loop.make_signal([this] { work(); });
  if (callbacks_.events != nullptr) server_->observe(*callbacks_.events);
}

Result<std::span<std::byte>> ServerService::on_message_begin(Rank from, const wire::MessageHead& head) {
  if (failed_) return error(ErrorKind::kCancelled, "server {} has stopped", server_->rank().value);
  switch (head.kind) {
    case wire::MessageKind::kInitial: {
      PACELINE_ASSIGN_OR_RETURN(const auto place, server_->place_for_initial(from, head.unit, head.iteration, head.payload_bytes));
      return std::as_writable_bytes(place);
    }
    case wire::MessageKind::kPush: {
      if (head.flags != 0) break;
      PACELINE_ASSIGN_OR_RETURN(const auto place, server_->place_for_push(from, head.unit, head.iteration, head.payload_bytes));
      return std::as_writable_bytes(place).first(head.payload_bytes);
    }
    case wire::MessageKind::kPushes:
      if (head.flags != 0) break;
      return place_for_pushes(from, head);
    case wire::MessageKind::kRates:
      return server_->place_for_rates(from, head.iteration, head.payload_bytes);
    case wire::MessageKind::kOrder:
      return orders_.place(from, head.payload_bytes);
    case wire::MessageKind::kSquareSum:
      if (from.value >= plan_.options().servers || head.payload_bytes != tensor::kSquareSumBytes) break;
      return std::span<std::byte>(square_sums_[static_cast<std::size_t>(from.value)][static_cast<std::size_t>(head.iteration & 1)]);
    default:
      break;
  }
  return unexpected(from, head);
}

Result<std::span<std::byte>> ServerService::place_for_pushes(Rank worker, const wire::MessageHead& head) {
  const auto& units = plan_.units().units;
  const auto lives_here = [&](std::uint32_t unit) { return unit < units.size() && units[unit].server == server_->rank(); };
  if (!lives_here(head.unit) || !lives_here(head.detail) || head.unit >= head.detail) {
    return error(ErrorKind::kBadRequest, "worker {} pushed units {} to {} to server {}, which has no such units", worker.value,
                 head.unit, head.detail, server_->rank().value);
  }
  const auto pushed = plan_.units().between(head.unit, head.detail);
  std::uint64_t bytes = 0;
  for (const std::uint32_t unit : pushed) bytes += plan_.payload_bytes(unit);
  if (bytes != head.payload_bytes) {
    return error(ErrorKind::kBadRequest, "worker {} pushed {} bytes for units {} to {} in iteration {}; they have {}", worker.value,
                 head.payload_bytes, head.unit, head.detail, head.iteration, bytes);
  }
  Parcel& parcel = parcels_[{worker, head.unit}];
  parcel.units = pushed;
  parcel.places.clear();
  for (const std::uint32_t unit : pushed) {
    const std::size_t size = plan_.payload_bytes(unit);
    PACELINE_ASSIGN_OR_RETURN(const auto place, server_->place_for_push(worker, unit, head.iteration, size));
    parcel.places.push_back(std::as_writable_bytes(place).first(size));
  }
  parcel.memory.resize(bytes);
  return std::span(parcel.memory);
}

// Each gradient to where it belongs; then they are as if each had come by itself.
Status ServerService::deal_out(Rank worker, const wire::MessageHead& head, std::span<const std::byte> payload) {
  const auto parcel = parcels_.find({worker, head.unit});
  if (parcel == parcels_.end() || payload.size() != parcel->second.memory.size())
    return error(ErrorKind::kBadRequest, "worker {} pushed units {} to {} without gradients", worker.value, head.unit, head.detail);
  for (std::size_t i = 0; i < parcel->second.places.size(); ++i) {
    const std::span<std::byte> place = parcel->second.places[i];
    std::ranges::copy(payload.first(place.size()), place.begin());
    payload = payload.subspan(place.size());
    wait_for_turn({worker, parcel->second.units[i], head.iteration, 0});
  }
  return {};
}

Status ServerService::unexpected(Rank from, const wire::MessageHead& head) const {
  const bool of_server = channel_of(head.kind) == wire::Channel::kServers;
  return error(ErrorKind::kBadRequest, "{} {} sent server {} a message it does not take: kind {}, flags {}, {} bytes",
               of_server ? "server" : "worker", from.value, server_->rank().value, static_cast<int>(head.kind),
               static_cast<int>(head.flags), head.payload_bytes);
}

void ServerService::on_servers_message(Rank server, const wire::MessageHead& head, std::span<const std::byte> payload) {
  const TimePoint begin = loop_.now();
  if (head.kind == wire::MessageKind::kBarrier && head.payload_bytes == 0 && server == plan_.pacing_server()) {
    const Rank worker{static_cast<std::int32_t>(head.unit)};
    return carry_out(server_->on_barrier(worker, head.iteration, begin, actions_), Duration{});
  }
  if (head.kind != wire::MessageKind::kSquareSum) return fail(unexpected(server, head));
  const Status status = server_->on_square_sum(server, head.iteration, payload, begin, actions_);
  const Duration spent = loop_.now() - begin;
  tell(wire::during(begin, begin + spent,
                    {.what = wire::Happening::kAggregate, .unit = wire::kAllUnits, .iteration = head.iteration}));
  carry_out(status, spent);
}

void ServerService::on_message(Rank from, const wire::MessageHead& head, std::span<std::byte> payload) {
  if (failed_ || frozen_) return;
  if (channel_of(head.kind) == wire::Channel::kServers) return on_servers_message(from, head, payload);
  switch (head.kind) {
    case wire::MessageKind::kInitial:
      return carry_out(server_->on_initial(from, head.unit, head.iteration, loop_.now(), actions_), Duration{});
    case wire::MessageKind::kRates:
      if (head.payload_bytes == 0) return fail(unexpected(from, head));
      return carry_out(server_->on_rates(from, head.iteration), Duration{});
    case wire::MessageKind::kOrder:
      if (const Status status = orders_.on_order(from); !status.ok()) fail(status);
      return;
    case wire::MessageKind::kPull:
      if (head.payload_bytes != 0) return fail(unexpected(from, head));
      return carry_out(server_->on_pull(from, head.unit, head.detail, head.iteration, actions_), Duration{});
    case wire::MessageKind::kStateAsked:
      if (head.payload_bytes != 0) return fail(unexpected(from, head));
      return carry_out(server_->on_state_asked(from, actions_), Duration{});
    case wire::MessageKind::kPush:
      return enqueue(from, head);
    case wire::MessageKind::kPushes:
      if (const Status status = deal_out(from, head, payload); !status.ok()) fail(status);
      return;
    case wire::MessageKind::kDone:
      if (head.payload_bytes != 0) return fail(unexpected(from, head));
      return carry_out(server_->on_done(from, head.iteration, loop_.now(), actions_), Duration{});
    default:
      return fail(unexpected(from, head));
  }
}

void ServerService::enqueue(Rank worker, const wire::MessageHead& head) {
  if (head.unit >= plan_.units().units.size() || head.flags != 0) return fail(unexpected(worker, head));
  wait_for_turn({worker, head.unit, head.iteration, head.detail});
}

// By the order that the worker has told, which is one of the job's layers, not by the message's head, which may say anything.
void ServerService::wait_for_turn(const Waiting& push) {
  queue_.on_arrived(orders_.urgency(push.worker, plan_.units().units[push.unit]), push);
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
  const Waiting push = *queue_.take();
  ++counters_.pushes;
  counters_.reorderings = queue_.reorderings();

  const TimePoint begin = loop_.now();
  const Status status = server_->on_push(push.worker, push.unit, push.iteration, push.unused_parts, begin, actions_);
  const Duration spent = loop_.now() - begin;
  counters_.updating += spent;
  tell(wire::during(
      begin, begin + spent,
      {.what = wire::Happening::kAggregate, .peer = push.worker.value, .unit = push.unit, .iteration = push.iteration}));
  if (status.ok()) {
    Spent& of = spent_[plan_.units().place_in_server[push.unit]];
    if (std::exchange(of.iteration, push.iteration) != push.iteration || plan_.options().sync.kind != sync::SyncKind::kBsp)
      of.total = {};
    if (!plan_.holds_updates()) of.total += spent;
  }
  carry_out(status, spent);
}

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
  if (plan_.holds_updates()) share_time(spent);
  for (const ServerAction& action : actions_) {
    if (failed_) break;
    switch (action.kind) {
      case ServerAction::Kind::kSendValue:
      case ServerAction::Kind::kSendValues:
        send_value(action);
        break;
      case ServerAction::Kind::kNotify:
        send(wire::MessageKind::kNotify, action);
        break;
      case ServerAction::Kind::kSendSquareSum:
        send(wire::MessageKind::kSquareSum, action);
        break;
      case ServerAction::Kind::kSendVerdict:
        send(wire::MessageKind::kVerdict, action);
        break;
      case ServerAction::Kind::kSendState:
        send(wire::MessageKind::kState, action);
        break;
      case ServerAction::Kind::kIterationComplete:
        if (callbacks_.on_iteration_complete) callbacks_.on_iteration_complete(action.iteration);
        break;
      case ServerAction::Kind::kMiniBatch:
        send(wire::MessageKind::kMiniBatch, action);
        break;
      case ServerAction::Kind::kSkipped:
        ++counters_.skipped_iterations;
        if (callbacks_.on_skipped) callbacks_.on_skipped(action.iteration, action.failure);
        break;
      case ServerAction::Kind::kStop:
        fail(action.failure);
        break;
    }
  }
  actions_.clear();
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
    const wire::MessageHead head{.kind = wire::MessageKind::kBarrier,
                                 .layer = wire::kControlLayer,
                                 .unit = static_cast<std::uint32_t>(workers[i].value),
                                 .iteration = barriers[i]};
    for (const Rank other : plan_.servers_with_units()) {
      if (other != server_->rank()) sender_.send(other, head, {}, kNothingBorrowed);
    }
    carry_out(server_->on_barrier(workers[i], barriers[i], loop_.now(), actions_), Duration{});
  }
}

void ServerService::share_time(Duration spent) {
  const bool released = std::ranges::any_of(
      actions_, [](const ServerAction& action) { return action.kind == ServerAction::Kind::kIterationComplete; });
  if (!released) return;
  const auto elements = static_cast<double>(plan_.units().elements_of(server_->rank()));
  for (const std::uint32_t unit : plan_.units().of_server[static_cast<std::size_t>(server_->rank().value)]) {
    const double share = static_cast<double>(plan_.units().units[unit].elements) / elements;
    spent_[plan_.units().place_in_server[unit]].total = from_seconds(seconds(spent) * share);
  }
}

// Anything but a value.
void ServerService::send(wire::MessageKind kind, const ServerAction& action) {
  const bool of_unit = kind == wire::MessageKind::kNotify || kind == wire::MessageKind::kState;
  const wire::MessageHead head{
      .kind = kind,
      .layer = of_unit ? orders_.urgency(action.to, plan_.units().units[action.unit]) : wire::kControlLayer,
      .unit = action.unit,
      .iteration = action.iteration,
      .payload_bytes = action.payload.size()};
  sender_.send(action.to, head, action.payload, action.payload.empty() ? kNothingBorrowed : action.ticket);
}

void ServerService::send_value(const ServerAction& action) {
  const auto micros =
      std::chrono::duration_cast<std::chrono::microseconds>(spent_[plan_.units().place_in_server[action.unit]].total).count();
  wire::MessageHead head;
  head.layer = orders_.urgency(action.to, plan_.units().units[action.unit]);
  head.unit = action.unit;
  if (action.kind == ServerAction::Kind::kSendValues) {
    head.kind = wire::MessageKind::kValues;
    head.detail = action.last;
  } else {
    head.kind = wire::MessageKind::kValue;
    head.detail = static_cast<std::uint32_t>(std::clamp<std::int64_t>(micros, 0, std::numeric_limits<std::uint32_t>::max()));
  }
  head.iteration = action.iteration;
  head.payload_bytes = action.payload.size();
  sender_.send(action.to, head, action.payload, action.ticket);
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
  const Status status = server_->on_left(peer, begin, actions_);
  carry_out(status, loop_.now() - begin);
}

void ServerService::fail(const Status& reason) {
  if (std::exchange(failed_, true)) return;
  if (callbacks_.on_failed) callbacks_.on_failed(reason);
}

}  // namespace paceline::paramserver

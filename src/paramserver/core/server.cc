#include "paramserver/core/server.h"

#include <utility>

namespace paceline::paramserver {

Result<std::unique_ptr<Server>> Server::make(std::shared_ptr<const job::Plan> plan, Rank server) {
  PACELINE_ASSIGN_OR_RETURN(ServerLedger ledger, ServerLedger::make(std::move(plan), server));
  return std::unique_ptr<Server>(new Server(std::move(ledger)));
}

Server::Server(ServerLedger ledger)
    : ledger_(std::move(ledger)),
      memory_(ledger_.books().shared_plan(), ledger_.books().server()),
      rates_(ledger_.books().shared_plan()) {}

Result<std::span<float>> Server::place_for_initial(Rank worker, std::uint32_t unit, Iteration label, std::uint64_t bytes) {
  PACELINE_RETURN_IF_ERROR(ledger_.on_initial_begin(worker, unit, label, bytes));
  const std::span<float> value = memory_.initial(unit);
  return bytes == value.size_bytes() ? value : memory_.initial_with_state(unit);
}

Status Server::on_initial(Rank worker, std::uint32_t unit, Iteration label, TimePoint now, Actions& actions) {
  if (stopped_) return {};
  PACELINE_RETURN_IF_ERROR(ledger_.books().check(worker, unit));
  PACELINE_RETURN_IF_ERROR(memory_.take_initial_state(unit));
  PACELINE_RETURN_IF_ERROR(ledger_.on_initial(worker, unit, label, now, effects_));
  settle(now, actions);
  return {};
}

Result<std::span<float>> Server::place_for_push(Rank worker, std::uint32_t unit, Iteration iteration, std::uint64_t bytes) {
  PACELINE_RETURN_IF_ERROR(ledger_.on_push_begin(worker, unit, iteration, bytes));
  return memory_.place(unit, worker, static_cast<std::size_t>(bytes));
}

Status Server::on_push(Rank worker, std::uint32_t unit, Iteration iteration, std::uint32_t unused_parts, TimePoint now,
                       Actions& actions) {
  if (stopped_) return {};
  PACELINE_RETURN_IF_ERROR(ledger_.books().check(worker, unit));
  PACELINE_RETURN_IF_ERROR(check_rates_told(worker, iteration));
  PACELINE_RETURN_IF_ERROR(memory_.check(unit, worker, iteration));
  PACELINE_RETURN_IF_ERROR(ledger_.on_push(worker, unit, iteration, unused_parts, now, effects_));
  memory_.on_arrived(unit, worker, unused_parts);
  settle(now, actions);
  return {};
}

Status Server::check_rates_told(Rank worker, Iteration iteration) const {
  if (!plan().options().update.told_rates || !rates_.of(worker, iteration).empty()) return {};
  return error(ErrorKind::kBadRequest, "worker {} pushed a gradient of iteration {} and had not told its rates", worker.value,
               iteration);
}

// Of the lowest worker whose gradient is in it; all have the same where there are several. A held step is of an iteration of all.
ServerMemory::Told Server::rates_of(const Update& update) const {
  return rates_.of(update.workers.empty() ? Rank{0} : update.workers.front(), update.iteration);
}

Status Server::on_pull(Rank worker, std::uint32_t unit, std::uint32_t last, Iteration label, Actions& actions) {
  if (stopped_) return {};
  PACELINE_RETURN_IF_ERROR(ledger_.on_pull(worker, unit, last, label, effects_));
  carry_out(actions);
  return {};
}

Status Server::on_state_asked(Rank worker, Actions& actions) {
  if (stopped_) return {};
  for (const std::uint32_t unit : plan().units().moving_of(rank())) {
    PACELINE_RETURN_IF_ERROR(ledger_.books().check(worker, unit));
    const ServerMemory::Sent sent = memory_.send_state(unit);
    actions.push_back({.kind = ServerAction::Kind::kSendState,
                       .to = worker,
                       .unit = unit,
                       .last = unit,
                       .iteration = ledger_.books().at(unit).version,
                       .payload = sent.payload,
                       .ticket = sent.ticket});
  }
  return {};
}

Status Server::on_square_sum(Rank server, Iteration iteration, std::span<const std::byte> payload, TimePoint now,
                             Actions& actions) {
  if (stopped_) return {};
  if (payload.size() != tensor::kSquareSumBytes) {
    return error(ErrorKind::kBadRequest, "server {} sent a square sum of {} bytes; it has {}", server.value, payload.size(),
                 tensor::kSquareSumBytes);
  }
  PACELINE_RETURN_IF_ERROR(ledger_.on_square_sum(server, iteration, effects_));
  memory_.shard().put_squares(server, iteration, payload.first<tensor::kSquareSumBytes>());
  settle(now, actions);
  return {};
}

Status Server::on_barrier(Rank worker, Iteration barrier, TimePoint now, Actions& actions) {
  if (stopped_) return {};
  PACELINE_RETURN_IF_ERROR(ledger_.on_barrier(worker, barrier, now, effects_));
  settle(now, actions);
  return {};
}

Status Server::on_done(Rank worker, Iteration last, TimePoint now, Actions& actions) {
  if (stopped_) return {};
  PACELINE_RETURN_IF_ERROR(ledger_.on_done(worker, last, now, effects_));
  settle(now, actions);
  return {};
}

Status Server::on_left(Rank worker, TimePoint now, Actions& actions) {
  if (stopped_) return {};
  PACELINE_RETURN_IF_ERROR(ledger_.on_left(worker, now, effects_));
  settle(now, actions);
  return {};
}

// Makes what is due, and carries out what follows from the event and from that, in the order in which it was decided.
void Server::settle(TimePoint now, Actions& actions) {
  carry_out(actions);
  while (!stopped_) {
    const auto update = ledger_.next();
    if (!update || !make(*update, actions)) return;
    ledger_.on_updated(*update, now, effects_);
    carry_out(actions);
  }
}

// False when the job must stop.
bool Server::make(const Update& update, Actions& actions) {
  Status failure;
  switch (update.work) {
    case Update::Work::kSumAndStep:
      failure = memory_.update(update, rates_of(update));
      break;
    case Update::Work::kSum:
      failure = memory_.sum(update);
      break;
    case Update::Work::kStep:
      memory_.step(update, rates_of(update));
      break;
  }
  if (failure.ok()) return true;
  stopped_ = true;
  actions.push_back({.kind = ServerAction::Kind::kStop,
                     .unit = update.unit,
                     .last = update.unit,
                     .iteration = update.iteration,
                     .failure = std::move(failure)});
  return false;
}

void Server::carry_out(Actions& actions) {
  for (const ServerEffect& effect : effects_) carry_out(effect, actions);
  effects_.clear();
}

void Server::carry_out(const ServerEffect& effect, Actions& actions) {
  using Kind = ServerEffect::Kind;
  ServerAction action{.to = effect.to, .unit = effect.unit, .last = effect.last, .iteration = effect.iteration};
  switch (effect.kind) {
    case Kind::kSendValue:
    case Kind::kSendValues:
      return send(effect, actions);
    case Kind::kSendVerdict:
      return send_verdict(effect, actions);
    case Kind::kKeep:
      return memory_.keep(effect.unit);
    case Kind::kForget:
      return memory_.forget_kept(effect.unit);
    case Kind::kDropGradient:
      return memory_.forget(effect.unit, effect.to);
    case Kind::kDecide:
      return decide(effect.iteration, actions);
    case Kind::kSendSquareSum:
      action.kind = ServerAction::Kind::kSendSquareSum;
      action.payload = memory_.shard().squares(effect.iteration);
      break;
    case Kind::kNotify:
      action.kind = ServerAction::Kind::kNotify;
      break;
    case Kind::kIterationComplete:
      action.kind = ServerAction::Kind::kIterationComplete;
      break;
    case Kind::kMiniBatch:
      action.kind = ServerAction::Kind::kMiniBatch;
      break;
  }
  actions.push_back(std::move(action));
}

void Server::send(const ServerEffect& effect, Actions& actions) {
  const ServerMemory::Sent sent =
      memory_.send(plan().units().between(effect.unit, effect.last),
                   effect.kept ? ServerMemory::Which::kKept : ServerMemory::Which::kNow, effect.iteration);
  actions.push_back(
      {.kind = effect.kind == ServerEffect::Kind::kSendValue ? ServerAction::Kind::kSendValue : ServerAction::Kind::kSendValues,
       .to = effect.to,
       .unit = effect.unit,
       .last = effect.last,
       .iteration = effect.iteration,
       .payload = sent.payload,
       .ticket = sent.ticket});
}

void Server::send_verdict(const ServerEffect& effect, Actions& actions) {
  const ServerMemory::Sent sent = memory_.send_verdict(effect.iteration);
  actions.push_back({.kind = ServerAction::Kind::kSendVerdict,
                     .to = effect.to,
                     .iteration = effect.iteration,
                     .payload = sent.payload,
                     .ticket = sent.ticket});
}

void Server::decide(Iteration iteration, Actions& actions) {
  const exchange::Shard::Decision& decision = memory_.shard().decide(iteration);
  if (decision.skip) actions.push_back({.kind = ServerAction::Kind::kSkipped, .iteration = iteration, .failure = decision.reason});
}

// --- checkpoints ---

Server::PartSnapshot Server::export_part(std::uint32_t part) const {
  const auto& units = plan().units();
  PACELINE_CHECK(part < units.parts.size() && units.units[units.parts[part].unit].server == rank(), "part {} is not on server {}",
                 part, rank().value);
  const ServerMemory::PartState state = memory_.save(part);
  return {part, state.value, state.state, ledger_.books().at(units.parts[part].unit).version, state.steps};
}

Status Server::import_part(const PartSnapshot& snapshot) {
  const auto& parts = plan().units().parts;
  if (snapshot.part >= parts.size())
    return error(ErrorKind::kBadRequest, "a saved state is of part {}; the job has {}", snapshot.part, parts.size());
  const std::uint32_t unit = parts[snapshot.part].unit;
  PACELINE_RETURN_IF_ERROR(ledger_.books().check(Rank{0}, unit));
  const Iteration before = plan().options().first - 1;
  if (snapshot.version != before) {
    return error(ErrorKind::kBadRequest, "a saved state of tensor \"{}\" is of iteration {}; the job goes on after iteration {}",
                 plan().table().tensors[parts[snapshot.part].tensor].name, snapshot.version, before);
  }
  if (ledger_.books().at(unit).initial != ServerBooks::Initial::kAwaited) {
    return error(ErrorKind::kBadRequest, "a saved state of tensor \"{}\" came after the job had begun",
                 plan().table().tensors[parts[snapshot.part].tensor].name);
  }
  return memory_.load(snapshot.part, {snapshot.value, snapshot.state, snapshot.steps});
}

}  // namespace paceline::paramserver

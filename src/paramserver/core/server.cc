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
      rates_(ledger_.books().shared_plan()),
      square_sums_(static_cast<std::size_t>(plan().options().servers)),
      decided_(plan().options().first - 1) {}

// --- payloads that begin to come ---

Server::Place Server::on_begin(Rank worker, const wire::Initial& initial, std::uint64_t bytes) {
  PACELINE_RETURN_IF_ERROR(ledger_.on_begin(worker, initial, bytes));
  const std::span<float> value = memory_.initial(initial.unit);
  return std::as_writable_bytes(bytes == value.size_bytes() ? value : memory_.initial_with_state(initial.unit));
}

Server::Place Server::on_begin(Rank worker, const wire::Push& push, std::uint64_t bytes) {
  PACELINE_RETURN_IF_ERROR(ledger_.on_begin(worker, push, bytes));
  return std::as_writable_bytes(memory_.place(push.unit, worker, static_cast<std::size_t>(bytes))).first(bytes);
}

Server::Place Server::on_begin(Rank worker, const wire::Rates& rates, std::uint64_t bytes) {
  return rates_.place(worker, rates.iteration, bytes);
}

Server::Place Server::on_begin(Rank server, const wire::SquareSum& part, std::uint64_t bytes) {
  const auto index = static_cast<std::size_t>(server.value);
  if (index >= square_sums_.size() || bytes != tensor::kSquareSumBytes) {
    return error(ErrorKind::kBadRequest, "server {} sent a square sum of {} bytes; it has {}", server.value, bytes,
                 tensor::kSquareSumBytes);
  }
  return std::span<std::byte>(square_sum(server, part.iteration));
}

// --- messages ---

Status Server::on(Rank worker, const wire::Initial& initial, TimePoint now, std::vector<Leaving>& leaving) {
  return step(now, leaving, [&] {
    PACELINE_RETURN_IF_ERROR(ledger_.books().check(worker, initial.unit));
    PACELINE_RETURN_IF_ERROR(memory_.take_initial_state(initial.unit));
    return ledger_.on(worker, initial, now, effects_);
  });
}

Status Server::on(Rank worker, const wire::Push& push, TimePoint now, std::vector<Leaving>& leaving) {
  return step(now, leaving, [&] {
    PACELINE_RETURN_IF_ERROR(ledger_.books().check(worker, push.unit));
    PACELINE_RETURN_IF_ERROR(check_rates_told(worker, push.iteration));
    PACELINE_RETURN_IF_ERROR(memory_.check(push.unit, worker, push.iteration));
    PACELINE_RETURN_IF_ERROR(ledger_.on(worker, push, now, effects_));
    memory_.on_arrived(push.unit, worker, push.unused_parts);
    return Status();
  });
}

Status Server::on(Rank worker, const wire::Rates& rates, TimePoint, std::vector<Leaving>&) {
  return stopped_ ? Status() : rates_.on_rates(worker, rates.iteration);
}

Status Server::on(Rank worker, const wire::StateAsked&, TimePoint, std::vector<Leaving>& leaving) {
  if (stopped_) return {};
  for (const std::uint32_t unit : plan().units().moving_of(rank())) {
    PACELINE_RETURN_IF_ERROR(ledger_.books().check(worker, unit));
    leaving.push_back({worker, wire::State{unit, ledger_.books().at(unit).version}, memory_.send_state(unit)});
  }
  return {};
}

Status Server::on(Rank server, const wire::SquareSum& part, TimePoint now, std::vector<Leaving>& leaving) {
  return step(now, leaving, [&] {
    PACELINE_RETURN_IF_ERROR(ledger_.on(server, part, now, effects_));
    memory_.shard().put_squares(server, part.iteration, square_sum(server, part.iteration));
    return Status();
  });
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

// --- what follows ---

// Makes what is due, and carries out what follows from the event and from that, in the order in which it was decided.
Status Server::settle(TimePoint now, std::vector<Leaving>& leaving) {
  carry_out(leaving);
  while (const auto update = ledger_.next()) {
    Status made = make(*update);
    stopped_ = !made.ok();
    if (stopped_) return made;
    ledger_.on_updated(*update, now, effects_);
    carry_out(leaving);
  }
  return {};
}

Status Server::make(const Update& update) {
  switch (update.work) {
    case Update::Work::kSumAndStep:
      return memory_.update(update, rates_of(update));
    case Update::Work::kSum:
      return memory_.sum(update);
    case Update::Work::kStep:
      break;
  }
  if (std::exchange(decided_, update.iteration) != update.iteration) decide(update.iteration);
  memory_.step(update, rates_of(update));
  return {};
}

// Whether the iteration is skipped, and how far its gradients are clipped.
void Server::decide(Iteration iteration) {
  const exchange::Shard::Decision& decision = memory_.shard().decide(iteration);
  if (decision.skip) skipped_.emplace(iteration, decision.reason);
}

void Server::carry_out(std::vector<Leaving>& leaving) {
  for (const ServerEffect& effect : effects_) {
    if (const auto* send = std::get_if<Send>(&effect)) {
      leaving.push_back({send->to, send->message, payload_of(*send)});
    } else if (const auto* keep = std::get_if<Keep>(&effect)) {
      memory_.keep(keep->unit);
    } else if (const auto* forget = std::get_if<Forget>(&effect)) {
      forget->worker ? memory_.forget(forget->unit, *forget->worker) : memory_.forget_kept(forget->unit);
    } else {
      complete_ = std::get<Complete>(effect).iteration;
    }
  }
  effects_.clear();
}

ServerMemory::Sent Server::payload_of(const Send& send) {
  const auto which = send.kept ? ServerMemory::Which::kKept : ServerMemory::Which::kNow;
  if (const auto* value = std::get_if<wire::Value>(&send.message)) return memory_.send({&value->unit, 1}, which, value->iteration);
  if (const auto* values = std::get_if<wire::Values>(&send.message))
    return memory_.send(plan().units().between(values->unit, values->last), which, values->iteration);
  if (const auto* part = std::get_if<wire::VerdictPart>(&send.message)) return memory_.send_verdict(part->iteration);
  if (const auto* part = std::get_if<wire::SquareSum>(&send.message)) return {memory_.shard().squares(part->iteration)};
  return {};
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

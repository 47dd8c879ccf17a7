#include "paramserver/core/server_core.h"

#include <algorithm>
#include <utility>

#include "tensor/optimizer.h"

namespace paceline::paramserver {

ServerCore::ServerCore(std::shared_ptr<const JobPlan> plan, Rank server, std::unique_ptr<sync::SyncModel> sync)
    : plan_(std::move(plan)), server_(server), sync_(std::move(sync)), complete_(plan_->options().first - 1) {
  const JobOptions& options = plan_->options();
  PACELINE_CHECK(server.value >= 0 && server.value < options.servers, "server {} of {}", server.value, options.servers);
  const auto workers = static_cast<std::size_t>(options.workers);
  live_.assign(workers, 1);
  pushed_units_.assign(workers, 0);
  in_flight_.resize(workers);
  sources_.reserve(workers);
  Slot fresh;
  fresh.pushed = complete_;
  slots_.assign(my_units().size() * workers, fresh);
  units_.resize(my_units().size());
  std::size_t largest = 0;
  for (const std::uint32_t unit : my_units()) {
    UnitState& made = state(unit);
    made.value = pool_.take(elements(unit));
    std::ranges::fill(pool_.of(made.value, elements(unit)), 0.0F);
    made.version = complete_;
    made.state.assign(elements(unit) * static_cast<std::size_t>(tensor::state_floats_per_parameter(plan_->optimizer_of(unit))),
                      0.0F);
    largest = std::max(largest, elements(unit));
  }
  sum_.resize(largest);
  parts_.resize(static_cast<std::size_t>(options.servers));
  for (std::size_t other = 0; other < parts_.size(); ++other) {
    if (other != static_cast<std::size_t>(server.value) && !plan_->units().of_server[other].empty()) part_takers_.push_back(other);
  }
  if (sync_->delivery() == sync::Delivery::kAtStart) {
    // The first start needs no values: they come with the initial ones.
    for (std::int32_t worker = 0; worker < options.workers; ++worker) {
      const Status asked = sync_->on_start_asked(Rank{worker}, options.first, TimePoint{}, starts_);
      PACELINE_CHECK(asked.ok(), "the first start was refused: {}", asked.message());
    }
  }
}

std::string ServerCore::unit_text(std::uint32_t unit) const {
  const auto& units = plan_->units();
  return fmt::format("{} (tensor \"{}\", unit {})", plan_->layer_text(units.units[unit].layer),
                     plan_->table().tensors[units.tensor_of[unit]].name, unit);
}

Status ServerCore::check(Rank worker, std::uint32_t unit) const {
  if (worker.value < 0 || static_cast<std::size_t>(worker.value) >= live_.size()) {
    return error(ErrorKind::kBadRequest, "a message came from worker {}; the job has {} workers", worker.value, live_.size());
  }
  if (live_[static_cast<std::size_t>(worker.value)] == 0)
    return error(ErrorKind::kBadRequest, "a message came from worker {}, which has left the job", worker.value);
  if (unit >= plan_->units().units.size()) {
    return error(ErrorKind::kBadRequest, "worker {} sent a message about unit {}; the job has {} units", worker.value, unit,
                 plan_->units().units.size());
  }
  if (const Rank home = plan_->units().units[unit].server; home != server_) {
    return error(ErrorKind::kBadRequest, "worker {} sent a message about unit {} to server {}; the unit lives on server {}",
                 worker.value, unit, server_.value, home.value);
  }
  return {};
}

// --- initial values ---

Status ServerCore::check_initial(Rank worker, std::uint32_t unit, Iteration label) const {
  PACELINE_RETURN_IF_ERROR(check(worker, unit));
  if (worker != Rank{0})
    return error(ErrorKind::kBadRequest, "worker {} sent an initial value of {}; only worker 0 does", worker.value,
                 unit_text(unit));
  if (label != plan_->options().first - 1) {
    return error(ErrorKind::kBadRequest,
                 "worker 0 sent the value of {} after iteration {} as initial; the job starts after iteration {}", unit_text(unit),
                 label, plan_->options().first - 1);
  }
  if (state(unit).initialised) return error(ErrorKind::kBadRequest, "worker 0 sent the initial value of {} twice", unit_text(unit));
  return {};
}

Result<std::span<float>> ServerCore::place_for_initial(Rank worker, std::uint32_t unit, Iteration label, std::uint64_t bytes) {
  PACELINE_RETURN_IF_ERROR(check_initial(worker, unit, label));
  if (bytes != elements(unit) * sizeof(float)) {
    return error(ErrorKind::kBadRequest, "worker 0 sent {} bytes as the initial value of {}; it has {}", bytes, unit_text(unit),
                 elements(unit) * sizeof(float));
  }
  if (state(unit).receiving_initial)
    return error(ErrorKind::kBadRequest, "worker 0 sent the initial value of {} twice", unit_text(unit));
  state(unit).receiving_initial = true;
  return pool_.of(state(unit).value, elements(unit));
}

Status ServerCore::on_initial(Rank worker, std::uint32_t unit, Iteration label, std::vector<ServerAction>& actions) {
  PACELINE_RETURN_IF_ERROR(check_initial(worker, unit, label));
  if (!state(unit).receiving_initial)
    return error(ErrorKind::kBadRequest, "worker 0 sent an empty initial value of {}", unit_text(unit));
  state(unit).receiving_initial = false;
  state(unit).initialised = true;
  for (std::int32_t other = 0; other < static_cast<std::int32_t>(live_.size()); ++other) {
    slot(unit, Rank{other}).due = label;
    if (Rank{other} == worker || live_[static_cast<std::size_t>(other)] == 0) {
      slot(unit, Rank{other}).answered = label;
    } else {
      send(unit, Rank{other}, label, actions);
    }
  }
  return {};
}

// --- gradients ---

Status ServerCore::check_push(Rank worker, std::uint32_t unit, Iteration iteration) const {
  PACELINE_RETURN_IF_ERROR(check(worker, unit));
  const Slot& at = slot(unit, worker);
  if (iteration != at.pushed + 1) {
    return error(ErrorKind::kBadRequest, "worker {} pushed {} for iteration {}; expected is iteration {}", worker.value,
                 unit_text(unit), iteration, at.pushed + 1);
  }
  if (at.answered < iteration - 1) {
    return error(ErrorKind::kBadRequest, "worker {} pushed {} for iteration {} before it got the value of iteration {}",
                 worker.value, unit_text(unit), iteration, iteration - 1);
  }
  if (sync_->delivery() == sync::Delivery::kToAll && iteration != complete_ + 1) {
    return error(ErrorKind::kBadRequest, "worker {} pushed {} for iteration {} while the job is in iteration {}", worker.value,
                 unit_text(unit), iteration, complete_ + 1);
  }
  return {};
}

std::uint32_t ServerCore::take_buffer(std::uint32_t unit) {
  counters_.gradient_bytes += static_cast<std::int64_t>(elements(unit) * sizeof(float));
  counters_.gradient_bytes_high = std::max(counters_.gradient_bytes_high, counters_.gradient_bytes);
  return pool_.take(elements(unit));
}

void ServerCore::give_back(std::uint32_t& buffer, std::uint32_t unit) {
  if (buffer == kNoBuffer) return;
  counters_.gradient_bytes -= static_cast<std::int64_t>(elements(unit) * sizeof(float));
  pool_.release(std::exchange(buffer, kNoBuffer));
}

Result<std::span<float>> ServerCore::place_for_push(Rank worker, std::uint32_t unit, Iteration iteration, std::uint64_t bytes) {
  PACELINE_RETURN_IF_ERROR(check_push(worker, unit, iteration));
  if (bytes != elements(unit) * sizeof(float)) {
    return error(ErrorKind::kBadRequest, "worker {} pushed {} bytes for {} in iteration {}; it has {}", worker.value, bytes,
                 unit_text(unit), iteration, elements(unit) * sizeof(float));
  }
  Slot& at = slot(unit, worker);
  if (at.receiving != kNone) {
    return error(ErrorKind::kBadRequest, "worker {} pushed {} twice for iteration {}", worker.value, unit_text(unit), iteration);
  }
  at.receiving = iteration;
  at.gradient = take_buffer(unit);
  return pool_.of(at.gradient, elements(unit));
}

Status ServerCore::on_push(Rank worker, std::uint32_t unit, Iteration iteration, TimePoint now,
                           std::vector<ServerAction>& actions) {
  PACELINE_RETURN_IF_ERROR(check_push(worker, unit, iteration));
  Slot& at = slot(unit, worker);
  if (at.receiving != iteration) {
    return error(ErrorKind::kBadRequest, "worker {} pushed {} for iteration {} without a gradient", worker.value, unit_text(unit),
                 iteration);
  }
  at.receiving = kNone;
  at.unused = false;
  return finish_push(worker, unit, iteration, now, actions);
}

Status ServerCore::on_unused(Rank worker, std::uint32_t unit, Iteration iteration, TimePoint now,
                             std::vector<ServerAction>& actions) {
  PACELINE_RETURN_IF_ERROR(check_push(worker, unit, iteration));
  Slot& at = slot(unit, worker);
  if (at.receiving != kNone) {
    return error(ErrorKind::kBadRequest, "worker {} says that it did not use {} in iteration {} and pushed it", worker.value,
                 unit_text(unit), iteration);
  }
  at.unused = true;
  return finish_push(worker, unit, iteration, now, actions);
}

Status ServerCore::finish_push(Rank worker, std::uint32_t unit, Iteration iteration, TimePoint now,
                               std::vector<ServerAction>& actions) {
  updates_.clear();
  if (const Status refused =
          sync_->on_push(worker, static_cast<std::int32_t>(plan_->units().place_in_server[unit]), iteration, updates_);
      !refused.ok()) {
    give_back(slot(unit, worker).gradient, unit);
    return refused;
  }
  slot(unit, worker).pushed = iteration;
  for (const sync::Update& update : updates_) apply(update, actions);
  if (sync_->delivery() == sync::Delivery::kAtStart) {
    std::size_t& pushed = pushed_units_[static_cast<std::size_t>(worker.value)];
    if (++pushed == units_.size()) {
      pushed = 0;
      starts_.clear();
      PACELINE_RETURN_IF_ERROR(sync_->on_start_asked(worker, iteration + 1, now, starts_));
      start(starts_, actions);
    }
  }
  return {};
}

// --- leaving ---

Status ServerCore::on_left(Rank worker, TimePoint now, std::vector<ServerAction>& actions) {
  if (worker.value < 0 || static_cast<std::size_t>(worker.value) >= live_.size() ||
      live_[static_cast<std::size_t>(worker.value)] == 0) {
    return error(ErrorKind::kBadRequest, "worker {} left, but it does not take part", worker.value);
  }
  live_[static_cast<std::size_t>(worker.value)] = 0;
  for (const std::uint32_t unit : my_units()) {
    Slot& at = slot(unit, worker);
    if (at.receiving != kNone) give_back(at.gradient, unit);
    at.receiving = kNone;
    at.asked = kNone;
  }
  auto& in_flight = in_flight_[static_cast<std::size_t>(worker.value)];
  for (std::uint32_t buffer = 0; buffer < in_flight.size(); ++buffer) {
    for (; in_flight[buffer] > 0; --in_flight[buffer]) pool_.release(buffer);
  }
  PACELINE_ASSIGN_OR_RETURN(const auto decisions, sync_->on_left(worker, now));
  for (const sync::Update& update : decisions.updates) apply(update, actions);
  start(decisions.starts, actions);
  return {};
}

// --- checkpoints ---

ServerCore::UnitSnapshot ServerCore::export_unit(std::uint32_t unit) const {
  PACELINE_CHECK(unit < plan_->units().units.size() && plan_->units().units[unit].server == server_, "unit {} is not on server {}",
                 unit, server_.value);
  const UnitState& of = state(unit);
  return {unit, pool_.of(of.value, elements(unit)), of.state, of.version, of.steps};
}

Status ServerCore::import_unit(const UnitSnapshot& snapshot) {
  PACELINE_RETURN_IF_ERROR(check(Rank{0}, snapshot.unit));
  UnitState& of = state(snapshot.unit);
  if (snapshot.value.size() != elements(snapshot.unit) || snapshot.state.size() != of.state.size()) {
    return error(ErrorKind::kBadRequest,
                 "a saved state of {} has {} values and {} numbers of optimizer state; the job has {} and {}",
                 unit_text(snapshot.unit), snapshot.value.size(), snapshot.state.size(), elements(snapshot.unit), of.state.size());
  }
  if (snapshot.version != plan_->options().first - 1 || snapshot.steps < 0) {
    return error(ErrorKind::kBadRequest, "a saved state of {} is of iteration {} and {} steps; the job goes on after iteration {}",
                 unit_text(snapshot.unit), snapshot.version, snapshot.steps, plan_->options().first - 1);
  }
  const bool touched = of.initialised || of.receiving_initial;
  if (touched) return error(ErrorKind::kBadRequest, "a saved state of {} came after the job had begun", unit_text(snapshot.unit));
  std::ranges::copy(snapshot.value, pool_.of(of.value, elements(snapshot.unit)).begin());
  std::ranges::copy(snapshot.state, of.state.begin());
  of.steps = snapshot.steps;
  return {};
}

}  // namespace paceline::paramserver

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
  done_.assign(workers, 0);
  pushed_units_.assign(workers, 0);
  handed_out_.assign(workers, 0);
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
    for (const scheduling::Part& part : plan_->units().parts_of(plan_->units().units[unit])) {
      const auto planes = static_cast<std::size_t>(tensor::state_floats_per_parameter(plan_->optimizer_of(part.tensor)));
      made.parts.emplace_back().state.assign(static_cast<std::size_t>(part.elements) * planes, 0.0F);
    }
    largest = std::max(largest, elements(unit));
  }
  sum_.resize(largest);
  parts_.resize(static_cast<std::size_t>(options.servers));
  for (std::size_t other = 0; other < parts_.size(); ++other) {
    if (other != static_cast<std::size_t>(server.value) && !plan_->units().of_server[other].empty()) part_takers_.push_back(other);
  }
}

std::string ServerCore::unit_text(std::uint32_t unit) const {
  const auto& units = plan_->units();
  return fmt::format("{} (tensor \"{}\", unit {})", plan_->layer_text(units.units[unit].layer),
                     plan_->table().tensors[units.first_tensor(unit)].name, unit);
}

std::string ServerCore::part_text(std::uint32_t part) const {
  const scheduling::Part& planned = planned_part(part);
  const wire::TensorInfo& tensor = plan_->table().tensors[planned.tensor];
  return fmt::format("{} (tensor \"{}\", unit {})", plan_->layer_text(tensor.layer), tensor.name, planned.unit);
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

Status ServerCore::on_initial(Rank worker, std::uint32_t unit, Iteration label, TimePoint now, std::vector<ServerAction>& actions) {
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
  if (++initialised_ == units_.size()) begin_pace(now, actions);
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

std::uint32_t ServerCore::take_buffer(std::size_t floats) {
  counters_.gradient_bytes += static_cast<std::int64_t>(floats * sizeof(float));
  counters_.gradient_bytes_high = std::max(counters_.gradient_bytes_high, counters_.gradient_bytes);
  return pool_.take(floats);
}

void ServerCore::give_back(std::uint32_t& buffer, std::size_t floats) {
  if (buffer == kNoBuffer) return;
  counters_.gradient_bytes -= static_cast<std::int64_t>(floats * sizeof(float));
  pool_.release(std::exchange(buffer, kNoBuffer));
}

void ServerCore::give_back_gradient(std::uint32_t unit, Rank worker) {
  give_back(slot(unit, worker).gradient, gradient_floats(unit));
}

// With dropping a gradient is sparse where that is smaller than dense.
bool ServerCore::fits(std::uint32_t unit, std::uint64_t bytes) const {
  const std::size_t dense = plan_->payload_bytes(unit);
  if (bytes == dense) return true;
  return plan_->options().wire.drops() && bytes > 0 && bytes < dense && bytes % tensor::kSparseBytes == 0;
}

Result<std::span<float>> ServerCore::place_for_push(Rank worker, std::uint32_t unit, Iteration iteration, std::uint64_t bytes) {
  PACELINE_RETURN_IF_ERROR(check_push(worker, unit, iteration));
  if (!fits(unit, bytes)) {
    return error(ErrorKind::kBadRequest, "worker {} pushed {} bytes for {} in iteration {}; it has {}", worker.value, bytes,
                 unit_text(unit), iteration, plan_->payload_bytes(unit));
  }
  Slot& at = slot(unit, worker);
  if (at.receiving != kNone) {
    return error(ErrorKind::kBadRequest, "worker {} pushed {} twice for iteration {}", worker.value, unit_text(unit), iteration);
  }
  at.receiving = iteration;
  at.gradient_bytes = static_cast<std::size_t>(bytes);
  at.gradient = take_buffer(gradient_floats(unit));  // for the largest, so that one block serves every iteration
  return pool_.of(at.gradient, (at.gradient_bytes + sizeof(float) - 1) / sizeof(float));
}

Status ServerCore::on_push(Rank worker, std::uint32_t unit, Iteration iteration, std::uint32_t unused_parts, TimePoint now,
                           std::vector<ServerAction>& actions) {
  PACELINE_RETURN_IF_ERROR(check_push(worker, unit, iteration));
  Slot& at = slot(unit, worker);
  const std::uint32_t all = scheduling::all_parts(plan_->units().units[unit]);
  if ((unused_parts & ~all) != 0) {
    return error(ErrorKind::kBadRequest, "worker {} says that it did not use parts {:#x} of {} in iteration {}; it has {} parts",
                 worker.value, unused_parts, unit_text(unit), iteration, plan_->units().units[unit].parts);
  }
  const bool with_gradient = at.receiving == iteration;
  if (with_gradient && unused_parts == all) {
    return error(ErrorKind::kBadRequest, "worker {} says that it did not use {} in iteration {} and pushed it", worker.value,
                 unit_text(unit), iteration);
  }
  if (!with_gradient && unused_parts != all) {
    return error(ErrorKind::kBadRequest, "worker {} pushed {} for iteration {} without a gradient", worker.value, unit_text(unit),
                 iteration);
  }
  if (with_gradient && at.gradient_bytes < plan_->payload_bytes(unit) &&
      !tensor::parse_sparse(payload_of(at.gradient, at.gradient_bytes), elements(unit))) {
    return error(ErrorKind::kBadRequest,
                 "worker {} pushed {} for iteration {} with elements that it does not have, or not in order", worker.value,
                 unit_text(unit), iteration);
  }
  at.receiving = kNone;
  at.unused_parts = unused_parts;
  return finish_push(worker, unit, iteration, now, actions);
}

Status ServerCore::finish_push(Rank worker, std::uint32_t unit, Iteration iteration, TimePoint now,
                               std::vector<ServerAction>& actions) {
  updates_.clear();
  if (const Status refused =
          sync_->on_push(worker, static_cast<std::int32_t>(plan_->units().place_in_server[unit]), iteration, updates_);
      !refused.ok()) {
    give_back_gradient(unit, worker);
    return refused;
  }
  slot(unit, worker).pushed = iteration;
  for (const sync::Update& update : updates_) apply(update, actions);
  return count_push(worker, iteration, now, actions);
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
    if (at.receiving != kNone) give_back_gradient(unit, worker);
    at.receiving = kNone;
    at.asked = kNone;
    if (at.batch != kNoBatch) batches_[std::exchange(at.batch, kNoBatch)].missing = 0;
    forget_kept(at);
  }
  auto& in_flight = in_flight_[static_cast<std::size_t>(worker.value)];
  for (std::uint32_t buffer = 0; buffer < in_flight.size(); ++buffer) {
    for (; in_flight[buffer] > 0; --in_flight[buffer]) pool_.release(buffer);
  }
  if (done_[static_cast<std::size_t>(worker.value)] == 0) PACELINE_RETURN_IF_ERROR(leave_pace(worker, now, actions));
  send_final_values(actions);
  return {};
}

// --- checkpoints ---

ServerCore::PartSnapshot ServerCore::export_part(std::uint32_t part) const {
  PACELINE_CHECK(part < plan_->units().parts.size() && plan_->units().units[planned_part(part).unit].server == server_,
                 "part {} is not on server {}", part, server_.value);
  const std::uint32_t unit = planned_part(part).unit;
  const PartState& of = part_state(part);
  return {part, part_of(pool_.of(state(unit).value, elements(unit)), part), of.state, state(unit).version, of.steps};
}

Status ServerCore::import_part(const PartSnapshot& snapshot) {
  if (snapshot.part >= plan_->units().parts.size())
    return error(ErrorKind::kBadRequest, "a saved state is of part {}; the job has {}", snapshot.part, plan_->units().parts.size());
  const std::uint32_t unit = planned_part(snapshot.part).unit;
  PACELINE_RETURN_IF_ERROR(check(Rank{0}, unit));
  PartState& of = part_state(snapshot.part);
  const auto value = part_of(pool_.of(state(unit).value, elements(unit)), snapshot.part);
  if (snapshot.value.size() != value.size() || snapshot.state.size() != of.state.size()) {
    return error(ErrorKind::kBadRequest,
                 "a saved state of {} has {} values and {} numbers of optimizer state; the job has {} and {}",
                 part_text(snapshot.part), snapshot.value.size(), snapshot.state.size(), value.size(), of.state.size());
  }
  if (snapshot.version != plan_->options().first - 1 || snapshot.steps < 0) {
    return error(ErrorKind::kBadRequest, "a saved state of {} is of iteration {} and {} steps; the job goes on after iteration {}",
                 part_text(snapshot.part), snapshot.version, snapshot.steps, plan_->options().first - 1);
  }
  const bool touched = state(unit).initialised || state(unit).receiving_initial;
  if (touched) return error(ErrorKind::kBadRequest, "a saved state of {} came after the job had begun", part_text(snapshot.part));
  std::ranges::copy(snapshot.value, value.begin());
  std::ranges::copy(snapshot.state, of.state.begin());
  of.steps = snapshot.steps;
  return {};
}

}  // namespace paceline::paramserver

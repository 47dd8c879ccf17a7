#include "paramserver/core/server_core.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tensor/optimizer.h"
#include "tensor/reduce.h"

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
    made.state.assign(elements(unit) * static_cast<std::size_t>(tensor::state_floats_per_parameter(plan_->optimizer_of(unit))), 0.0F);
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
      const auto starts = sync_->on_start_asked(Rank{worker}, options.first, TimePoint{});
      PACELINE_CHECK(starts.ok(), "the first start was refused: {}", starts.status().message());
    }
  }
}

std::string ServerCore::unit_text(std::uint32_t unit) const {
  const auto& units = plan_->units();
  return fmt::format("{} (tensor \"{}\", unit {})", plan_->layer_text(units.units[unit].layer), plan_->table().tensors[units.tensor_of[unit]].name, unit);
}

Status ServerCore::check(Rank worker, std::uint32_t unit) const {
  if (worker.value < 0 || static_cast<std::size_t>(worker.value) >= live_.size()) {
    return error(ErrorKind::kBadRequest, "a message came from worker {}; the job has {} workers", worker.value, live_.size());
  }
  if (live_[static_cast<std::size_t>(worker.value)] == 0) return error(ErrorKind::kBadRequest, "a message came from worker {}, which has left the job", worker.value);
  if (unit >= plan_->units().units.size()) {
    return error(ErrorKind::kBadRequest, "worker {} sent a message about unit {}; the job has {} units", worker.value, unit, plan_->units().units.size());
  }
  if (const Rank home = plan_->units().units[unit].server; home != server_) {
    return error(ErrorKind::kBadRequest, "worker {} sent a message about unit {} to server {}; the unit lives on server {}", worker.value, unit, server_.value, home.value);
  }
  return {};
}

// --- initial values ---

Status ServerCore::check_initial(Rank worker, std::uint32_t unit, Iteration label) const {
  PACELINE_RETURN_IF_ERROR(check(worker, unit));
  if (worker != Rank{0}) return error(ErrorKind::kBadRequest, "worker {} sent an initial value of {}; only worker 0 does", worker.value, unit_text(unit));
  if (label != plan_->options().first - 1) {
    return error(ErrorKind::kBadRequest, "worker 0 sent the value of {} after iteration {} as initial; the job starts after iteration {}", unit_text(unit), label,
                 plan_->options().first - 1);
  }
  if (state(unit).initialised) return error(ErrorKind::kBadRequest, "worker 0 sent the initial value of {} twice", unit_text(unit));
  return {};
}

Result<std::span<float>> ServerCore::place_for_initial(Rank worker, std::uint32_t unit, Iteration label, std::uint64_t bytes) {
  PACELINE_RETURN_IF_ERROR(check_initial(worker, unit, label));
  if (bytes != elements(unit) * sizeof(float)) {
    return error(ErrorKind::kBadRequest, "worker 0 sent {} bytes as the initial value of {}; it has {}", bytes, unit_text(unit), elements(unit) * sizeof(float));
  }
  if (state(unit).receiving_initial) return error(ErrorKind::kBadRequest, "worker 0 sent the initial value of {} twice", unit_text(unit));
  state(unit).receiving_initial = true;
  return pool_.of(state(unit).value, elements(unit));
}

Status ServerCore::on_initial(Rank worker, std::uint32_t unit, Iteration label, std::vector<ServerAction>& actions) {
  PACELINE_RETURN_IF_ERROR(check_initial(worker, unit, label));
  if (!state(unit).receiving_initial) return error(ErrorKind::kBadRequest, "worker 0 sent an empty initial value of {}", unit_text(unit));
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
    return error(ErrorKind::kBadRequest, "worker {} pushed {} for iteration {}; expected is iteration {}", worker.value, unit_text(unit), iteration, at.pushed + 1);
  }
  if (at.answered < iteration - 1) {
    return error(ErrorKind::kBadRequest, "worker {} pushed {} for iteration {} before it got the value of iteration {}", worker.value, unit_text(unit), iteration,
                 iteration - 1);
  }
  if (sync_->delivery() == sync::Delivery::kToAll && iteration != complete_ + 1) {
    return error(ErrorKind::kBadRequest, "worker {} pushed {} for iteration {} while the job is in iteration {}", worker.value, unit_text(unit), iteration, complete_ + 1);
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
    return error(ErrorKind::kBadRequest, "worker {} pushed {} bytes for {} in iteration {}; it has {}", worker.value, bytes, unit_text(unit), iteration,
                 elements(unit) * sizeof(float));
  }
  Slot& at = slot(unit, worker);
  if (at.receiving != kNone) {
    return error(ErrorKind::kBadRequest, "worker {} pushed {} twice for iteration {}", worker.value, unit_text(unit), iteration);
  }
  at.receiving = iteration;
  at.gradient = take_buffer(unit);
  return pool_.of(at.gradient, elements(unit));
}

Status ServerCore::on_push(Rank worker, std::uint32_t unit, Iteration iteration, TimePoint now, std::vector<ServerAction>& actions) {
  PACELINE_RETURN_IF_ERROR(check_push(worker, unit, iteration));
  Slot& at = slot(unit, worker);
  if (at.receiving != iteration) {
    return error(ErrorKind::kBadRequest, "worker {} pushed {} for iteration {} without a gradient", worker.value, unit_text(unit), iteration);
  }
  at.receiving = kNone;
  at.unused = false;
  return finish_push(worker, unit, iteration, now, actions);
}

Status ServerCore::on_unused(Rank worker, std::uint32_t unit, Iteration iteration, TimePoint now, std::vector<ServerAction>& actions) {
  PACELINE_RETURN_IF_ERROR(check_push(worker, unit, iteration));
  Slot& at = slot(unit, worker);
  if (at.receiving != kNone) {
    return error(ErrorKind::kBadRequest, "worker {} says that it did not use {} in iteration {} and pushed it", worker.value, unit_text(unit), iteration);
  }
  at.unused = true;
  return finish_push(worker, unit, iteration, now, actions);
}

Status ServerCore::finish_push(Rank worker, std::uint32_t unit, Iteration iteration, TimePoint now, std::vector<ServerAction>& actions) {
  const auto updates = sync_->on_push(worker, static_cast<std::int32_t>(plan_->units().place_in_server[unit]), iteration);
  if (!updates.ok()) {
    give_back(slot(unit, worker).gradient, unit);
    return updates.status();
  }
  slot(unit, worker).pushed = iteration;
  for (const sync::Update& update : *updates) apply(update, actions);
  if (sync_->delivery() == sync::Delivery::kAtStart) {
    std::size_t& pushed = pushed_units_[static_cast<std::size_t>(worker.value)];
    if (++pushed == units_.size()) {
      pushed = 0;
      PACELINE_ASSIGN_OR_RETURN(const auto starts, sync_->on_start_asked(worker, iteration + 1, now));
      start(starts, actions);
    }
  }
  return {};
}

// --- updates ---

// Fills sources_ with the gradients of an update in rank order; false when no worker used the unit.
bool ServerCore::gather_sources(std::uint32_t unit, const sync::Update& update) {
  bool used = false;
  sources_.clear();
  for (const Rank worker : update.workers) {
    const Slot& at = slot(unit, worker);
    if (at.unused) {
      if (zeros_.empty()) zeros_.resize(sum_.size());
      sources_.push_back(std::span<const float>(zeros_).first(elements(unit)));
    } else {
      sources_.push_back(pool_.of(at.gradient, elements(unit)));
      used = true;
    }
  }
  return used;
}

// Why the mean gradient of an update must not be applied; nothing when it is finite.
std::optional<Status> ServerCore::non_finite(std::uint32_t unit, const sync::Update& update, std::span<const float> sum) const {
  if (tensor::all_finite(sum)) return std::nullopt;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    if (const auto element = tensor::first_non_finite(sources_[i])) {
      return error(ErrorKind::kBadRequest, "worker {} has a gradient that is not finite in {} of iteration {}: element {} is {}; lower the learning rate, or skip such iterations",
                   update.workers[i].value, unit_text(unit), update.iteration, *element, sources_[i][*element]);
    }
  }
  return error(ErrorKind::kBadRequest, "the sum of the workers' gradients overflows in {} of iteration {}; lower the learning rate, or skip such iterations", unit_text(unit),
               update.iteration);
}

std::span<float> ServerCore::writable_value(std::uint32_t unit) {
  std::uint32_t& value = state(unit).value;
  if (pool_.references(value) > 1) {
    const std::uint32_t copy = pool_.take(elements(unit));
    std::ranges::copy(pool_.of(value, elements(unit)), pool_.of(copy, elements(unit)).begin());
    pool_.release(std::exchange(value, copy));
    ++counters_.value_copies;
  }
  return pool_.of(value, elements(unit));
}

void ServerCore::step(std::uint32_t unit, Iteration iteration, std::span<const float> gradient) {
  UnitState& of = state(unit);
  ++of.steps;
  ++counters_.updates;
  tensor::step(plan_->optimizer_of(unit), {.learning_rate = plan_->learning_rate_of(unit, iteration), .step = of.steps}, writable_value(unit), gradient, of.state);
}

void ServerCore::apply(const sync::Update& update, std::vector<ServerAction>& actions) {
  const std::uint32_t unit = my_units()[static_cast<std::size_t>(update.unit)];
  const bool used = gather_sources(unit, update);
  if (plan_->holds_updates()) {
    keep_sum(unit, used, update, actions);
    return;
  }
  if (used) {
    std::span<const float> gradient = sources_.front();
    if (sources_.size() > 1 || update.scale != 1) {
      const auto sum = std::span(sum_).first(elements(unit));
      tensor::sum_in_rank_order(sum, sources_, update.scale);
      gradient = sum;
    }
    if (plan_->options().update.non_finite == NonFinitePolicy::kStop) {
      if (auto reason = non_finite(unit, update, gradient)) {
        actions.push_back({.kind = ServerAction::Kind::kStop, .unit = unit, .iteration = update.iteration, .failure = *std::move(reason)});
        return;
      }
    }
    step(unit, update.iteration, gradient);
  } else {
    ++counters_.skipped_units;
  }
  for (const Rank worker : update.workers) give_back(slot(unit, worker).gradient, unit);
  count_version(unit, update.iteration, actions);
  switch (sync_->delivery()) {
    case sync::Delivery::kToAll: offer_to_all(unit, update.iteration, actions); break;
    case sync::Delivery::kToPusher:
      for (const Rank worker : update.workers) offer(unit, worker, update.iteration, actions);
      break;
    case sync::Delivery::kAtStart: break;
  }
}

void ServerCore::count_version(std::uint32_t unit, Iteration iteration, std::vector<ServerAction>& actions) {
  ++state(unit).version;
  if (sync_->delivery() != sync::Delivery::kToAll || ++counted_ < units_.size()) return;
  counted_ = 0;
  complete_ = iteration;
  actions.push_back({.kind = ServerAction::Kind::kIterationComplete, .iteration = iteration});
}

// --- updates of a whole iteration: clipping and skipping ---

void ServerCore::keep_sum(std::uint32_t unit, bool used, const sync::Update& update, std::vector<ServerAction>& actions) {
  const UpdateOptions& options = plan_->options().update;
  UnitState& of = state(unit);
  if (used) {
    of.sum = take_buffer(unit);
    const auto sum = pool_.of(of.sum, elements(unit));
    tensor::sum_in_rank_order(sum, sources_, update.scale);
    if (options.non_finite != NonFinitePolicy::kApply) {
      if (auto reason = non_finite(unit, update, sum)) {
        if (options.non_finite == NonFinitePolicy::kStop) {
          actions.push_back({.kind = ServerAction::Kind::kStop, .unit = unit, .iteration = update.iteration, .failure = *std::move(reason)});
          return;
        }
        if (kept_failure_.ok()) kept_failure_ = *std::move(reason);
        own_part_.mark_nan();
      }
    }
    if (options.clip_norm > 0) own_part_.add(sum);
  }
  for (const Rank worker : update.workers) give_back(slot(unit, worker).gradient, unit);
  if (++kept_ < units_.size()) return;

  own_part_done_ = true;
  auto& payload = sent_parts_[static_cast<std::size_t>(update.iteration % 2)];
  own_part_.write(payload);
  for (const std::size_t taker : part_takers_) {
    actions.push_back({.kind = ServerAction::Kind::kSendSquareSum, .to = Rank{static_cast<std::int32_t>(taker)}, .iteration = update.iteration, .payload = payload});
  }
  try_release(actions);
}

Status ServerCore::on_square_sum(Rank server, Iteration iteration, std::span<const std::byte> payload, std::vector<ServerAction>& actions) {
  if (!plan_->holds_updates()) return error(ErrorKind::kBadRequest, "server {} sent a square sum; this job does not clip", server.value);
  if (std::ranges::find(part_takers_, static_cast<std::size_t>(server.value)) == part_takers_.end() || units_.empty()) {
    return error(ErrorKind::kBadRequest, "a square sum came from server {} to server {}; they do not exchange any", server.value, server_.value);
  }
  if (payload.size() != tensor::kSquareSumBytes) {
    return error(ErrorKind::kBadRequest, "server {} sent a square sum of {} bytes; it has {}", server.value, payload.size(), tensor::kSquareSumBytes);
  }
  // A server is at most one iteration ahead: the workers push nothing of the next but one before they have this server's values.
  if (iteration != complete_ + 1 && iteration != complete_ + 2) {
    return error(ErrorKind::kBadRequest, "server {} sent its square sum of iteration {} during iteration {}", server.value, iteration, complete_ + 1);
  }
  SquarePart& part = parts_[static_cast<std::size_t>(server.value)][static_cast<std::size_t>(iteration % 2)];
  if (part.iteration == iteration) return error(ErrorKind::kBadRequest, "server {} sent its square sum of iteration {} twice", server.value, iteration);
  part.iteration = iteration;
  part.sum = tensor::ExactSquareSum::read(payload.first<tensor::kSquareSumBytes>());
  try_release(actions);
  return {};
}

void ServerCore::try_release(std::vector<ServerAction>& actions) {
  if (!own_part_done_) return;
  const Iteration iteration = complete_ + 1;
  tensor::ExactSquareSum squares = own_part_;
  for (const std::size_t other : part_takers_) {
    const SquarePart& part = parts_[other][static_cast<std::size_t>(iteration % 2)];
    if (part.iteration != iteration) return;
    squares.add(part.sum);
  }
  release(squares, actions);
}

void ServerCore::release(const tensor::ExactSquareSum& squares, std::vector<ServerAction>& actions) {
  const UpdateOptions& options = plan_->options().update;
  const Iteration iteration = complete_ + 1;
  const bool skip = options.non_finite == NonFinitePolicy::kSkip && !squares.finite();
  const float coefficient = options.clip_norm > 0 && !skip ? tensor::clip_coefficient(squares, options.clip_norm) : 1.0F;
  if (skip) {
    Status reason = kept_failure_.ok() ? error(ErrorKind::kBadRequest, "another server found a gradient of iteration {} that is not finite", iteration) : kept_failure_;
    actions.push_back({.kind = ServerAction::Kind::kSkipped, .iteration = iteration, .failure = std::move(reason)});
  }
  kept_ = 0;
  own_part_done_ = false;
  own_part_ = {};
  kept_failure_ = {};
  for (const std::uint32_t unit : my_units()) {
    std::uint32_t& kept = state(unit).sum;
    if (kept == kNoBuffer || skip) {
      ++counters_.skipped_units;
    } else {
      const auto gradient = pool_.of(kept, elements(unit));
      if (coefficient != 1.0F) tensor::scale(gradient, static_cast<double>(coefficient));
      step(unit, iteration, gradient);
    }
    give_back(kept, unit);
    count_version(unit, iteration, actions);
  }
  for (const std::uint32_t unit : my_units()) offer_to_all(unit, iteration, actions);
}

// --- values ---

void ServerCore::offer_to_all(std::uint32_t unit, Iteration label, std::vector<ServerAction>& actions) {
  for (std::int32_t worker = 0; worker < static_cast<std::int32_t>(live_.size()); ++worker) offer(unit, Rank{worker}, label, actions);
}

void ServerCore::offer(std::uint32_t unit, Rank worker, Iteration label, std::vector<ServerAction>& actions) {
  if (live_[static_cast<std::size_t>(worker.value)] == 0) return;
  Slot& at = slot(unit, worker);
  at.due = label;
  const bool asked = at.asked != kNone && at.asked <= label;
  if (asked || plan_->options().schedule.back == scheduling::Return::kBroadcast) send(unit, worker, label, actions);
}

void ServerCore::start(const std::vector<sync::Start>& starts, std::vector<ServerAction>& actions) {
  for (const sync::Start& allowed : starts) {
    for (const std::uint32_t unit : my_units()) offer(unit, allowed.worker, allowed.iteration - 1, actions);
  }
}

Status ServerCore::on_pull(Rank worker, std::uint32_t unit, Iteration label, std::vector<ServerAction>& actions) {
  PACELINE_RETURN_IF_ERROR(check(worker, unit));
  Slot& at = slot(unit, worker);
  // A pull may overtake the push of its iteration, but no more than that.
  if (label <= at.answered || label > at.pushed + 1) {
    return error(ErrorKind::kBadRequest, "worker {} asked for the value of {} of iteration {}; it has that of {} and has pushed up to {}", worker.value, unit_text(unit),
                 label, at.answered, at.pushed);
  }
  if (at.asked != kNone) return error(ErrorKind::kBadRequest, "worker {} asked for the value of {} of iteration {} twice", worker.value, unit_text(unit), label);
  at.asked = label;
  if (at.due >= label) send(unit, worker, at.due, actions);
  return {};
}

void ServerCore::send(std::uint32_t unit, Rank worker, Iteration label, std::vector<ServerAction>& actions) {
  Slot& at = slot(unit, worker);
  at.answered = label;
  at.asked = kNone;
  const std::uint32_t value = state(unit).value;
  pool_.add_reference(value);
  auto& in_flight = in_flight_[static_cast<std::size_t>(worker.value)];
  if (value >= in_flight.size()) in_flight.resize(value + 1, 0);
  ++in_flight[value];
  actions.push_back({.kind = ServerAction::Kind::kSendValue,
                     .to = worker,
                     .unit = unit,
                     .iteration = label,
                     .payload = std::as_bytes(std::span<const float>(pool_.of(value, elements(unit)))),
                     .ticket = value});
}

void ServerCore::on_delivered(Rank worker, std::uint64_t ticket) {
  PACELINE_CHECK(worker.value >= 0 && static_cast<std::size_t>(worker.value) < in_flight_.size(), "delivered to worker {}", worker.value);
  auto& in_flight = in_flight_[static_cast<std::size_t>(worker.value)];
  PACELINE_CHECK(ticket < in_flight.size() && in_flight[ticket] > 0, "ticket {} was not sent to worker {}", ticket, worker.value);
  --in_flight[ticket];
  pool_.release(static_cast<std::uint32_t>(ticket));
}

Status ServerCore::on_left(Rank worker, TimePoint now, std::vector<ServerAction>& actions) {
  if (worker.value < 0 || static_cast<std::size_t>(worker.value) >= live_.size() || live_[static_cast<std::size_t>(worker.value)] == 0) {
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
  PACELINE_CHECK(unit < plan_->units().units.size() && plan_->units().units[unit].server == server_, "unit {} is not on server {}", unit, server_.value);
  const UnitState& of = state(unit);
  return {unit, pool_.of(of.value, elements(unit)), of.state, of.version, of.steps};
}

Status ServerCore::import_unit(const UnitSnapshot& snapshot) {
  PACELINE_RETURN_IF_ERROR(check(Rank{0}, snapshot.unit));
  UnitState& of = state(snapshot.unit);
  if (snapshot.value.size() != elements(snapshot.unit) || snapshot.state.size() != of.state.size()) {
    return error(ErrorKind::kBadRequest, "a saved state of {} has {} values and {} numbers of optimizer state; the job has {} and {}", unit_text(snapshot.unit),
                 snapshot.value.size(), snapshot.state.size(), elements(snapshot.unit), of.state.size());
  }
  if (snapshot.version != plan_->options().first - 1 || snapshot.steps < 0) {
    return error(ErrorKind::kBadRequest, "a saved state of {} is of iteration {} and {} steps; the job goes on after iteration {}", unit_text(snapshot.unit), snapshot.version,
                 snapshot.steps, plan_->options().first - 1);
  }
  const bool touched = of.initialised || of.receiving_initial;
  if (touched) return error(ErrorKind::kBadRequest, "a saved state of {} came after the job had begun", unit_text(snapshot.unit));
  std::ranges::copy(snapshot.value, pool_.of(of.value, elements(snapshot.unit)).begin());
  std::ranges::copy(snapshot.state, of.state.begin());
  of.steps = snapshot.steps;
  return {};
}

}  // namespace paceline::paramserver

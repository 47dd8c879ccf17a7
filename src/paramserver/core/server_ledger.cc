#include "paramserver/core/server_ledger.h"

#include <utility>

#include "tensor/sparse.h"

namespace paceline::paramserver {

Result<ServerLedger> ServerLedger::make(std::shared_ptr<const job::Plan> plan, Rank server) {
  const job::PlanOptions& options = plan->options();
  if (server.value < 0 || server.value >= options.servers)
    return error(ErrorKind::kBadRequest, "server {} does not exist; the job has {}", server.value, options.servers);
  sync::PaceCluster cluster{.workers = {}, .first = options.first};
  for (std::int32_t worker = 0; worker < options.workers; ++worker) cluster.workers.push_back(Rank{worker});
  PACELINE_ASSIGN_OR_RETURN(auto rule, sync::make_pace_rule(options.sync, cluster));
  return ServerLedger(std::move(plan), server, std::move(rule));
}

ServerLedger::ServerLedger(std::shared_ptr<const job::Plan> plan, Rank server, std::unique_ptr<sync::PaceRule> rule)
    : plan_(std::move(plan)),
      server_(server),
      rule_(std::move(rule)),
      taking_part_(plan_->options().workers),
      latest_first_(plan_->options().first),
      newest_summed_(plan_->options().first - 1),
      complete_(plan_->options().first - 1) {
  const Iteration first = plan_->options().first;
  workers_.resize(static_cast<std::size_t>(plan_->options().workers));
  for (Worker& worker : workers_) worker.first = worker.current = worker.started = first;
  units_.resize(plan_->units().of_server[static_cast<std::size_t>(server_.value)].size());
  for (Unit& unit : units_) unit.version = complete_;
  flags_.assign(units_.size() * workers_.size(), 0);
  contributors_.reserve(workers_.size());
  starts_.reserve(workers_.size());
  square_sums_.assign(static_cast<std::size_t>(plan_->options().servers), {kNone, kNone});
  for (const Rank other : plan_->servers_with_units()) {
    if (other != server) part_takers_.push_back(static_cast<std::size_t>(other.value));
  }
}

std::string ServerLedger::unit_text(std::uint32_t unit) const {
  const auto& units = plan_->units();
  return fmt::format("{} (tensor \"{}\", unit {})", plan_->layer_text(units.units[unit].layer),
                     plan_->table().tensors[units.first_tensor(unit)].name, unit);
}

std::span<const std::uint32_t> ServerLedger::units_between(std::uint32_t unit, std::uint32_t last) const {
  const std::size_t first = plan_->units().place_in_server[unit];
  return std::span(plan_->units().of_server[static_cast<std::size_t>(server_.value)])
      .subspan(first, plan_->units().place_in_server[last] - first + 1);
}

Status ServerLedger::check(Rank worker, std::uint32_t unit) const {
  if (worker.value < 0 || worker.value >= workers())
    return error(ErrorKind::kBadRequest, "a message came from worker {}; the job has {} workers", worker.value, workers());
  if (!at(worker).live) return error(ErrorKind::kBadRequest, "a message came from worker {}, which has left the job", worker.value);
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

Status ServerLedger::check_initial(Rank worker, std::uint32_t unit, Iteration label) const {
  PACELINE_RETURN_IF_ERROR(check(worker, unit));
  if (worker != Rank{0})
    return error(ErrorKind::kBadRequest, "worker {} sent an initial value of {}; only worker 0 does", worker.value,
                 unit_text(unit));
  if (label != plan_->options().first - 1) {
    return error(ErrorKind::kBadRequest,
                 "worker 0 sent the value of {} after iteration {} as initial; the job starts after iteration {}", unit_text(unit),
                 label, plan_->options().first - 1);
  }
  if (at(unit).initial == Initial::kThere)
    return error(ErrorKind::kBadRequest, "worker 0 sent the initial value of {} twice", unit_text(unit));
  return {};
}

Status ServerLedger::on_initial_begin(Rank worker, std::uint32_t unit, Iteration label, std::uint64_t bytes) {
  PACELINE_RETURN_IF_ERROR(check_initial(worker, unit, label));
  const std::uint64_t expected = static_cast<std::uint64_t>(plan_->units().units[unit].elements) * sizeof(float);
  if (bytes != expected) {
    return error(ErrorKind::kBadRequest, "worker 0 sent {} bytes as the initial value of {}; it has {}", bytes, unit_text(unit),
                 expected);
  }
  if (at(unit).initial == Initial::kArriving)
    return error(ErrorKind::kBadRequest, "worker 0 sent the initial value of {} twice", unit_text(unit));
  at(unit).initial = Initial::kArriving;
  return {};
}

Status ServerLedger::on_initial(Rank worker, std::uint32_t unit, Iteration label, TimePoint now, Effects& effects) {
  PACELINE_RETURN_IF_ERROR(check_initial(worker, unit, label));
  if (at(unit).initial != Initial::kArriving)
    return error(ErrorKind::kBadRequest, "worker 0 sent an empty initial value of {}", unit_text(unit));
  at(unit).initial = Initial::kThere;
  for (Rank other{0}; other.value < workers(); ++other.value) {
    set(unit, other, kHas);
    if (other != worker && at(other).live) send(unit, other, label, effects);
  }
  if (++initialised_ == units_.size()) begin_pace(now, effects);
  return {};
}

// --- gradients ---

Status ServerLedger::check_push(Rank worker, std::uint32_t unit, Iteration iteration) const {
  PACELINE_RETURN_IF_ERROR(check(worker, unit));
  if (unit >= plan_->units().moving)
    return error(ErrorKind::kBadRequest, "worker {} pushed {}, which is frozen", worker.value, unit_text(unit));
  if (!at(worker).takes_part()) {
    return error(ErrorKind::kBadRequest, "worker {} pushed {} for iteration {} but does not take part", worker.value,
                 unit_text(unit), iteration);
  }
  if (iteration != pushed(unit, worker) + 1) {
    return error(ErrorKind::kBadRequest, "worker {} pushed {} for iteration {}; expected is iteration {}", worker.value,
                 unit_text(unit), iteration, pushed(unit, worker) + 1);
  }
  if (answered(unit, worker) < iteration - 1) {
    return error(ErrorKind::kBadRequest, "worker {} pushed {} for iteration {} before it got the value of iteration {}",
                 worker.value, unit_text(unit), iteration, iteration - 1);
  }
  if (iteration != at(worker).current) {
    return error(ErrorKind::kBadRequest, "worker {} pushed {} for iteration {} before all it pushes for iteration {}", worker.value,
                 unit_text(unit), iteration, at(worker).current);
  }
  if (rule_->delivery() == sync::Delivery::kToAll && iteration != complete_ + 1) {
    return error(ErrorKind::kBadRequest, "worker {} pushed {} for iteration {} while the job is in iteration {}", worker.value,
                 unit_text(unit), iteration, complete_ + 1);
  }
  return {};
}

// With dropping a gradient is sparse where that is smaller than dense.
bool ServerLedger::fits(std::uint32_t unit, std::uint64_t bytes) const {
  const std::size_t dense = plan_->payload_bytes(unit);
  if (bytes == dense) return true;
  return plan_->options().wire.drops() && bytes > 0 && bytes < dense && bytes % tensor::kSparseBytes == 0;
}

Status ServerLedger::on_push_begin(Rank worker, std::uint32_t unit, Iteration iteration, std::uint64_t bytes) {
  PACELINE_RETURN_IF_ERROR(check_push(worker, unit, iteration));
  if (!fits(unit, bytes)) {
    return error(ErrorKind::kBadRequest, "worker {} pushed {} bytes for {} in iteration {}; it has {}", worker.value, bytes,
                 unit_text(unit), iteration, plan_->payload_bytes(unit));
  }
  if (has(unit, worker, kArriving))
    return error(ErrorKind::kBadRequest, "worker {} pushed {} twice for iteration {}", worker.value, unit_text(unit), iteration);
  set(unit, worker, kArriving);
  return {};
}

Status ServerLedger::on_push(Rank worker, std::uint32_t unit, Iteration iteration, std::uint32_t unused_parts, TimePoint now,
                             Effects& effects) {
  PACELINE_RETURN_IF_ERROR(check_push(worker, unit, iteration));
  const std::uint32_t all = scheduling::all_parts(plan_->units().units[unit]);
  if ((unused_parts & ~all) != 0) {
    return error(ErrorKind::kBadRequest, "worker {} says that it did not use parts {:#x} of {} in iteration {}; it has {} parts",
                 worker.value, unused_parts, unit_text(unit), iteration, plan_->units().units[unit].parts);
  }
  const bool with_gradient = has(unit, worker, kArriving);
  if (with_gradient && unused_parts == all) {
    return error(ErrorKind::kBadRequest, "worker {} says that it did not use {} in iteration {} and pushed it", worker.value,
                 unit_text(unit), iteration);
  }
  if (!with_gradient && unused_parts != all) {
    return error(ErrorKind::kBadRequest, "worker {} pushed {} for iteration {} without a gradient", worker.value, unit_text(unit),
                 iteration);
  }
  clear(unit, worker, kArriving);
  if (at(worker).pushed == 0) began_ = worker;
  count(worker, unit, iteration);
  settle(now, effects);
  return {};
}

void ServerLedger::count(Rank worker, std::uint32_t unit, Iteration iteration) {
  PACELINE_CHECK(due_.empty(), "an update that was due before a push of worker {} has not been made", worker.value);
  set(unit, worker, kPushed);
  if (iteration > rule_->summed_until()) {
    due_.push_back({Update::Work::kSumAndStep, unit, iteration, worker});
  } else {
    newest_summed_ = std::max(newest_summed_, iteration);
    Unit& of = at(unit);
    of.waits = iteration;
    if (++of.waiting == awaited(iteration)) all_pushed(unit);
  }
  if (++at(worker).pushed < units().size()) return;
  at(worker).pushed = 0;
  ++at(worker).current;
  for (const std::uint32_t one : units()) clear(one, worker, kPushed);
  ended_ = worker;
}

// The workers whose pushes of an iteration are summed: those who take part in it.
std::int32_t ServerLedger::awaited(Iteration iteration) const {
  if (iteration >= latest_first_) return taking_part_;
  return static_cast<std::int32_t>(
      std::ranges::count_if(workers_, [&](const Worker& worker) { return worker.takes_part() && worker.first <= iteration; }));
}

void ServerLedger::all_pushed(std::uint32_t unit) {
  due_.push_back({plan_->holds_updates() ? Update::Work::kSum : Update::Work::kSumAndStep, unit, at(unit).waits});
}

// Nobody waits for the worker's pushes any more; those that are there stay.
void ServerLedger::leave_sums(Rank worker) {
  --taking_part_;
  for (const std::uint32_t unit : units()) {
    Unit& of = at(unit);
    if (of.waits == kNone) continue;
    if (at(worker).first <= of.waits && pushed(unit, worker) >= of.waits) {
      set(unit, worker, kLeftPush);
      --of.waiting;
    }
    if (of.waiting == awaited(of.waits)) all_pushed(unit);
  }
}

// --- updates ---

void ServerLedger::gather(const Due& due) {
  contributors_.clear();
  if (due.pusher) {
    contributors_.push_back(*due.pusher);
  } else if (due.work != Update::Work::kStep) {
    for (Rank worker{0}; worker.value < workers(); ++worker.value) {
      const Worker& of = at(worker);
      const bool pushed_it = of.takes_part() && of.first <= due.iteration && pushed(due.unit, worker) >= due.iteration;
      if (pushed_it || has(due.unit, worker, kLeftPush)) contributors_.push_back(worker);
      clear(due.unit, worker, kLeftPush);
    }
  }
}

double ServerLedger::scale_of(const Due& due) const {
  const sync::GradientScale scale = plan_->options().sync.scale;
  if (due.pusher) return scale == sync::GradientScale::kMean ? 1.0 / static_cast<double>(taking_part_) : 1.0;
  return scale == sync::GradientScale::kFull ? 1.0 : 1.0 / static_cast<double>(contributors_.size());
}

std::optional<Update> ServerLedger::next() {
  if (made_ == due_.size()) return std::nullopt;
  const Due& due = due_[made_];
  gather(due);
  Unit& unit = at(due.unit);
  if (due.work != Update::Work::kStep && !due.pusher) {
    unit.waits = kNone;
    unit.waiting = 0;
  }
  // Where workers do different numbers of iterations: the iteration of BSP when as many pushes have been applied.
  const Iteration rate = plan_->uneven() ? plan_->options().first + unit.pushes / workers() : due.iteration;
  return Update{due.work, due.unit, due.iteration, contributors_, scale_of(due), rate};
}

void ServerLedger::on_updated(const Update& update, TimePoint now, Effects& effects) {
  PACELINE_CHECK(made_ < due_.size() && due_[made_].unit == update.unit, "unit {} was updated unasked", update.unit);
  if (++made_ == due_.size()) {
    due_.clear();
    made_ = 0;
  }
  at(update.unit).pushes += static_cast<std::int64_t>(update.workers.size());
  if (update.work == Update::Work::kSum) {
    count_sum(update.iteration, effects);
  } else {
    count_version(update.unit, update.iteration, effects);
    if (update.work == Update::Work::kSumAndStep) offer_update(update, effects);
    if (update.work == Update::Work::kStep && due_.empty()) {
      for (const std::uint32_t unit : units()) offer_to_all(unit, effects);
    }
  }
  settle(now, effects);
}

void ServerLedger::offer_update(const Update& update, Effects& effects) {
  switch (rule_->delivery()) {
    case sync::Delivery::kToAll:
      return offer_to_all(update.unit, effects);
    case sync::Delivery::kToPusher:
      for (const Rank worker : update.workers) offer(update.unit, worker, effects);
      return;
    case sync::Delivery::kAtStart:
      return;
  }
}

void ServerLedger::count_version(std::uint32_t unit, Iteration iteration, Effects& effects) {
  ++at(unit).version;
  if (rule_->delivery() != sync::Delivery::kToAll || ++counted_ < units().size()) return;
  counted_ = 0;
  complete_ = iteration;
  effects.push_back({.kind = ServerEffect::Kind::kIterationComplete, .iteration = iteration});
  if (!plan_->options().update.verdict) return;
  for (Rank worker{0}; worker.value < workers(); ++worker.value) {
    if (at(worker).live) effects.push_back({.kind = ServerEffect::Kind::kSendVerdict, .to = worker, .iteration = iteration});
  }
}

void ServerLedger::count_sum(Iteration iteration, Effects& effects) {
  if (++summed_ < units().size()) return;
  for (const std::size_t taker : part_takers_) {
    effects.push_back(
        {.kind = ServerEffect::Kind::kSendSquareSum, .to = Rank{static_cast<std::int32_t>(taker)}, .iteration = iteration});
  }
  try_decide(effects);
}

Status ServerLedger::on_square_sum(Rank server, Iteration iteration, Effects& effects) {
  if (!plan_->holds_updates())
    return error(ErrorKind::kBadRequest, "server {} sent a square sum; this job does not clip", server.value);
  if (std::ranges::find(part_takers_, static_cast<std::size_t>(server.value)) == part_takers_.end() || units().empty()) {
    return error(ErrorKind::kBadRequest, "a square sum came from server {} to server {}; they do not exchange any", server.value,
                 server_.value);
  }
  // A server is at most one iteration ahead: the workers push nothing of the next but one before they have this server's values.
  if (iteration != complete_ + 1 && iteration != complete_ + 2) {
    return error(ErrorKind::kBadRequest, "server {} sent its square sum of iteration {} during iteration {}", server.value,
                 iteration, complete_ + 1);
  }
  Iteration& known = square_sums_[static_cast<std::size_t>(server.value)][static_cast<std::size_t>(iteration % 2)];
  if (known == iteration)
    return error(ErrorKind::kBadRequest, "server {} sent its square sum of iteration {} twice", server.value, iteration);
  known = iteration;
  try_decide(effects);
  return {};
}

void ServerLedger::try_decide(Effects& effects) {
  if (summed_ < units().size()) return;
  const Iteration iteration = complete_ + 1;
  for (const std::size_t other : part_takers_) {
    if (square_sums_[other][static_cast<std::size_t>(iteration % 2)] != iteration) return;
  }
  summed_ = 0;
  effects.push_back({.kind = ServerEffect::Kind::kDecide, .iteration = iteration});
  for (const std::uint32_t unit : units()) due_.push_back({Update::Work::kStep, unit, iteration});
}

// --- leaving and coming ---

Status ServerLedger::on_left(Rank worker, TimePoint now, Effects& effects) {
  if (worker.value < 0 || worker.value >= workers() || !at(worker).live)
    return error(ErrorKind::kBadRequest, "worker {} left, but it does not take part", worker.value);
  at(worker).live = false;
  if (!at(worker).done) leave_pace(worker, now);
  at(worker).pulls.clear();
  for (const std::uint32_t unit : units()) {
    if (has(unit, worker, kArriving)) effects.push_back({.kind = ServerEffect::Kind::kDropGradient, .to = worker, .unit = unit});
    clear(unit, worker, kArriving);
    clear(unit, worker, kAsked);
    forget_kept(unit, worker, effects);
  }
  settle(now, effects);
  return {};
}

Status ServerLedger::on_joined(Rank worker, Iteration first, TimePoint now, Effects& effects) {
  if (worker.value < 0 || worker.value >= workers())
    return error(ErrorKind::kBadRequest, "worker {} cannot join; the job has {} workers", worker.value, workers());
  if (first < earliest_join()) {
    return error(ErrorKind::kBadRequest, "worker {} wants to join at iteration {}; the earliest is {}", worker.value, first,
                 earliest_join());
  }
  PACELINE_RETURN_IF_ERROR(rule_->on_joined(worker, first));
  const std::uint32_t handed_out = at(worker).handed_out;
  at(worker) = {.first = first, .current = first, .started = first - 1, .handed_out = handed_out, .pulls = {}};
  latest_first_ = std::max(latest_first_, first);
  ++taking_part_;
  for (const std::uint32_t unit : units()) {
    std::uint8_t& flags = flags_[index(unit, worker)];
    flags = static_cast<std::uint8_t>((flags & kLeftPush) | kHas);
  }
  hand_out(worker, effects);
  PACELINE_RETURN_IF_ERROR(rule_->on_start_asked(worker, first, now, starts_));
  settle(now, effects);
  return {};
}

}  // namespace paceline::paramserver

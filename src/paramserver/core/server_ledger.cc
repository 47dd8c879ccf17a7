#include "paramserver/core/server_ledger.h"

#include <utility>

#include "exchange/optimizer_state.h"

namespace paceline::paramserver {

using Books = ServerBooks;

namespace {

using Initial = ServerBooks::Initial;

}  // namespace

Result<ServerLedger> ServerLedger::make(std::shared_ptr<const job::Plan> plan, Rank server) {
  const job::PlanOptions& options = plan->options();
  if (server.value < 0 || server.value >= options.servers)
    return error(ErrorKind::kBadRequest, "server {} does not exist; the job has {}", server.value, options.servers);
  sync::PaceCluster cluster{.workers = {}, .first = options.first};
  for (std::int32_t worker = 0; worker < options.workers; ++worker) cluster.workers.push_back(Rank{worker});
  PACELINE_ASSIGN_OR_RETURN(auto rule, sync::make_pace_rule(options.sync, cluster));
  return ServerLedger(std::make_unique<ServerBooks>(std::move(plan), server), std::move(rule));
}

ServerLedger::ServerLedger(std::unique_ptr<ServerBooks> books, std::unique_ptr<sync::PaceRule> rule)
    : books_(std::move(books)),
      rule_(std::move(rule)),
      values_(*books_, rule_->delivery()),
      sums_(books_->plan(), books_->server()),
      taking_part_(books_->workers()),
      latest_first_(plan().options().first),
      newest_summed_(latest_first_ - 1),
      complete_(latest_first_ - 1) {
  contributors_.reserve(books_->all_workers().size());
  starts_.reserve(books_->all_workers().size());
}

// --- initial values ---

Status ServerLedger::check(Rank worker, const wire::Initial& initial) const {
  const auto [unit, label] = initial;
  PACELINE_RETURN_IF_ERROR(books_->check(worker, unit));
  if (worker != Rank{0})
    return error(ErrorKind::kBadRequest, "worker {} sent an initial value of {}; only worker 0 does", worker.value,
                 books_->unit_text(unit));
  if (label != plan().options().first - 1) {
    return error(ErrorKind::kBadRequest,
                 "worker 0 sent the value of {} after iteration {} as initial; the job starts after iteration {}",
                 books_->unit_text(unit), label, plan().options().first - 1);
  }
  if (books_->at(unit).initial == Initial::kThere)
    return error(ErrorKind::kBadRequest, "worker 0 sent the initial value of {} twice", books_->unit_text(unit));
  return {};
}

Status ServerLedger::on_begin(Rank worker, const wire::Initial& initial, std::uint64_t bytes) {
  PACELINE_RETURN_IF_ERROR(check(worker, initial));
  const std::uint32_t unit = initial.unit;
  const std::uint64_t value = static_cast<std::uint64_t>(plan().units().units[unit].elements) * sizeof(float);
  const std::uint64_t both = value + (unit < plan().units().moving ? exchange::state_bytes(plan(), unit) : 0);
  if (bytes != value && bytes != both) {
    return error(ErrorKind::kBadRequest, "worker 0 sent {} bytes as the initial value of {}; it has {}, {} with optimizer state",
                 bytes, books_->unit_text(unit), value, both);
  }
  if (books_->at(unit).initial == Initial::kArriving)
    return error(ErrorKind::kBadRequest, "worker 0 sent the initial value of {} twice", books_->unit_text(unit));
  books_->at(unit).initial = Initial::kArriving;
  return {};
}

Status ServerLedger::on(Rank worker, const wire::Initial& initial, TimePoint now, Effects& effects) {
  PACELINE_RETURN_IF_ERROR(check(worker, initial));
  const std::uint32_t unit = initial.unit;
  if (books_->at(unit).initial != Initial::kArriving)
    return error(ErrorKind::kBadRequest, "worker 0 sent an empty initial value of {}", books_->unit_text(unit));
  books_->at(unit).initial = Initial::kThere;
  values_.send_initial(unit, effects);
  if (++initialised_ == books_->units_here()) begin_pace(now, effects);
  return {};
}

// --- gradients ---

Status ServerLedger::check(Rank worker, const wire::Push& push) const {
  const std::uint32_t unit = push.unit;
  const Iteration iteration = push.iteration;
  PACELINE_RETURN_IF_ERROR(books_->check(worker, unit));
  if (unit >= plan().units().moving)
    return error(ErrorKind::kBadRequest, "worker {} pushed {}, which is frozen", worker.value, books_->unit_text(unit));
  if (!books_->at(worker).takes_part()) {
    return error(ErrorKind::kBadRequest, "worker {} pushed {} for iteration {} but does not take part", worker.value,
                 books_->unit_text(unit), iteration);
  }
  if (iteration != books_->pushed(unit, worker) + 1) {
    return error(ErrorKind::kBadRequest, "worker {} pushed {} for iteration {}; expected is iteration {}", worker.value,
                 books_->unit_text(unit), iteration, books_->pushed(unit, worker) + 1);
  }
  if (values_.answered(unit, worker) < iteration - 1) {
    return error(ErrorKind::kBadRequest, "worker {} pushed {} for iteration {} before it got the value of iteration {}",
                 worker.value, books_->unit_text(unit), iteration, iteration - 1);
  }
  if (iteration != books_->at(worker).current) {
    return error(ErrorKind::kBadRequest, "worker {} pushed {} for iteration {} before all it pushes for iteration {}", worker.value,
                 books_->unit_text(unit), iteration, books_->at(worker).current);
  }
  if (rule_->delivery() == sync::Delivery::kToAll && iteration != complete_ + 1) {
    return error(ErrorKind::kBadRequest, "worker {} pushed {} for iteration {} while the job is in iteration {}", worker.value,
                 books_->unit_text(unit), iteration, complete_ + 1);
  }
  return {};
}

Status ServerLedger::on_begin(Rank worker, const wire::Push& push, std::uint64_t bytes) {
  PACELINE_RETURN_IF_ERROR(check(worker, push));
  const std::uint32_t unit = push.unit;
  if (!plan().gradient_codec().fits(plan().elements(unit), bytes)) {
    return error(ErrorKind::kBadRequest, "worker {} pushed {} bytes for {} in iteration {}; it has {}", worker.value, bytes,
                 books_->unit_text(unit), push.iteration, plan().payload_bytes(unit));
  }
  if (books_->has(unit, worker, Books::kArriving))
    return error(ErrorKind::kBadRequest, "worker {} pushed {} twice for iteration {}", worker.value, books_->unit_text(unit),
                 push.iteration);
  books_->set(unit, worker, Books::kArriving);
  return {};
}

Status ServerLedger::on(Rank worker, const wire::Push& push, TimePoint now, Effects& effects) {
  PACELINE_RETURN_IF_ERROR(check(worker, push));
  const auto [unit, unused_parts, iteration] = push;
  const std::uint32_t all = scheduling::all_parts(plan().units().units[unit]);
  if ((unused_parts & ~all) != 0) {
    return error(ErrorKind::kBadRequest, "worker {} says that it did not use parts {:#x} of {} in iteration {}; it has {} parts",
                 worker.value, unused_parts, books_->unit_text(unit), iteration, plan().units().units[unit].parts);
  }
  const bool with_gradient = books_->has(unit, worker, Books::kArriving);
  if (with_gradient && unused_parts == all) {
    return error(ErrorKind::kBadRequest, "worker {} says that it did not use {} in iteration {} and pushed it", worker.value,
                 books_->unit_text(unit), iteration);
  }
  if (!with_gradient && unused_parts != all) {
    return error(ErrorKind::kBadRequest, "worker {} pushed {} for iteration {} without a gradient", worker.value,
                 books_->unit_text(unit), iteration);
  }
  books_->clear(unit, worker, Books::kArriving);
  if (books_->at(worker).pushed == 0) began_ = worker;
  count(worker, unit, iteration);
  settle(now, effects);
  return {};
}

void ServerLedger::count(Rank worker, std::uint32_t unit, Iteration iteration) {
  PACELINE_CHECK(due_.empty(), "an update that was due before a push of worker {} has not been made", worker.value);
  books_->set(unit, worker, Books::kPushed);
  if (iteration > rule_->summed_until()) {
    due_.push_back({Update::Work::kSumAndStep, unit, iteration, worker});
  } else {
    newest_summed_ = std::max(newest_summed_, iteration);
    Books::Unit& of = books_->at(unit);
    of.waits = iteration;
    if (++of.waiting == awaited(iteration)) all_pushed(unit);
  }
  if (++books_->at(worker).pushed < books_->units().size()) return;
  books_->at(worker).pushed = 0;
  ++books_->at(worker).current;
  for (const std::uint32_t one : books_->units()) books_->clear(one, worker, Books::kPushed);
  ended_ = worker;
}

// The workers whose pushes of an iteration are summed: those who take part in it.
std::int32_t ServerLedger::awaited(Iteration iteration) const {
  if (iteration >= latest_first_) return taking_part_;
  return static_cast<std::int32_t>(std::ranges::count_if(
      books_->all_workers(), [&](const Books::Worker& worker) { return worker.takes_part() && worker.first <= iteration; }));
}

void ServerLedger::all_pushed(std::uint32_t unit) {
  due_.push_back({plan().holds_updates() ? Update::Work::kSum : Update::Work::kSumAndStep, unit, books_->at(unit).waits});
}

// Nobody waits for the worker's pushes any more; those that are there stay.
void ServerLedger::leave_sums(Rank worker) {
  --taking_part_;
  for (const std::uint32_t unit : books_->units()) {
    Books::Unit& of = books_->at(unit);
    if (of.waits == Books::kNone) continue;
    if (books_->at(worker).first <= of.waits && books_->pushed(unit, worker) >= of.waits) {
      books_->set(unit, worker, Books::kLeftPush);
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
    for (Rank worker{0}; worker.value < books_->workers(); ++worker.value) {
      const Books::Worker& of = books_->at(worker);
      const bool pushed_it = of.takes_part() && of.first <= due.iteration && books_->pushed(due.unit, worker) >= due.iteration;
      if (pushed_it || books_->has(due.unit, worker, Books::kLeftPush)) contributors_.push_back(worker);
      books_->clear(due.unit, worker, Books::kLeftPush);
    }
  }
}

double ServerLedger::scale_of(const Due& due) const {
  const sync::GradientScale scale = plan().options().sync.scale;
  if (due.pusher) return scale == sync::GradientScale::kMean ? 1.0 / static_cast<double>(taking_part_) : 1.0;
  return scale == sync::GradientScale::kFull ? 1.0 : 1.0 / static_cast<double>(contributors_.size());
}

std::optional<Update> ServerLedger::next() {
  if (made_ == due_.size()) return std::nullopt;
  const Due& due = due_[made_];
  gather(due);
  Books::Unit& unit = books_->at(due.unit);
  if (due.work != Update::Work::kStep && !due.pusher) {
    unit.waits = Books::kNone;
    unit.waiting = 0;
  }
  // Where workers do different numbers of iterations: the iteration of BSP when as many pushes have been applied.
  const Iteration rate = plan().uneven() ? plan().options().first + unit.pushes / books_->workers() : due.iteration;
  return Update{due.work, due.unit, due.iteration, contributors_, scale_of(due), rate};
}

void ServerLedger::on_updated(const Update& update, TimePoint now, Effects& effects) {
  PACELINE_CHECK(made_ < due_.size() && due_[made_].unit == update.unit, "unit {} was updated unasked", update.unit);
  if (++made_ == due_.size()) {
    due_.clear();
    made_ = 0;
  }
  books_->at(update.unit).pushes += static_cast<std::int64_t>(update.workers.size());
  if (update.work == Update::Work::kSum) {
    count_sum(update.iteration, effects);
  } else {
    count_version(update.unit, update.iteration, effects);
    if (update.work == Update::Work::kSumAndStep) offer_update(update, effects);
    if (update.work == Update::Work::kStep && due_.empty()) {
      for (const std::uint32_t unit : books_->units()) values_.offer_to_all(unit, effects);
    }
  }
  settle(now, effects);
}

void ServerLedger::offer_update(const Update& update, Effects& effects) {
  switch (rule_->delivery()) {
    case sync::Delivery::kToAll:
      return values_.offer_to_all(update.unit, effects);
    case sync::Delivery::kToPusher:
      for (const Rank worker : update.workers) values_.offer(update.unit, worker, effects);
      return;
    case sync::Delivery::kAtStart:
      return;
  }
}

void ServerLedger::count_version(std::uint32_t unit, Iteration iteration, Effects& effects) {
  ++books_->at(unit).version;
  if (rule_->delivery() != sync::Delivery::kToAll || ++counted_ < books_->units().size()) return;
  counted_ = 0;
  complete_ = iteration;
  effects.push_back(Complete{iteration});
  if (!plan().options().update.verdict) return;
  for (Rank worker{0}; worker.value < books_->workers(); ++worker.value) {
    if (books_->at(worker).live) effects.push_back(Send{.to = worker, .message = wire::VerdictPart{iteration}});
  }
}

void ServerLedger::count_sum(Iteration iteration, Effects& effects) {
  if (!sums_.count()) return;
  for (const Rank taker : sums_.takers()) effects.push_back(Send{.to = taker, .message = wire::SquareSum{iteration}});
  try_step();
}

Status ServerLedger::on(Rank server, const wire::SquareSum& part, TimePoint, Effects&) {
  PACELINE_RETURN_IF_ERROR(sums_.on_square_sum(server, part.iteration, complete_ + 1));
  try_step();
  return {};
}

void ServerLedger::try_step() {
  const Iteration iteration = complete_ + 1;
  if (!sums_.take_complete(iteration)) return;
  for (const std::uint32_t unit : books_->units()) due_.push_back({Update::Work::kStep, unit, iteration});
}

// --- leaving and coming ---

Status ServerLedger::on_left(Rank worker, TimePoint now, Effects& effects) {
  if (!books_->exists(worker) || !books_->at(worker).live)
    return error(ErrorKind::kBadRequest, "worker {} left, but it does not take part", worker.value);
  books_->at(worker).live = false;
  if (!books_->at(worker).done) leave_pace(worker, now);
  for (const std::uint32_t unit : books_->units()) {
    if (books_->has(unit, worker, Books::kArriving)) effects.push_back(Forget{unit, worker});
    books_->clear(unit, worker, Books::kArriving);
  }
  values_.on_left(worker, effects);
  settle(now, effects);
  return {};
}

Status ServerLedger::on_joined(Rank worker, Iteration first, TimePoint now, Effects& effects) {
  if (!books_->exists(worker))
    return error(ErrorKind::kBadRequest, "worker {} cannot join; the job has {} workers", worker.value, books_->workers());
  if (first < earliest_join()) {
    return error(ErrorKind::kBadRequest, "worker {} wants to join at iteration {}; the earliest is {}", worker.value, first,
                 earliest_join());
  }
  PACELINE_RETURN_IF_ERROR(rule_->on_joined(worker, first));
  const std::uint32_t handed_out = books_->at(worker).handed_out;
  books_->at(worker) = {.first = first, .current = first, .started = first - 1, .handed_out = handed_out};
  latest_first_ = std::max(latest_first_, first);
  ++taking_part_;
  for (const std::uint32_t unit : books_->units()) {
    std::uint8_t& flags = books_->flags(unit, worker);
    flags = static_cast<std::uint8_t>((flags & Books::kLeftPush) | Books::kHas);
  }
  hand_out(worker, effects);
  PACELINE_RETURN_IF_ERROR(rule_->on_start_asked(worker, first, now, starts_));
  settle(now, effects);
  return {};
}

}  // namespace paceline::paramserver

// Of ServerLedger: which values leave, to all whom they are due or to those who have asked; and the pace of the workers: who may
// start, which mini-batch is whose, where barriers lie, and how a job ends whose workers do different numbers of iterations.
#include <utility>

#include "paramserver/core/server_ledger.h"

namespace paceline::paramserver {

// --- labels ---

// The latest iteration that the worker has pushed.
Iteration ServerLedger::pushed(std::uint32_t unit, Rank worker) const {
  return at(worker).current - (has(unit, worker, kPushed) ? 0 : 1);
}

// The label of the latest value that there is for the worker.
Iteration ServerLedger::due(std::uint32_t unit, Rank worker) const {
  if (final_values_sent_) return pushed(unit, worker) + 1;
  switch (rule_->delivery()) {
    case sync::Delivery::kToAll:
      return std::max(at(unit).version, at(worker).first - 1);
    case sync::Delivery::kToPusher:
      return pushed(unit, worker);
    case sync::Delivery::kAtStart:
      return at(worker).started - 1;
  }
  return kNone;
}

Iteration ServerLedger::answered(std::uint32_t unit, Rank worker) const {
  return due(unit, worker) - (has(unit, worker, kHas) ? 0 : 1);
}

// --- values ---

void ServerLedger::offer_to_all(std::uint32_t unit, Effects& effects) {
  for (Rank worker{0}; worker.value < workers(); ++worker.value) {
    if (at(unit).version >= at(worker).first) offer(unit, worker, effects);
  }
}

// There is a new value for the worker.
void ServerLedger::offer(std::uint32_t unit, Rank worker, Effects& effects) {
  if (!at(worker).live) return;
  clear(unit, worker, kHas);
  const Iteration label = due(unit, worker);
  if (has(unit, worker, kAsked)) {
    auto& pulls = at(worker).pulls;
    const auto pull = std::ranges::find_if(pulls, [&](const Pull& one) { return one.unit <= unit && unit <= one.last; });
    if (pull == pulls.end()) return send(unit, worker, label, effects);
    if (--pull->missing > 0) return;
    const Pull whole = *pull;
    pulls.erase(pull);
    send_all(whole, worker, label, effects);
  } else if (plan_->options().schedule.back == scheduling::Return::kBroadcast) {
    send(unit, worker, label, effects);
  } else if (plan_->options().schedule.back == scheduling::Return::kNotifyAndPull) {
    effects.push_back({.kind = ServerEffect::Kind::kNotify, .to = worker, .unit = unit, .last = unit, .iteration = label});
  }
}

Status ServerLedger::on_pull(Rank worker, std::uint32_t unit, std::uint32_t last, Iteration label, Effects& effects) {
  PACELINE_RETURN_IF_ERROR(check(worker, unit));
  PACELINE_RETURN_IF_ERROR(check(worker, last));
  if (unit > last || last >= plan_->units().moving)
    return error(ErrorKind::kBadRequest, "worker {} asked for units {} to {}", worker.value, unit, last);
  const auto asked = units_between(unit, last);
  for (const std::uint32_t one : asked) {
    // A pull may overtake the push of its iteration, but no more than that.
    if (label != answered(one, worker) + 1 || label < plan_->options().first || label > pushed(one, worker) + 1) {
      return error(ErrorKind::kBadRequest,
                   "worker {} asked for the value of {} of iteration {}; it has that of {} and has pushed up to {}", worker.value,
                   unit_text(one), label, answered(one, worker), pushed(one, worker));
    }
    if (has(one, worker, kAsked))
      return error(ErrorKind::kBadRequest, "worker {} asked for the value of {} of iteration {} twice", worker.value,
                   unit_text(one), label);
  }
  Pull pull{unit, last, 0};
  for (const std::uint32_t one : asked) {
    set(one, worker, kAsked);
    if (has(one, worker, kHas)) ++pull.missing;
  }
  if (pull.missing == 0)
    send_all(pull, worker, label, effects);
  else if (unit != last)
    at(worker).pulls.push_back(pull);
  return {};
}

void ServerLedger::send(std::uint32_t unit, Rank worker, Iteration label, Effects& effects) {
  send_all({unit, unit, 0}, worker, label, effects);
}

// All units of a pull have the same label: a worker asks for its own iteration, and no value goes beyond it before its push.
void ServerLedger::send_all(const Pull& pull, Rank worker, Iteration label, Effects& effects) {
  const bool kept = has(pull.unit, worker, kKept);
  const auto kind = pull.unit == pull.last ? ServerEffect::Kind::kSendValue : ServerEffect::Kind::kSendValues;
  effects.push_back({.kind = kind, .kept = kept, .to = worker, .unit = pull.unit, .last = pull.last, .iteration = label});
  for (const std::uint32_t unit : units_between(pull.unit, pull.last)) {
    PACELINE_CHECK(due(unit, worker) == label && has(unit, worker, kKept) == kept, "a value of iteration {} goes with one of {}",
                   due(unit, worker), label);
    set(unit, worker, kHas);
    clear(unit, worker, kAsked);
    forget_kept(unit, worker, effects);
  }
}

// All workers are to get the values of this moment, whenever they ask for them.
void ServerLedger::keep(std::uint32_t unit, Rank worker, Effects& effects) {
  set(unit, worker, kKept);
  if (at(unit).kept_for++ == 0) effects.push_back({.kind = ServerEffect::Kind::kKeep, .unit = unit, .last = unit});
}

void ServerLedger::forget_kept(std::uint32_t unit, Rank worker, Effects& effects) {
  if (!has(unit, worker, kKept)) return;
  clear(unit, worker, kKept);
  if (--at(unit).kept_for == 0) effects.push_back({.kind = ServerEffect::Kind::kForget, .unit = unit, .last = unit});
}

// --- pace ---

// All initial values are on their way, so that everybody may start the first iteration: no other values are needed for it.
void ServerLedger::begin_pace(TimePoint now, Effects& effects) {
  for (Rank worker{0}; worker.value < workers(); ++worker.value) {
    if (!at(worker).live) continue;
    const Status asked = rule_->on_start_asked(worker, at(worker).first, now, starts_);
    PACELINE_CHECK(asked.ok(), "the first start was refused: {}", asked.message());
    hand_out(worker, effects);
  }
  observe_starts(now);
  starts_.clear();
}

void ServerLedger::observe_starts(TimePoint now) {
  for (const sync::Start& start : starts_) {
    at(start.worker).started = start.iteration;
    if (observer_ != nullptr) observer_->on_started(start.worker, start.iteration, rule_->ahead(start.worker), now);
  }
}

// The worker's next mini-batch, early enough for it to be read while the worker still computes.
void ServerLedger::hand_out(Rank worker, Effects& effects) {
  if (!plan_->uneven() || !paces()) return;
  effects.push_back(
      {.kind = ServerEffect::Kind::kMiniBatch, .to = worker, .unit = ++at(worker).handed_out, .iteration = ++mini_batch_});
}

// What follows once every update that is due has been made: the next mini-batch, starts with the values of this moment, and the
// last values.
void ServerLedger::settle(TimePoint now, Effects& effects) {
  if (!due_.empty()) return;
  if (const auto worker = std::exchange(began_, std::nullopt)) hand_out(*worker, effects);
  if (const auto worker = std::exchange(ended_, std::nullopt)) {
    const Iteration next = at(*worker).current;
    if (observer_ != nullptr) observer_->on_ended(*worker, next - 1, now);
    const Status asked = rule_->on_start_asked(*worker, next, now, starts_);
    PACELINE_CHECK(asked.ok(), "a start was refused: {}", asked.message());
  }
  start(now, effects);
  send_final_values(effects);
}

// Sends values for `starts_` where the rule says so.
void ServerLedger::start(TimePoint now, Effects& effects) {
  if (observer_ != nullptr) {
    if (const auto superstep = rule_->take_finished()) observer_->on_superstep(*superstep);
  }
  observe_starts(now);
  if (rule_->delivery() == sync::Delivery::kAtStart) {
    for (const sync::Start& allowed : starts_) offer_at_start(allowed, effects);
  }
  starts_.clear();
}

void ServerLedger::offer_at_start(const sync::Start& start, Effects& effects) {
  const bool is_asked_for = plan_->options().schedule.back != scheduling::Return::kBroadcast;
  for (const std::uint32_t unit : units()) {
    if (start.at_barrier && is_asked_for && !has(unit, start.worker, kAsked)) keep(unit, start.worker, effects);
    offer(unit, start.worker, effects);
  }
}

Status ServerLedger::on_barrier(Rank worker, Iteration barrier, TimePoint now, Effects& effects) {
  PACELINE_RETURN_IF_ERROR(rule_->on_barrier(worker, barrier, now, starts_));
  settle(now, effects);
  return {};
}

Status ServerLedger::on_done(Rank worker, Iteration last, TimePoint now, Effects& effects) {
  if (worker.value < 0 || worker.value >= workers() || !at(worker).takes_part() || !plan_->uneven()) {
    return error(ErrorKind::kBadRequest, "worker {} says that iteration {} was its last one, but {}", worker.value, last,
                 plan_->uneven() ? "it does not take part" : "all workers end together");
  }
  for (const std::uint32_t unit : units()) {
    if (pushed(unit, worker) == last && answered(unit, worker) == last && !has(unit, worker, kArriving)) continue;
    return error(ErrorKind::kBadRequest,
                 "worker {} says that iteration {} was its last one; it has pushed {} up to iteration {} and got the value of {}",
                 worker.value, last, unit_text(unit), pushed(unit, worker), answered(unit, worker));
  }
  at(worker).done = true;
  leave_pace(worker, now);
  settle(now, effects);
  return {};
}

// Nobody waits for the worker any more.
void ServerLedger::leave_pace(Rank worker, TimePoint now) {
  const Status left = rule_->on_left(worker, now, starts_);
  PACELINE_CHECK(left.ok(), "a leave was refused: {}", left.message());
  leave_sums(worker);
}

// When nobody computes any more all get the same values, which every push has gone into; asked for or not.
void ServerLedger::send_final_values(Effects& effects) {
  if (!plan_->uneven() || final_values_sent_ || taking_part_ > 0) return;
  if (std::ranges::none_of(workers_, &Worker::live)) return;
  final_values_sent_ = true;
  for (const std::uint32_t unit : units()) {
    for (Rank worker{0}; worker.value < workers(); ++worker.value) {
      if (at(worker).live) send(unit, worker, due(unit, worker), effects);
    }
  }
}

}  // namespace paceline::paramserver

// The pace of the workers: who may start, which mini-batch is whose, where barriers lie, and how a job ends whose workers do
// different numbers of iterations.
#include <algorithm>

#include "paramserver/core/server_core.h"

namespace paceline::paramserver {

// All initial values are on their way, so that everybody may start the first iteration: no other values are needed for it.
void ServerCore::begin_pace(TimePoint now, std::vector<ServerAction>& actions) {
  starts_.clear();
  for (std::int32_t worker = 0; worker < static_cast<std::int32_t>(live_.size()); ++worker) {
    if (live_[static_cast<std::size_t>(worker)] == 0) continue;
    const Status asked = sync_->on_start_asked(Rank{worker}, plan_->options().first, now, starts_);
    PACELINE_CHECK(asked.ok(), "the first start was refused: {}", asked.message());
    hand_out(Rank{worker}, actions);
  }
  observe_starts(now);
}

void ServerCore::observe_starts(TimePoint now) {
  if (observer_ == nullptr) return;
  for (const sync::Start& start : starts_) observer_->on_started(start.worker, start.iteration, sync_->ahead(start.worker), now);
}

// One unit of the worker's iteration has come.
Status ServerCore::count_push(Rank worker, Iteration iteration, TimePoint now, std::vector<ServerAction>& actions) {
  std::size_t& pushed = pushed_units_[static_cast<std::size_t>(worker.value)];
  if (pushed == 0) hand_out(worker, actions);
  if (++pushed < units_.size()) return {};
  pushed = 0;
  if (observer_ != nullptr) observer_->on_ended(worker, iteration, now);
  starts_.clear();
  PACELINE_RETURN_IF_ERROR(sync_->on_start_asked(worker, iteration + 1, now, starts_));
  start(now, actions);
  return {};
}

// The worker's next mini-batch, early enough for it to be read while the worker still computes.
void ServerCore::hand_out(Rank worker, std::vector<ServerAction>& actions) {
  if (!plan_->uneven() || !paces()) return;
  actions.push_back({.kind = ServerAction::Kind::kMiniBatch,
                     .to = worker,
                     .unit = ++handed_out_[static_cast<std::size_t>(worker.value)],
                     .iteration = ++mini_batch_});
}

// Sends values for `starts_` where the model says so.
void ServerCore::start(TimePoint now, std::vector<ServerAction>& actions) {
  if (observer_ != nullptr) {
    if (const auto superstep = sync_->take_finished()) observer_->on_superstep(*superstep);
  }
  observe_starts(now);
  if (sync_->delivery() != sync::Delivery::kAtStart) return;
  for (const sync::Start& allowed : starts_) {
    for (const std::uint32_t unit : my_units()) {
      if (allowed.at_barrier) keep_value(unit, allowed.worker);
      offer(unit, allowed.worker, allowed.iteration - 1, actions);
    }
  }
}

// All workers are to get the values of this moment, whenever they ask for them.
void ServerCore::keep_value(std::uint32_t unit, Rank worker) {
  Slot& at = slot(unit, worker);
  forget_kept(at);
  at.kept = sent_value(unit);
  pool_.add_reference(at.kept);
}

void ServerCore::forget_kept(Slot& at) {
  if (at.kept != kNoBuffer) pool_.release(std::exchange(at.kept, kNoBuffer));
}

Status ServerCore::on_barrier(Rank worker, Iteration barrier, TimePoint now, std::vector<ServerAction>& actions) {
  starts_.clear();
  PACELINE_RETURN_IF_ERROR(sync_->on_barrier(worker, barrier, now, starts_));
  start(now, actions);
  return {};
}

Status ServerCore::on_done(Rank worker, Iteration last, TimePoint now, std::vector<ServerAction>& actions) {
  const auto index = static_cast<std::size_t>(worker.value);
  if (worker.value < 0 || index >= live_.size() || live_[index] == 0 || done_[index] != 0 || !plan_->uneven()) {
    return error(ErrorKind::kBadRequest, "worker {} says that iteration {} was its last one, but {}", worker.value, last,
                 plan_->uneven() ? "it does not take part" : "all workers end together");
  }
  for (const std::uint32_t unit : my_units()) {
    const Slot& at = slot(unit, worker);
    if (at.pushed == last && at.answered == last && at.receiving == kNone) continue;
    return error(ErrorKind::kBadRequest,
                 "worker {} says that iteration {} was its last one; it has pushed {} up to iteration {} and got the value of {}",
                 worker.value, last, unit_text(unit), at.pushed, at.answered);
  }
  done_[index] = 1;
  PACELINE_RETURN_IF_ERROR(leave_pace(worker, now, actions));
  send_final_values(actions);
  return {};
}

// Nobody waits for the worker any more.
Status ServerCore::leave_pace(Rank worker, TimePoint now, std::vector<ServerAction>& actions) {
  PACELINE_ASSIGN_OR_RETURN(const auto decisions, sync_->on_left(worker, now));
  for (const sync::Update& update : decisions.updates) apply(update, actions);
  starts_ = decisions.starts;
  start(now, actions);
  return {};
}

// When nobody computes any more all get the same values, which every push has gone into; asked for or not.
void ServerCore::send_final_values(std::vector<ServerAction>& actions) {
  bool any = false;
  for (std::size_t worker = 0; worker < live_.size(); ++worker) {
    if (live_[worker] != 0 && done_[worker] == 0) return;
    any |= live_[worker] != 0;
  }
  if (!any || std::exchange(final_values_sent_, true)) return;
  for (const std::uint32_t unit : my_units()) {
    for (std::int32_t worker = 0; worker < static_cast<std::int32_t>(live_.size()); ++worker) {
      if (live_[static_cast<std::size_t>(worker)] == 0) continue;
      Slot& at = slot(unit, Rank{worker});
      at.due = at.pushed + 1;
      send(unit, Rank{worker}, at.due, actions);
    }
  }
}

}  // namespace paceline::paramserver

// Of ServerLedger: the pace of the workers. Who may start, which mini-batch is whose, where barriers lie, and how a job ends whose
// workers do different numbers of iterations.
#include <utility>

#include "paramserver/core/server_ledger.h"

namespace paceline::paramserver {

using Books = ServerBooks;

// All initial values are on their way, so that everybody may start the first iteration: no other values are needed for it.
void ServerLedger::begin_pace(TimePoint now, Effects& effects) {
  for (Rank worker{0}; worker.value < books_->workers(); ++worker.value) {
    if (!books_->at(worker).live) continue;
    const Status asked = rule_->on_start_asked(worker, books_->at(worker).first, now, starts_);
    PACELINE_CHECK(asked.ok(), "the first start was refused: {}", asked.message());
    hand_out(worker, effects);
  }
  tell_starts(now);
  starts_.clear();
}

void ServerLedger::tell_starts(TimePoint now) {
  for (const sync::Start& start : starts_) {
    books_->at(start.worker).started = start.iteration;
    if (events_ == nullptr) continue;
    events_->on_event(wire::at(now, {.what = wire::Happening::kStarted,
                                     .peer = start.worker.value,
                                     .detail = static_cast<std::uint32_t>(rule_->ahead(start.worker)),
                                     .iteration = start.iteration}));
  }
}

// The worker's next mini-batch, early enough for it to be read while the worker still computes.
void ServerLedger::hand_out(Rank worker, Effects& effects) {
  if (!plan().uneven() || !paces()) return;
  effects.push_back(Send{.to = worker, .message = wire::MiniBatch{++books_->at(worker).handed_out, ++mini_batch_}});
}

// What follows once every update that is due has been made: the next mini-batch, starts with the values of this moment, and the
// last values.
void ServerLedger::settle(TimePoint now, Effects& effects) {
  if (!due_.empty()) return;
  if (const auto worker = std::exchange(began_, std::nullopt)) hand_out(*worker, effects);
  if (const auto worker = std::exchange(ended_, std::nullopt)) {
    const Iteration next = books_->at(*worker).current;
    if (events_ != nullptr)
      events_->on_event(wire::at(now, {.what = wire::Happening::kEnded, .peer = worker->value, .iteration = next - 1}));
    const Status asked = rule_->on_start_asked(*worker, next, now, starts_);
    PACELINE_CHECK(asked.ok(), "a start was refused: {}", asked.message());
  }
  start(now, effects);
  if (plan().uneven() && taking_part_ == 0 && std::ranges::any_of(books_->all_workers(), &Books::Worker::live))
    values_.send_final(effects);
}

// Sends values for `starts_` where the rule says so.
void ServerLedger::start(TimePoint now, Effects& effects) {
  tell_starts(now);
  if (rule_->delivery() == sync::Delivery::kAtStart) {
    for (const sync::Start& allowed : starts_) values_.offer_at_start(allowed, effects);
  }
  starts_.clear();
}

Status ServerLedger::on(Rank, const wire::Barrier& barrier, TimePoint now, Effects& effects) {
  const Rank worker{static_cast<std::int32_t>(barrier.worker)};
  PACELINE_RETURN_IF_ERROR(rule_->on_barrier(worker, barrier.iteration, now, starts_));
  settle(now, effects);
  return {};
}

Status ServerLedger::on(Rank worker, const wire::Done& done, TimePoint now, Effects& effects) {
  const Iteration last = done.iteration;
  if (!books_->exists(worker) || !books_->at(worker).takes_part() || !plan().uneven()) {
    return error(ErrorKind::kBadRequest, "worker {} says that iteration {} was its last one, but {}", worker.value, last,
                 plan().uneven() ? "it does not take part" : "all workers end together");
  }
  for (const std::uint32_t unit : books_->units()) {
    if (books_->pushed(unit, worker) == last && values_.answered(unit, worker) == last &&
        !books_->has(unit, worker, Books::kArriving))
      continue;
    return error(ErrorKind::kBadRequest,
                 "worker {} says that iteration {} was its last one; it has pushed {} up to iteration {} and got the value of {}",
                 worker.value, last, books_->unit_text(unit), books_->pushed(unit, worker), values_.answered(unit, worker));
  }
  books_->at(worker).done = true;
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

}  // namespace paceline::paramserver

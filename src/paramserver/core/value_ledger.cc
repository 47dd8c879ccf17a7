#include "paramserver/core/value_ledger.h"

#include <algorithm>
#include <utility>

namespace paceline::paramserver {

using Books = ServerBooks;

ValueLedger::ValueLedger(ServerBooks& books, sync::Delivery delivery) : books_(books), delivery_(delivery) {
  pulls_.resize(static_cast<std::size_t>(books.workers()));
}

// --- labels ---

Iteration ValueLedger::due(std::uint32_t unit, Rank worker) const {
  if (final_values_sent_) return books_.pushed(unit, worker) + 1;
  switch (delivery_) {
    case sync::Delivery::kToAll:
      return std::max(books_.at(unit).version, books_.at(worker).first - 1);
    case sync::Delivery::kToPusher:
      return books_.pushed(unit, worker);
    case sync::Delivery::kAtStart:
      return books_.at(worker).started - 1;
  }
  return Books::kNone;
}

Iteration ValueLedger::answered(std::uint32_t unit, Rank worker) const {
  return due(unit, worker) - (books_.has(unit, worker, Books::kHas) ? 0 : 1);
}

// --- asked for ---

Status ValueLedger::check_pull(Rank worker, std::uint32_t unit, Iteration label) const {
  const Iteration answered_with = answered(unit, worker), pushed = books_.pushed(unit, worker);
  // A pull may overtake the push of its iteration, but no more than that.
  if (label != answered_with + 1 || label < books_.plan().options().first || label > pushed + 1) {
    return error(ErrorKind::kBadRequest,
                 "worker {} asked for the value of {} of iteration {}; it has that of {} and has pushed up to {}", worker.value,
                 books_.unit_text(unit), label, answered_with, pushed);
  }
  if (books_.has(unit, worker, Books::kAsked))
    return error(ErrorKind::kBadRequest, "worker {} asked for the value of {} of iteration {} twice", worker.value,
                 books_.unit_text(unit), label);
  return {};
}

Status ValueLedger::on_pull(Rank worker, const wire::Pull& asked, ServerEffects& effects) {
  PACELINE_RETURN_IF_ERROR(books_.check(worker, asked.unit));
  PACELINE_RETURN_IF_ERROR(books_.check(worker, asked.last));
  if (!asked.valid() || asked.last >= books_.plan().units().moving)
    return error(ErrorKind::kBadRequest, "worker {} asked for units {} to {}", worker.value, asked.unit, asked.last);
  const auto units = books_.plan().units().between(asked.unit, asked.last);
  for (const std::uint32_t unit : units) PACELINE_RETURN_IF_ERROR(check_pull(worker, unit, asked.iteration));
  Pull pull{asked.unit, asked.last, 0};
  for (const std::uint32_t unit : units) {
    books_.set(unit, worker, Books::kAsked);
    if (books_.has(unit, worker, Books::kHas)) ++pull.missing;
  }
  if (pull.missing == 0)
    send(pull, worker, asked.iteration, effects);
  else if (asked.unit != asked.last)
    pulls(worker).push_back(pull);
  return {};
}

void ValueLedger::on_left(Rank worker, ServerEffects& effects) {
  pulls(worker).clear();
  for (const std::uint32_t unit : books_.units()) {
    books_.clear(unit, worker, Books::kAsked);
    forget_kept(unit, worker, effects);
  }
}

// --- new ---

void ValueLedger::send_initial(std::uint32_t unit, ServerEffects& effects) {
  for (Rank worker{0}; worker.value < books_.workers(); ++worker.value) {
    books_.set(unit, worker, Books::kHas);
    if (worker != Rank{0} && books_.at(worker).live) send({unit, unit}, worker, books_.plan().options().first - 1, effects);
  }
}

void ValueLedger::offer_to_all(std::uint32_t unit, ServerEffects& effects) {
  for (Rank worker{0}; worker.value < books_.workers(); ++worker.value) {
    if (books_.at(unit).version >= books_.at(worker).first) offer(unit, worker, effects);
  }
}

void ValueLedger::offer(std::uint32_t unit, Rank worker, ServerEffects& effects) {
  if (!books_.at(worker).live) return;
  books_.clear(unit, worker, Books::kHas);
  const Iteration label = due(unit, worker);
  const scheduling::Return back = books_.plan().options().schedule.back;
  if (books_.has(unit, worker, Books::kAsked)) {
    auto& waiting = pulls(worker);
    const auto pull = std::ranges::find_if(waiting, [&](const Pull& one) { return one.unit <= unit && unit <= one.last; });
    if (pull == waiting.end()) return send({unit, unit}, worker, label, effects);
    if (--pull->missing > 0) return;
    const Pull whole = *pull;
    waiting.erase(pull);
    send(whole, worker, label, effects);
  } else if (back == scheduling::Return::kBroadcast) {
    send({unit, unit}, worker, label, effects);
  } else if (back == scheduling::Return::kNotifyAndPull) {
    effects.push_back(Send{.to = worker, .message = wire::Notify{unit, label}});
  }
}

void ValueLedger::offer_at_start(const sync::Start& start, ServerEffects& effects) {
  const bool is_asked_for = books_.plan().options().schedule.back != scheduling::Return::kBroadcast;
  for (const std::uint32_t unit : books_.units()) {
    if (start.at_barrier && is_asked_for && !books_.has(unit, start.worker, Books::kAsked)) keep(unit, start.worker, effects);
    offer(unit, start.worker, effects);
  }
}

void ValueLedger::send_final(ServerEffects& effects) {
  if (std::exchange(final_values_sent_, true)) return;
  for (const std::uint32_t unit : books_.units()) {
    for (Rank worker{0}; worker.value < books_.workers(); ++worker.value) {
      if (books_.at(worker).live) send({unit, unit}, worker, due(unit, worker), effects);
    }
  }
}

// --- leaving ---

// All units of a pull have the same label: a worker asks for its own iteration, and no value goes beyond it before its push.
void ValueLedger::send(const Pull& pull, Rank worker, Iteration label, ServerEffects& effects) {
  const bool kept = books_.has(pull.unit, worker, Books::kKept);
  Send values{.to = worker, .kept = kept, .message = wire::Values{pull.unit, pull.last, label}};
  if (pull.unit == pull.last) values.message = wire::Value{.unit = pull.unit, .iteration = label};
  effects.push_back(values);
  for (const std::uint32_t unit : books_.plan().units().between(pull.unit, pull.last)) {
    PACELINE_CHECK(due(unit, worker) == label && books_.has(unit, worker, Books::kKept) == kept,
                   "a value of iteration {} goes with one of {}", due(unit, worker), label);
    books_.set(unit, worker, Books::kHas);
    books_.clear(unit, worker, Books::kAsked);
    forget_kept(unit, worker, effects);
  }
}

// All workers are to get the values of this moment, whenever they ask for them.
void ValueLedger::keep(std::uint32_t unit, Rank worker, ServerEffects& effects) {
  books_.set(unit, worker, Books::kKept);
  if (books_.at(unit).kept_for++ == 0) effects.push_back(Keep{unit});
}

void ValueLedger::forget_kept(std::uint32_t unit, Rank worker, ServerEffects& effects) {
  if (!books_.has(unit, worker, Books::kKept)) return;
  books_.clear(unit, worker, Books::kKept);
  if (--books_.at(unit).kept_for == 0) effects.push_back(Forget{unit});
}

}  // namespace paceline::paramserver

#include "exchange/gatehouse.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "exchange/late.h"

namespace paceline::exchange {
namespace {

constexpr Duration kLongestLimit = std::chrono::hours(24 * 365);  // a longer one is none
// Loops answer whatever their workers compute. A warning is not to come late.
constexpr Duration kAnswersLimit = std::chrono::seconds(5), kAnswersLimitOfWarning = std::chrono::milliseconds(500);

}  // namespace

Gatehouse::Gatehouse(const std::shared_ptr<const job::Plan>& plan, Rank worker, exchange::GateLedger::Rule rule,
                     transport::Loop& loop, GatehouseOptions options)
    : plan_(plan),
      worker_(worker),
      loop_(loop),
      options_(std::move(options)),
      gates_(plan, worker, rule),
      stall_(loop.now(), options_.stall_deadline) {
  events_.add(account_);
  told_.reserve(2 * (plan_->units().units.size() + 1));
}

TimePoint Gatehouse::end_of(Duration limit, TimePoint now) { return limit > kLongestLimit ? TimePoint::max() : now + limit; }

Gatehouse::Woken Gatehouse::sleep(Lock& lock, TimePoint until) {
  const auto status = changed_.wait_until(lock, std::min(until, stall_.next_due()));
  return status == std::cv_status::no_timeout ? Woken::kByNews : Woken::kByTime;
}

// Nothing has come for long enough to look at the clock. Gives the lock back for a moment when there is something to log.
Status Gatehouse::look_for_stall(Lock& lock, TimePoint until, const std::string& awaited) {
  const TimePoint now = loop_.now();
  switch (stall_.check(now)) {
    case session::StallDetector::Verdict::kFine:
      return {};
    case session::StallDetector::Verdict::kFail: {
      const Duration waited = stall_.waited(now);
      if (!blaming_) blaming_ = find_out(awaited, waited);
      if (!blaming_) return stalled(awaited, waited);
      changed_.wait_until(lock, until);  // for what is found out, or for what was awaited
      return failure_;
    }
    case session::StallDetector::Verdict::kWarn: {
      const Duration waited = stall_.waited(now), median = stall_.median();
      lock.unlock();
      warn(awaited, waited, median);
      lock.lock();
      return {};
    }
  }
  return {};
}

void Gatehouse::warn(const std::string& awaited, Duration waited, Duration median) {
  const auto say = [this, awaited, waited, median](const std::string& late) {
    if (const Lock locked = lock(); !failure_.ok()) return;
    log::warn("worker {} has been waiting {} for {}{}; an iteration takes {}. It gives up after {} (stall-deadline)", worker_.value,
              to_text(waited), awaited, late, to_text(median), to_text(options_.stall_deadline));
  };
  if (!options_.ask_reached) return say("");
  loop_.post([this, say] { ask_who_is_late(kAnswersLimitOfWarning, say); });
}

// Locked. Whom the others name comes first: a carrier knows only of whom it hears.
bool Gatehouse::find_out(const std::string& awaited, Duration waited) {
  if (!options_.ask_reached) return blames_ && blames_(awaited, waited);
  loop_.post([this, awaited, waited] {
    ask_who_is_late(kAnswersLimit, [this, awaited, waited](const std::string& late) {
      {
        const Lock locked = lock();
        blaming_ = still_stalled();
        if (!blaming_ || (late.empty() && blames_ && blames_(awaited, waited))) return;
      }
      fail(stalled(awaited + late, waited));
    });
  });
  return true;
}

// Locked. What was awaited may have come while others were asked.
bool Gatehouse::still_stalled() const {
  return (waiting_ > 0 || cut_short_) && stall_.waited(loop_.now()) >= options_.stall_deadline;
}

Iteration Gatehouse::reached() {
  const Lock locked = lock();
  return last_done_ ? kNoMore : gates_.current();
}

void Gatehouse::ask_who_is_late(Duration limit, Then then) {
  if (question_) return question_->then.push_back(std::move(then));
  Lock locked = lock();
  const Iteration current = gates_.current();
  locked.unlock();
  question_ = {.asked_in = current, .then = {std::move(then)}, .due = loop_.run_after(limit, [this] { answer(); })};
  options_.ask_reached();
}

void Gatehouse::on_reached(Rank worker, Iteration iteration) {
  if (!question_) return;
  question_->reached[worker] = iteration;
  if (question_->reached.size() < static_cast<std::size_t>(plan_->options().workers)) return;
  loop_.cancel(question_->due);
  answer();
}

void Gatehouse::answer() {
  const Question asked = *std::exchange(question_, std::nullopt);
  const std::string late = who_is_late(worker_, asked.asked_in, plan_->options(), asked.reached);
  for (const Then& then : asked.then) then(late);
}

Status Gatehouse::stalled(const std::string& awaited, Duration waited) const {
  return error(ErrorKind::kDeadline, "worker {} waited {} ms for {}; --stall-deadline is {}", worker_.value,
               std::chrono::duration_cast<std::chrono::milliseconds>(waited).count(), awaited, to_text(options_.stall_deadline))
      .because({"stall", ""});
}

void Gatehouse::cancel(const Status& reason) {
  PACELINE_CHECK(!reason.ok(), "cancelled without a reason");
  {
    const std::lock_guard lock(mutex_);
    if (failure_.ok()) failure_ = reason;
  }
  changed_.notify_all();
}

void Gatehouse::fail_alike(const Status& reason) {
  if (!options_.on_failed) return cancel(reason);
  if (!std::exchange(reported_, true)) options_.on_failed(reason);
}

void Gatehouse::fail(const Status& reason) {
  cancel(reason);
  if (!std::exchange(reported_, true) && options_.on_failed) options_.on_failed(reason);
}

}  // namespace paceline::exchange

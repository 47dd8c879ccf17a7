#include "exchange/gatehouse.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/text.h"

namespace paceline::exchange {
namespace {

constexpr Duration kLongestLimit = std::chrono::hours(24 * 365);  // a longer one is none

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
      if (!blaming_) blaming_ = blames_ && blames_(awaited, waited);
      if (!blaming_) return stalled(awaited, waited);
      changed_.wait_until(lock, until, [&] { return !failure_.ok(); });
      return failure_;
    }
    case session::StallDetector::Verdict::kWarn: {
      const Duration waited = stall_.waited(now), median = stall_.median();
      lock.unlock();
      log::warn("worker {} has been waiting {} for {}; an iteration takes {}. It gives up after {} (--stall-deadline)",
                worker_.value, to_text(waited), awaited, to_text(median), to_text(options_.stall_deadline));
      lock.lock();
      return {};
    }
  }
  return {};
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

void Gatehouse::fail(const Status& reason) {
  cancel(reason);
  if (!std::exchange(reported_, true) && options_.on_failed) options_.on_failed(reason);
}

}  // namespace paceline::exchange

#include "exchange/account.h"

#include <algorithm>
#include <utility>

namespace paceline::exchange {

Account& Account::operator+=(const Account& other) {
  push += other.push;
  pull += other.pull;
  wait += other.wait;
  update += other.update;
  overlapped_push += other.overlapped_push;
  overlapped_pull += other.overlapped_pull;
  bytes_pushed += other.bytes_pushed;
  bytes_pulled += other.bytes_pulled;
  return *this;
}

// The stations are clamped one by the one before: an acknowledgement that is later than the value says no more than that the
// gradient had been received. Where nothing came back the update was the last of it.
void UnitTimes::split(TimePoint entered, TimePoint opened, Account& account) const {
  const TimePoint pull_from = returning.value_or(opened);
  const TimePoint push_end = std::clamp(delivered.value_or(pull_from), entered, opened);
  const TimePoint pull_begin = std::clamp(pull_from, push_end, opened);
  const Duration between = pull_begin - push_end;
  Duration update = std::min(updating, between);
  if (updated) update = returning ? std::clamp(*updated, push_end, pull_begin) - push_end : between;
  account.push += push_end - entered;
  account.update += update;
  account.wait += between - update;
  account.pull += opened - pull_begin;
}

void BusyTime::begin(TimePoint now) {
  if (running_++ == 0) since_ = now;
}

void BusyTime::end(TimePoint now) {
  if (--running_ == 0) ended_.push_back({since_, now});
}

void BusyTime::exclude(TimePoint from, TimePoint to) {
  const auto outside = [&](const Interval& busy) {
    const Duration inside = std::min(busy.to, to) - std::max(busy.from, from);
    return busy.to - busy.from - std::max(inside, Duration{});
  };
  for (const Interval& busy : ended_) total_ += outside(busy);
  ended_.clear();
  if (running_ > 0 && since_ < to) total_ += outside({std::exchange(since_, to), to});
}

Duration BusyTime::take(TimePoint now) {
  for (const Interval& busy : ended_) total_ += busy.to - busy.from;
  ended_.clear();
  if (running_ > 0) total_ += now - std::exchange(since_, now);
  return std::exchange(total_, Duration{});
}

AccountBook::AccountBook(const GateLedger& gates) : gates_(gates), units_(gates.plan().units().units.size()) {}

void AccountBook::on_event(const wire::Event& event) {
  using wire::Happening;
  const TimePoint now = event.ended();
  switch (event.what) {
    case Happening::kPushing:
      units_[event.unit] = {.complete = units_[event.unit].complete};
      account_.bytes_pushed += event.bytes;
      return pushes_.begin(now);
    case Happening::kPushed:
      units_[event.unit].delivered = now;
      return pushes_.end(now);
    case Happening::kStepped:
      units_[event.unit].updated = now;
      return;
    case Happening::kPulling:
      if (counts(event)) pulls_.begin(now);
      return;
    case Happening::kReturning:
      units_[event.unit].returning = now;
      return;
    case Happening::kPulled:
      if (!counts(event)) return;
      account_.bytes_pulled += event.bytes;
      return pulls_.end(now);
    case Happening::kComplete:
      units_[event.unit].updating = std::chrono::microseconds(event.detail);
      units_[event.unit].complete = now;
      return;
    case Happening::kGate:
      return on_waited(Layer{static_cast<std::int32_t>(event.unit)}, event.iteration, event.began(), now);
    case Happening::kWaitValues:
      return on_waited(std::nullopt, event.iteration, event.began(), now);
    default:
      return;
  }
}

void AccountBook::count_bytes(std::int64_t pushed, std::int64_t pulled) {
  account_.bytes_pushed += pushed;
  account_.bytes_pulled += pulled;
}

// The first iteration is computed with the initial values.
void AccountBook::on_waited(std::optional<Layer> layer, Iteration iteration, TimePoint entered, TimePoint opened) {
  if (opened <= entered) return;
  pushes_.exclude(entered, opened);
  pulls_.exclude(entered, opened);
  if (iteration <= gates_.plan().options().first) return;
  const scheduling::UnitRange units = gates_.awaited(layer);
  const UnitTimes* last = nullptr;
  for (std::uint32_t unit = units.begin; unit < units.end; ++unit) {
    if (last == nullptr || units_[unit].complete > last->complete) last = &units_[unit];
  }
  if (last != nullptr) last->split(entered, opened, account_);
}

TimePoint AccountBook::opened_at(Layer layer) const {
  const scheduling::UnitRange units = gates_.awaited(layer);
  TimePoint last{};
  for (std::uint32_t unit = units.begin; unit < units.end; ++unit) last = std::max(last, units_[unit].complete);
  return last;
}

Account AccountBook::take(TimePoint now) {
  account_.overlapped_push = pushes_.take(now);
  account_.overlapped_pull = pulls_.take(now);
  return std::exchange(account_, Account{});
}

}  // namespace paceline::exchange

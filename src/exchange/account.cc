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

}  // namespace paceline::exchange

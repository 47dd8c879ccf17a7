#include "session/stall.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace paceline::session {
namespace {

constexpr int kSlower = 10;
constexpr Duration kLeastWarning = std::chrono::seconds(1);

}  // namespace

StallDetector::StallDetector(TimePoint start, Duration limit) : last_(start), waiting_since_(start), limit_(limit) {
  PACELINE_CHECK(limit > Duration::zero(), "a stall limit of {} ns", limit.count());
  recent_.reserve(kRemembered);
}

void StallDetector::on_progress(TimePoint now) {
  const Duration took = now - last_;
  last_ = waiting_since_ = now;
  warned_ = false;
  if (recent_.size() < kRemembered) {
    recent_.push_back(took);
  } else {
    recent_[next_] = took;
    next_ = (next_ + 1) % kRemembered;
  }
  std::array<Duration, kRemembered> sorted;
  const auto end = std::copy(recent_.begin(), recent_.end(), sorted.begin());
  const auto middle = sorted.begin() + (end - sorted.begin() - 1) / 2;
  std::nth_element(sorted.begin(), middle, end);
  median_ = *middle;
}

Duration StallDetector::median() const { return median_; }

Duration StallDetector::warn_after() const {
  if (recent_.empty()) return limit_;
  return std::min(limit_, std::max(kLeastWarning, median_ * kSlower));
}

StallDetector::Verdict StallDetector::check(TimePoint now) {
  if (waited(now) >= limit_) return Verdict::kFail;
  if (warned_ || waited(now) < warn_after()) return Verdict::kFine;
  warned_ = true;
  return Verdict::kWarn;
}

TimePoint StallDetector::next_due() const { return waiting_since_ + (warned_ ? limit_ : warn_after()); }

}  // namespace paceline::session

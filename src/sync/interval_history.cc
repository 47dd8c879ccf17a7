#include "sync/interval_history.h"

#include <algorithm>
#include <vector>

#include "base/check.h"

namespace paceline::sync {

IntervalHistory::IntervalHistory(std::size_t length) : length_(length) { PACELINE_CHECK(length >= 1, "a history of no intervals"); }

void IntervalHistory::add(Duration interval) {
  intervals_.push_back(interval);
  if (intervals_.size() > length_) intervals_.pop_front();
}

Duration IntervalHistory::typical() const {
  PACELINE_CHECK(!intervals_.empty(), "no interval has been seen");
  std::vector<Duration> sorted(intervals_.begin(), intervals_.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>((sorted.size() - 1) / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

}  // namespace paceline::sync

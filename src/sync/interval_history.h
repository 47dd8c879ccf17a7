// A worker's recent iteration intervals and the one that stands for them. A value.
#pragma once

#include <cstddef>
#include <deque>

#include "base/quantity.h"

namespace paceline::sync {

class IntervalHistory {
 public:
  // Remembers the last `length` intervals, at least 1. Length 1 predicts from the most recent one, as the paper does; more shrug
  // off a single slow iteration.
  explicit IntervalHistory(std::size_t length);

  void add(Duration interval);
  bool empty() const { return intervals_.empty(); }
  std::size_t size() const { return intervals_.size(); }

  // The median of what is remembered, of an even number the lower middle one. Requires: not empty. O(length).
  Duration typical() const;

 private:
  std::size_t length_;
  std::deque<Duration> intervals_;
};

}  // namespace paceline::sync

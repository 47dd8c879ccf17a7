// The newest events of one thread, in memory that is there before the first: adding one allocates nothing and takes no lock.
// One thread at a time.
#pragma once

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "wire/timeline.h"

namespace paceline::timeline {

class EventRing {
 public:
  // At least 1.
  explicit EventRing(std::size_t capacity) : events_(capacity) { PACELINE_CHECK(capacity > 0, "a ring without room"); }

  // Overwrites the oldest when there is no room.
  void add(const wire::Event& event) {
    events_[next_] = event;
    if (++next_ == events_.size()) next_ = 0;
    ++added_;
  }

  std::uint64_t added() const { return added_; }
  // How many were overwritten.
  std::uint64_t dropped() const { return added_ - std::min<std::uint64_t>(added_, events_.size()); }

  // What is there, the oldest first.
  std::vector<wire::Event> events() const {
    std::vector<wire::Event> in_order;
    in_order.reserve(static_cast<std::size_t>(added_ - dropped()));
    const auto seam = events_.begin() + static_cast<std::ptrdiff_t>(next_);
    if (added_ >= events_.size()) in_order.assign(seam, events_.end());
    in_order.insert(in_order.end(), events_.begin(), seam);
    return in_order;
  }

 private:
  std::vector<wire::Event> events_;
  std::size_t next_ = 0;
  std::uint64_t added_ = 0;
};

}  // namespace paceline::timeline

// The timers of one loop: which work is due when. Pure; one thread.
//
// Due at the same time: in the order of asking. Adding and cancelling cost O(log n) and allocate nothing once warm (beyond what the
// caller's function itself needs).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/quantity.h"

namespace paceline::transport {

class TimerQueue {
 public:
  // The id is never 0 and never that of an earlier timer.
  std::uint64_t add(TimePoint due, std::function<void()> work);
  // Unknown, cancelled and finished ids are ignored. Returns the work so that the caller decides where it is destroyed.
  std::function<void()> cancel(std::uint64_t id);
  // The moment at which the earliest timer is due; nothing when there is none.
  std::optional<TimePoint> next_due();
  // Takes out the earliest timer due at `now` or before; an empty function when there is none.
  std::function<void()> take_due(TimePoint now);

 private:
  struct Slot {
    std::uint32_t generation = 1;
    std::function<void()> work;
  };
  struct Entry {
    TimePoint due;
    std::uint64_t order;  // of asking
    std::uint64_t id;     // generation and slot
  };
  static bool later(const Entry& a, const Entry& b);
  bool live(const Entry& entry) const;
  std::function<void()> release(std::uint64_t id);
  void drop_dead();

  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::vector<Entry> heap_;  // earliest on top; cancelled entries stay until they surface or are too many
  std::uint64_t asked_ = 0;
  std::size_t dead_ = 0;  // cancelled entries in heap_
};

}  // namespace paceline::transport

// All ends of a table in the order (time, worker, iteration), a stretch of time at a go, so that memory stays O(workers).
#pragma once

#include <cstdint>
#include <vector>

#include "sync/end_times.h"

namespace paceline::sync {

struct EndEvent {
  double time = 0;
  std::uint32_t worker = 0;
  std::int64_t iteration = 0;
};

// A stretch ends with the first row that has had some events in it, so that no row has many. Rows that take part are found by
// looking at all of them while most do, and through a heap while few do: O(log workers) an event at worst, nearly constant where
// rows are mixed, since a stretch is sorted by dividing its time evenly. `ends` outlives it.
class EventOrder {
 public:
  explicit EventOrder(const EndTimes& ends);

  // The next stretch, in order; empty when there is nothing left. Valid until the next call.
  const std::vector<EndEvent>& next_stretch();

 private:
  EndEvent run_end(const EndEvent& head) const;
  // Both return the last event of the stretch and fill reached_.
  EndEvent reach_through_all();
  EndEvent reach_through_heap();
  void gather(const EndEvent& last);
  void sort();
  void sink(std::size_t node);

  const EndTimes& ends_;
  std::vector<EndEvent> heads_;       // the next event of every row
  bool heaped_ = false;               // and they stand as a heap, the earliest first
  std::vector<std::size_t> reached_;  // those that are in this stretch, and maybe some that are not; ascending
  std::vector<EndEvent> gathered_, sorted_;
  std::vector<std::uint32_t> places_;
};

}  // namespace paceline::sync

// When each worker will end its next iterations: the input of a barrier prediction. Either a table of times, or predicted from each
// worker's last end and interval, in which case nothing is stored per event. A value; safe to read from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"

namespace paceline::sync {

// Times are seconds on any clock that all workers share.
class EndTimes {
 public:
  // rows[p] are the ends of worker p's next iterations. Not empty, no row empty, each row ascending (equal times are legal),
  // finite, magnitude at most kLatestTime. Otherwise kBadRequest that names worker and iteration.
  static Result<EndTimes> from_rows(std::vector<std::vector<double>> rows);

  // Worker p's iteration i = 1..lookahead ends at last_end[p] + i * interval[p]. As many intervals as last ends, at least one;
  // intervals not negative; lookahead at least 1; at most kMostEvents events.
  static Result<EndTimes> predicted(std::vector<double> last_end, std::vector<double> interval, std::int64_t lookahead);

  std::size_t workers() const { return rows_.empty() ? last_end_.size() : rows_.size(); }
  std::int64_t count(std::size_t worker) const {
    return rows_.empty() ? lookahead_ : static_cast<std::int64_t>(rows_[worker].size());
  }

  // The end of `worker`'s iteration-th next iteration, 1..count(worker). O(1).
  double at(std::size_t worker, std::int64_t iteration) const {
    if (rows_.empty()) return last_end_[worker] + static_cast<double>(iteration) * interval_[worker];
    return rows_[worker][static_cast<std::size_t>(iteration - 1)];
  }

  // The moment of the prediction when the caller names none: the latest last end; 0 for a table.
  double default_now() const;
  // The earliest time at which every worker has ended an iteration: no barrier can lie before it.
  double first_barrier() const;

 private:
  std::vector<std::vector<double>> rows_;  // empty when predicted
  std::vector<double> last_end_;
  std::vector<double> interval_;
  std::int64_t lookahead_ = 0;
};

inline constexpr double kLatestTime = 1e300;                // so that sums over workers stay finite
inline constexpr std::int64_t kMostEvents = 1'000'000'000;  // a sweep takes about a minute

}  // namespace paceline::sync

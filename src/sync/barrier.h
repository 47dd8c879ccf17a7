// A barrier: one future iteration end per worker, and what waiting there costs. Four ways to choose it.
//
// All four take the same two objectives: kSpan minimises latest - earliest end, kWaitingShare minimises
// sum(latest - end) / (workers * (latest - now)). They differ in which sets of ends they look at:
//
//   zip_line        all ends in time order; the latest end of each worker so far is a set      O(events * log workers)
//   grid_scan       each end of the row that begins first, with the nearest of the other rows  O(lookahead * workers + events)
//   full_grid_scan  grid_scan with every row in turn                                           workers times that
//   every_set       all sets; for tests and small questions                                    O(workers * lookahead ^ workers)
//
// zip_line and every_set reach the least value of either objective; the grid scans need not (ElasticBSP, section IV).
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "sync/end_times.h"
#include "sync/sync_options.h"

namespace paceline::sync {

struct Barrier {
  std::vector<std::int64_t> iterations;  // per worker, from 1
  double span = 0;                       // latest - earliest of the chosen ends
  double time = 0;                       // the latest
  std::vector<double> waiting;           // per worker: time - its end
  double waiting_share = 0;              // 0 when time == now
};

// What a choice of iterations, one per worker and within its row, amounts to.
Barrier barrier_at(const EndTimes& ends, std::vector<std::int64_t> iterations, double now);

// Requires for all: now <= ends.first_barrier(), which callers check; a barrier in the past has no waiting share.

// ZipLine: sweeps the events in the order (time, worker, iteration), keeps a set only when it is strictly better. Memory
// O(workers).
Barrier zip_line(const EndTimes& ends, Objective objective, double now);

// GridScan: of equally near ends the earlier; of equally good sets the first found. The designated row is the lowest worker on
// ties.
Barrier grid_scan(const EndTimes& ends, Objective objective, double now);
Barrier full_grid_scan(const EndTimes& ends, Objective objective, double now);

// The best of all sets; then the earliest barrier; then each worker's latest end not after it. kBadRequest for more than
// kMostSets sets.
inline constexpr std::int64_t kMostSets = 10'000'000;
Result<Barrier> every_set(const EndTimes& ends, Objective objective, double now);

}  // namespace paceline::sync

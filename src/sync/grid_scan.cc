#include <algorithm>
#include <cmath>
#include <optional>

#include "sync/barrier.h"
#include "sync/barrier_score.h"

namespace paceline::sync {
namespace {

struct Best {
  std::optional<Score> score;
  std::vector<std::int64_t> iterations;
};

// The end of `worker` nearest to `time`, the earlier one on ties. `cursor` is a place at or before the first end that is not
// earlier than `time`, and is moved there: over ascending times the scan of a row costs its length once.
std::int64_t nearest_end(const EndTimes& ends, std::size_t worker, double time, std::int64_t& cursor) {
  const std::int64_t count = ends.count(worker);
  while (cursor <= count && ends.at(worker, cursor) < time) ++cursor;
  if (cursor == 1) return 1;
  const double distance = time - ends.at(worker, cursor - 1);
  if (cursor <= count && ends.at(worker, cursor) - time < distance) return cursor;
  // The first of those at the same time; distances shrink up to there.
  std::int64_t first = 1, last = cursor - 1;
  while (first < last) {
    const std::int64_t middle = first + (last - first) / 2;
    if (time - ends.at(worker, middle) == distance)
      last = middle;
    else
      first = middle + 1;
  }
  return first;
}

void scan_row(const EndTimes& ends, const Scorer& scorer, std::size_t designated, Best& best) {
  std::vector<std::int64_t> cursors(ends.workers(), 1);
  std::vector<std::int64_t> iterations(ends.workers());
  for (std::int64_t i = 1; i <= ends.count(designated); ++i) {
    const double time = ends.at(designated, i);
    double earliest = time;
    double latest = time;
    TwoDoubles sum;
    for (std::size_t p = 0; p < ends.workers(); ++p) {
      iterations[p] = p == designated ? i : nearest_end(ends, p, time, cursors[p]);
      const double end = ends.at(p, iterations[p]);
      earliest = std::min(earliest, end);
      latest = std::max(latest, end);
      sum = sum + scorer.scaled(end);
    }
    const Score score = scorer.score(earliest, latest, sum);
    if (best.score && !better(score, *best.score)) continue;
    best.score = score;
    best.iterations = iterations;
  }
}

}  // namespace

Barrier grid_scan(const EndTimes& ends, Objective objective, double now) {
  std::size_t designated = 0;
  for (std::size_t p = 1; p < ends.workers(); ++p) {
    if (ends.at(p, 1) < ends.at(designated, 1)) designated = p;
  }
  Best best;
  scan_row(ends, Scorer(ends, objective, now), designated, best);
  return barrier_at(ends, std::move(best.iterations), now);
}

Barrier full_grid_scan(const EndTimes& ends, Objective objective, double now) {
  Best best;
  const Scorer scorer(ends, objective, now);
  for (std::size_t p = 0; p < ends.workers(); ++p) scan_row(ends, scorer, p, best);
  return barrier_at(ends, std::move(best.iterations), now);
}

}  // namespace paceline::sync

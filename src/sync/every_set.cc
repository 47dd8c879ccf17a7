#include <algorithm>
#include <optional>

#include "sync/barrier.h"
#include "sync/barrier_score.h"

namespace paceline::sync {
namespace {

Status check_sets(const EndTimes& ends) {
  double sets = 1;
  for (std::size_t p = 0; p < ends.workers(); ++p) sets *= static_cast<double>(ends.count(p));
  if (sets <= static_cast<double>(kMostSets)) return {};
  return error(ErrorKind::kBadRequest,
               "naive would try all {:.3g} sets of ends, more than {}; use zipline, which finds the same value", sets, kMostSets);
}

// Steps to the next set like an odometer; false after the last.
bool next_set(const EndTimes& ends, std::vector<std::int64_t>& iterations) {
  for (std::size_t p = 0; p < iterations.size(); ++p) {
    if (++iterations[p] <= ends.count(p)) return true;
    iterations[p] = 1;
  }
  return false;
}

}  // namespace

Result<Barrier> every_set(const EndTimes& ends, Objective objective, double now) {
  PACELINE_RETURN_IF_ERROR(check_sets(ends));
  const Scorer scorer(ends, objective, now);
  std::vector<std::int64_t> iterations(ends.workers(), 1);
  std::optional<Score> best;
  double best_time = 0;
  do {
    double earliest = ends.at(0, iterations[0]);
    double latest = earliest;
    TwoDoubles sum;
    for (std::size_t p = 0; p < ends.workers(); ++p) {
      const double end = ends.at(p, iterations[p]);
      earliest = std::min(earliest, end);
      latest = std::max(latest, end);
      sum = sum + scorer.scaled(end);
    }
    const Score score = scorer.score(earliest, latest, sum);
    if (best && !better(score, *best) && (better(*best, score) || latest >= best_time)) continue;
    best = score;
    best_time = latest;
  } while (next_set(ends, iterations));

  for (std::size_t p = 0; p < ends.workers(); ++p) {
    iterations[p] = ends.count(p);
    while (ends.at(p, iterations[p]) > best_time) --iterations[p];
  }
  return barrier_at(ends, std::move(iterations), now);
}

}  // namespace paceline::sync

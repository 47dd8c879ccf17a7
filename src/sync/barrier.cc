#include "sync/barrier.h"

#include <algorithm>

namespace paceline::sync {

Barrier barrier_at(const EndTimes& ends, std::vector<std::int64_t> iterations, double now) {
  Barrier barrier;
  double earliest = ends.at(0, iterations[0]);
  barrier.time = earliest;
  for (std::size_t p = 1; p < iterations.size(); ++p) {
    const double end = ends.at(p, iterations[p]);
    earliest = std::min(earliest, end);
    barrier.time = std::max(barrier.time, end);
  }
  barrier.span = barrier.time - earliest;
  double waiting = 0;
  for (std::size_t p = 0; p < iterations.size(); ++p) {
    barrier.waiting.push_back(barrier.time - ends.at(p, iterations[p]));
    waiting += barrier.waiting.back();
  }
  if (barrier.time > now) barrier.waiting_share = waiting / (static_cast<double>(iterations.size()) * (barrier.time - now));
  barrier.iterations = std::move(iterations);
  return barrier;
}

}  // namespace paceline::sync

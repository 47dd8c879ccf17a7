// ZipLine in O(events * log workers): the workers' ends come in order, and the workers stand in a list ordered by their latest
// event, so that the head of the list is the earliest end of the current set and the newest event is the latest.
#include <algorithm>
#include <optional>
#include <utility>

#include "sync/barrier.h"
#include "sync/barrier_score.h"
#include "sync/event_order.h"

namespace paceline::sync {
namespace {

// Workers that have had an event, by the time of their latest one.
class ArrivalList {
 public:
  explicit ArrivalList(std::size_t workers)
      : next_(workers + 1), previous_(workers + 1), end_(static_cast<std::uint32_t>(workers)) {
    next_[end_] = previous_[end_] = end_;
  }
  std::uint32_t head() const { return next_[end_]; }
  void remove(std::uint32_t worker) {
    next_[previous_[worker]] = next_[worker];
    previous_[next_[worker]] = previous_[worker];
  }
  void append(std::uint32_t worker) {
    const std::uint32_t last = previous_[end_];
    next_[last] = worker;
    previous_[worker] = last;
    next_[worker] = end_;
    previous_[end_] = worker;
  }

 private:
  std::vector<std::uint32_t> next_;
  std::vector<std::uint32_t> previous_;
  std::uint32_t end_;
};

struct Position {
  std::uint32_t worker = 0;
  std::int64_t iteration = 0;
};

// How many of `worker`'s events come no later than `last` in the order (time, worker, iteration).
std::int64_t events_until(const EndTimes& ends, std::uint32_t worker, Position last) {
  if (worker == last.worker) return last.iteration;
  const double time = ends.at(last.worker, last.iteration);
  std::int64_t low = 0;
  std::int64_t high = ends.count(worker);
  while (low < high) {
    const std::int64_t middle = low + (high - low + 1) / 2;
    const double end = ends.at(worker, middle);
    const bool not_later = end < time || (end == time && worker < last.worker);
    (not_later ? low : high) = not_later ? middle : middle - 1;
  }
  return low;
}

}  // namespace

Barrier zip_line(const EndTimes& ends, Objective objective, double now) {
  const std::size_t workers = ends.workers();
  const Scorer scorer(ends, objective, now);
  ArrivalList arrivals(workers);
  std::vector<double> latest(workers);
  std::vector<bool> seen(workers, false);
  std::size_t complete = 0;
  TwoDoubles sum;
  std::optional<Score> best;
  Position best_event;

  EventOrder order(ends);
  for (auto* stretch = &order.next_stretch(); !stretch->empty(); stretch = &order.next_stretch()) {
    for (const auto& [end, worker, iteration] : *stretch) {
      if (seen[worker]) {
        arrivals.remove(worker);
        if (objective == Objective::kWaitingShare) sum = sum + -scorer.scaled(latest[worker]);
      } else {
        seen[worker] = true;
        ++complete;
      }
      latest[worker] = end;
      arrivals.append(worker);
      if (objective == Objective::kWaitingShare) sum = sum + scorer.scaled(end);
      if (complete < workers) continue;
      const Score score = scorer.score(latest[arrivals.head()], end, sum);
      if (best && !better(score, *best)) continue;
      best = score;
      best_event = {worker, iteration};
    }
  }

  std::vector<std::int64_t> iterations(workers);
  for (std::size_t p = 0; p < workers; ++p) iterations[p] = events_until(ends, static_cast<std::uint32_t>(p), best_event);
  return barrier_at(ends, std::move(iterations), now);
}

}  // namespace paceline::sync

// ZipLine in O(events * log workers): a tournament merges the workers' rows, and the workers stand in a list ordered by their
// latest event, so that the head of the list is the earliest end of the current set and the newest event is the latest.
#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "sync/barrier.h"
#include "sync/barrier_score.h"

namespace paceline::sync {
namespace {

// A time as an integer of the same order, so that the tournament compares without branches on floating point.
std::uint64_t ordered(double time) {
  const auto bits = std::bit_cast<std::uint64_t>(time + 0.0);  // -0.0 becomes 0.0
  return (bits >> 63) != 0 ? ~bits : bits | (std::uint64_t{1} << 63);
}

// The next end of a row. One wide number, so that a match in the tournament is one comparison and the loser is chosen without a
// branch.
__extension__ using Event = unsigned __int128;

constexpr std::uint64_t kRunOut = ~std::uint64_t{0};  // after every time

Event event_at(std::uint64_t order, std::uint32_t worker) { return (Event{order} << 64) | worker; }
std::uint64_t order_of(Event event) { return static_cast<std::uint64_t>(event >> 64); }
std::uint32_t worker_of(Event event) { return static_cast<std::uint32_t>(event); }

// Merges the rows in the order (time, worker, iteration). A loser tree: inner node k holds the loser of the match played there.
class Merge {
 public:
  explicit Merge(const EndTimes& ends)
      : ends_(ends), leaves_(std::bit_ceil(ends.workers())), losers_(leaves_), next_(ends.workers(), 1) {
    std::vector<Event> winners(2 * leaves_, event_at(kRunOut, 0));
    for (std::size_t p = 0; p < ends.workers(); ++p)
      winners[leaves_ + p] = event_at(ordered(ends.at(p, 1)), static_cast<std::uint32_t>(p));
    for (std::size_t node = leaves_ - 1; node >= 1; --node) {
      winners[node] = std::min(winners[2 * node], winners[2 * node + 1]);
      losers_[node] = std::max(winners[2 * node], winners[2 * node + 1]);
    }
    first_ = winners[1];
  }

  bool done() const { return order_of(first_) == kRunOut; }
  std::uint32_t worker() const { return worker_of(first_); }
  std::int64_t iteration() const { return next_[worker()]; }

  void pop() {
    const std::uint32_t worker = worker_of(first_);
    const std::int64_t iteration = ++next_[worker];
    Event rising = event_at(iteration <= ends_.count(worker) ? ordered(ends_.at(worker, iteration)) : kRunOut, worker);
    first_ = play_up((leaves_ + worker) / 2, rising);
  }

 private:
  // The winner of the matches on the way from `node` to the root; each loser stays where it lost.
  Event play_up(std::size_t node, Event rising) {
    Event* const losers = losers_.data();
    for (; node >= 1; node /= 2) {
      const Event resident = losers[node];
      losers[node] = std::max(resident, rising);
      rising = std::min(resident, rising);
    }
    return rising;
  }

  const EndTimes& ends_;
  std::size_t leaves_;
  std::vector<Event> losers_;
  std::vector<std::int64_t> next_;  // iteration of each worker's event in the tree
  Event first_ = 0;
};

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

  for (Merge merge(ends); !merge.done(); merge.pop()) {
    const std::uint32_t worker = merge.worker();
    const double end = ends.at(worker, merge.iteration());
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
    best_event = {worker, merge.iteration()};
  }

  std::vector<std::int64_t> iterations(workers);
  for (std::size_t p = 0; p < workers; ++p) iterations[p] = events_until(ends, static_cast<std::uint32_t>(p), best_event);
  return barrier_at(ends, std::move(iterations), now);
}

}  // namespace paceline::sync

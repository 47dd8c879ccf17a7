// ZipLine in O(events * log workers): a tournament merges the workers' rows, and the workers stand in a list ordered by their latest
// event, so that the head of the list is the earliest end of the current set and the newest event is the latest.
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

struct Event {
  std::uint64_t order = ~std::uint64_t{0};  // of a row that has run out: after every time
  std::uint32_t worker = ~std::uint32_t{0};
};

bool before(const Event& a, const Event& b) { return a.order < b.order || (a.order == b.order && a.worker < b.worker); }

// Merges the rows in the order (time, worker, iteration). A loser tree: inner node k holds the loser of the match played there.
class Merge {
 public:
  explicit Merge(const EndTimes& ends) : ends_(ends), leaves_(std::bit_ceil(ends.workers())), losers_(leaves_), next_(ends.workers(), 1) {
    std::vector<Event> winners(2 * leaves_);
    for (std::size_t p = 0; p < ends.workers(); ++p) winners[leaves_ + p] = {ordered(ends.at(p, 1)), static_cast<std::uint32_t>(p)};
    for (std::size_t node = leaves_ - 1; node >= 1; --node) {
      const Event& left = winners[2 * node];
      const Event& right = winners[2 * node + 1];
      const bool left_wins = before(left, right);
      winners[node] = left_wins ? left : right;
      losers_[node] = left_wins ? right : left;
    }
    first_ = winners[1];
  }

  bool done() const { return first_.order == ~std::uint64_t{0}; }
  std::uint32_t worker() const { return first_.worker; }
  std::int64_t iteration() const { return next_[first_.worker]; }

  void pop() {
    const std::uint32_t worker = first_.worker;
    Event rising{~std::uint64_t{0}, worker};
    if (++next_[worker] <= ends_.count(worker)) rising.order = ordered(ends_.at(worker, next_[worker]));
    for (std::size_t node = (leaves_ + worker) / 2; node >= 1; node /= 2) {
      Event& loser = losers_[node];
      const bool swap = before(loser, rising);
      const Event winner = swap ? loser : rising;
      loser = swap ? rising : loser;
      rising = winner;
    }
    first_ = rising;
  }

 private:
  const EndTimes& ends_;
  std::size_t leaves_;
  std::vector<Event> losers_;
  std::vector<std::int64_t> next_;  // iteration of each worker's event in the tree
  Event first_;
};

// Workers that have had an event, by the time of their latest one.
class ArrivalList {
 public:
  explicit ArrivalList(std::size_t workers) : next_(workers + 1), previous_(workers + 1), end_(static_cast<std::uint32_t>(workers)) {
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

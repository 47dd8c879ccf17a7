// Algorithms 1 and 2 of iBatch, with the cases that the paper leaves open decided (docs/algorithms.md, section 2). Where the paper
// searches all pairs of layers, the sums' monotony finds the same pair sooner: times are not negative.
#include <tuple>

#include "scheduling/batching.h"
#include "scheduling/batching_sums.h"

namespace paceline::scheduling {
namespace {

struct Pair {
  int first;
  int second;
};

// The smallest x in [low, high] whose predicate holds, given that it holds for all larger ones too; high + 1 when it holds for
// none.
template <typename Predicate>
int first_that(int low, int high, Predicate holds) {
  int end = high + 1;
  while (low < end) {
    const int middle = low + (end - low) / 2;
    if (holds(middle)) {
      end = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// The first bound after `closed` whose transfer hides `to_hide`, which is also the one with the least slack; L + 1 when there is
// none.
int first_that_hides(const BatchingSums& sums, int closed, Exact to_hide) {
  return first_that(closed + 1, sums.layers(),
                    [&](int last) { return sums.start_up() + sums.transfer(closed + 1, last) >= to_hide; });
}

// Step 1 of Algorithm 1: (l1, l2), or nothing.
std::optional<Pair> first_two_batches(const BatchingSums& sums) {
  const int layers = sums.layers();
  // The most computation to hide: the longest first batch that any second one can cover. Shorter ones with as much computation
  // (layers without any) compete by their transfer, then by the slack.
  std::optional<Pair> best;
  Exact most;
  using Order = std::tuple<Exact, Exact, int, int>;
  Order least;
  for (int l1 = layers - 1; l1 >= 1; --l1) {
    const Exact hidden = sums.compute(1, l1);
    if (best && hidden < most) break;
    const int l2 = first_that_hides(sums, l1, hidden);
    if (l2 > layers) continue;
    const Exact slack = sums.start_up() + sums.transfer(l1 + 1, l2) - hidden;
    const Order order{sums.start_up() + sums.transfer(1, l1), slack, l1, l2};
    if (!best || order < least) {
      best = Pair{l1, l2};
      most = hidden;
      least = order;
    }
  }
  return best;
}

// The smallest first bound a < b such that computing a+1..b hides behind `cover`: the most computation, the least slack. b when
// none.
int longest_hidden(const BatchingSums& sums, int b, Exact cover) {
  return first_that(0, b - 1, [&](int a) { return cover >= sums.compute(a + 1, b); });
}

// Step 1 of Algorithm 2: (l_{N-2}, l_{N-1}), or nothing.
std::optional<Pair> last_two_batches(const BatchingSums& sums) {
  const int layers = sums.layers();
  std::optional<Pair> best;
  Exact most;
  Exact least_exposed;
  for (int b = 1; b <= layers - 1; ++b) {
    const int a = longest_hidden(sums, b, sums.start_up() + sums.transfer(b + 1, layers));
    if (a == b) continue;
    const Exact hidden = sums.compute(a + 1, b);
    const Exact exposed = sums.compute(b + 1, layers);
    // Going up in b, so an equal pair found later never replaces an earlier, smaller one.
    if (!best || hidden > most || (hidden == most && exposed < least_exposed)) {
      best = Pair{a, b};
      most = hidden;
      least_exposed = exposed;
    }
  }
  return best;
}

}  // namespace

Bounds forward_greedy(const BatchingProblem& problem) {
  const BatchingSums sums(problem);
  const int layers = sums.layers();
  const auto start = first_two_batches(sums);
  if (!start) return {layers};
  Bounds bounds = {start->first, start->second};
  while (bounds.back() != layers) {
    const int closed = bounds.back();
    const int next = first_that_hides(sums, closed, sums.compute(bounds[bounds.size() - 2] + 1, closed));
    if (next > layers) {
      bounds.back() = layers;  // extending the last batch keeps Eq 5: its transfer only grows
    } else {
      bounds.push_back(next);
    }
  }
  return bounds;
}

std::optional<Bounds> backward_greedy(const BatchingProblem& problem) {
  const BatchingSums sums(problem);
  const int layers = sums.layers();
  const auto end = last_two_batches(sums);
  if (!end) return Bounds{layers};
  Bounds reversed = {layers, end->second};
  int first = end->first;
  while (first != 0) {
    const int after = reversed.back();
    const int before = longest_hidden(sums, first, sums.start_up() + sums.transfer(first + 1, after));
    if (before == first) return std::nullopt;
    reversed.push_back(first);
    first = before;
  }
  return Bounds(reversed.rbegin(), reversed.rend());
}

GreedyBatching ibatch(const BatchingProblem& problem) {
  Bounds forward = forward_greedy(problem);
  auto backward = backward_greedy(problem);
  if (backward && execution_time(problem, *backward) < execution_time(problem, forward))
    return {std::move(*backward), Greedy::kBackward};
  return {std::move(forward), Greedy::kForward};
}

}  // namespace paceline::scheduling

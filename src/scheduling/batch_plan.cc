#include "scheduling/batch_plan.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

namespace paceline::scheduling {
namespace {

double transfer_of(const BatchingProblem& problem, int begin, int end) {
  return std::accumulate(problem.transfer.begin() + begin, problem.transfer.begin() + end, 0.0);
}

// Halves the batch whose transfer takes longest, again and again.
Bounds finest_as_good(const BatchingProblem& problem, Bounds bounds) {
  const double limit = makespan(problem, bounds) * (1 + kAsGoodBatches);
  std::set<int> whole;  // last layers of batches that stay
  while (true) {
    int first = 0, last = 0;
    double longest = -1;
    for (int begin = 0; const int end : bounds) {
      const double transfer = transfer_of(problem, begin, end);
      if (end - begin > 1 && !whole.contains(end) && transfer > longest) first = begin, last = end, longest = transfer;
      begin = end;
    }
    if (last == 0) return bounds;
    int middle = first + 1;
    while (middle + 1 < last && 2 * transfer_of(problem, first, middle) < longest) ++middle;
    Bounds finer = bounds;
    finer.insert(std::ranges::lower_bound(finer, middle), middle);
    if (makespan(problem, finer) <= limit)
      bounds = std::move(finer);
    else
      whole.insert(last);
  }
}

}  // namespace

BatchingProblem problem_of(std::span<const Bytes> bytes, const cost::LinkFit& link, std::vector<double> compute) {
  BatchingProblem problem{.start_up = link.start_up, .transfer = {}, .compute = std::move(compute)};
  for (const Bytes size : bytes) problem.transfer.push_back(static_cast<double>(size.count) / link.bandwidth.value);
  return problem;
}

Bounds batches_of(const BatchingProblem& problem, BatchingAlgorithm algorithm) {
  switch (algorithm) {
    case BatchingAlgorithm::kExact:
      break;
    case BatchingAlgorithm::kForwardGreedy:
      return forward_greedy(problem);
    case BatchingAlgorithm::kBackwardGreedy:
      return backward_greedy(problem).value_or(default_batching(problem));
    case BatchingAlgorithm::kIbatch:
      return ibatch(problem).bounds;
  }
  return finest_as_good(problem, exact_batching(problem));
}

}  // namespace paceline::scheduling

#include "scheduling/batching.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>

#include "scheduling/batching_sums.h"

namespace paceline::scheduling {
namespace {

Exact exact_makespan(const BatchingSums& sums, const Bounds& bounds) {
  Exact arrived;
  Exact finished;
  int before = 0;
  for (const int last : bounds) {
    arrived = arrived + sums.start_up() + sums.transfer(before + 1, last);
    finished = std::max(arrived, finished) + sums.compute(before + 1, last);
    before = last;
  }
  return finished;
}

// The batching with the fewest batches among those that finish by `target`, or nothing. A batching finishes when for each k
// k * Ts + T(1..l_k) + C(l_{k-1}+1..L) does; the larger l_k is, the less the later ones ask for, so the largest is always right.
std::optional<Bounds> batching_within(const BatchingSums& sums, double target) {
  const Exact limit = Exact::of(target);
  const int layers = sums.layers();
  Bounds bounds;
  int before = 0;
  while (before < layers) {
    const Exact fixed = sums.starts(static_cast<int>(bounds.size()) + 1) + sums.compute(before + 1, layers);
    int last = before;
    while (last < layers && fixed + sums.transfer(1, last + 1) <= limit) ++last;
    if (last == before) return std::nullopt;
    bounds.push_back(last);
    before = last;
  }
  return bounds;
}

Status validate_time(double time, const std::string& name) {
  if (std::isfinite(time) && time >= 0) return {};
  return error(ErrorKind::kBadRequest, "{} is {}; a time must be finite and not negative", name, time);
}

Status validate_times(const std::vector<double>& times, const char* name) {
  for (std::size_t i = 0; i < times.size(); ++i) PACELINE_RETURN_IF_ERROR(validate_time(times[i], fmt::format("{}[{}]", name, i)));
  return {};
}

}  // namespace

Status validate(const BatchingProblem& problem) {
  if (problem.transfer.empty()) return error(ErrorKind::kBadRequest, "there are no layers; at least one is needed");
  if (problem.transfer.size() != problem.compute.size()) {
    return error(ErrorKind::kBadRequest, "{} transfer times against {} computation times; each layer needs both",
                 problem.transfer.size(), problem.compute.size());
  }
  if (problem.transfer.size() >= static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    return error(ErrorKind::kBadRequest, "{} layers are too many", problem.transfer.size());
  }
  PACELINE_RETURN_IF_ERROR(validate_times(problem.transfer, "transfer"));
  PACELINE_RETURN_IF_ERROR(validate_times(problem.compute, "compute"));
  PACELINE_RETURN_IF_ERROR(validate_time(problem.start_up, "start_up"));
  const double total = std::accumulate(problem.transfer.begin(), problem.transfer.end(), 0.0) +
                       std::accumulate(problem.compute.begin(), problem.compute.end(), 0.0) +
                       problem.start_up * static_cast<double>(problem.transfer.size());
  // Half of the range, so that no intermediate result can leave it.
  if (!(total <= std::numeric_limits<double>::max() / 2))
    return error(ErrorKind::kBadRequest, "the sum of all times is beyond what a double can hold");
  return {};
}

Status validate(const Bounds& bounds, const BatchingProblem& problem) {
  const int layers = static_cast<int>(problem.transfer.size());
  if (bounds.empty())
    return error(ErrorKind::kBadRequest, "there are no bounds; the last one must be {}, the number of layers", layers);
  int before = 0;
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    if (bounds[i] <= before || bounds[i] > layers) {
      return error(ErrorKind::kBadRequest, "bounds[{}] is {}; bounds must ascend from at least 1 to {}, the number of layers", i,
                   bounds[i], layers);
    }
    before = bounds[i];
  }
  if (before != layers)
    return error(ErrorKind::kBadRequest, "the last bound is {}; it must be {}, the number of layers", before, layers);
  return {};
}

double execution_time(const BatchingProblem& problem, const Bounds& bounds) {
  const BatchingSums sums(problem);
  const int last_but_one = bounds.size() > 1 ? bounds[bounds.size() - 2] : 0;
  return (sums.starts(static_cast<int>(bounds.size())) + sums.transfer(1, sums.layers()) +
          sums.compute(last_but_one + 1, sums.layers()))
      .rounded();
}

double makespan(const BatchingProblem& problem, const Bounds& bounds) {
  return exact_makespan(BatchingSums(problem), bounds).rounded();
}

bool is_overlapped(const BatchingProblem& problem, const Bounds& bounds) {
  const BatchingSums sums(problem);
  int before = 0;
  for (std::size_t k = 0; k + 1 < bounds.size(); ++k) {
    if (sums.start_up() + sums.transfer(bounds[k] + 1, bounds[k + 1]) < sums.compute(before + 1, bounds[k])) return false;
    before = bounds[k];
  }
  return true;
}

Bounds default_batching(const BatchingProblem& problem) { return {static_cast<int>(problem.transfer.size())}; }

Bounds layer_wise_batching(const BatchingProblem& problem) {
  Bounds bounds(problem.transfer.size());
  std::iota(bounds.begin(), bounds.end(), 1);
  return bounds;
}

Bounds exact_batching(const BatchingProblem& problem) {
  const BatchingSums sums(problem);
  // Doubles that are not negative are ordered like their bits, so the search halves the bits: at most 64 steps, whatever the range.
  const double least = (sums.start_up() + sums.transfer(1, sums.layers()) + sums.compute(sums.layers(), sums.layers())).rounded();
  std::uint64_t too_early = std::bit_cast<std::uint64_t>(std::max(0.0, std::nextafter(least, 0.0)));
  if (auto at_once = batching_within(sums, std::bit_cast<double>(too_early))) return *at_once;  // all times zero
  const double default_makespan = exact_makespan(sums, default_batching(problem)).rounded();
  std::uint64_t in_time = std::bit_cast<std::uint64_t>(std::nextafter(default_makespan, std::numeric_limits<double>::infinity()));
  Bounds best = default_batching(problem);
  while (in_time - too_early > 1) {
    const std::uint64_t middle = too_early + (in_time - too_early) / 2;
    if (auto found = batching_within(sums, std::bit_cast<double>(middle))) {
      best = std::move(*found);
      in_time = middle;
    } else {
      too_early = middle;
    }
  }
  return best;
}

}  // namespace paceline::scheduling

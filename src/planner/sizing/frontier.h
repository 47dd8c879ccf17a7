// The exact end of Eq 6 where an integer program's search gets long, which is when time falls almost in proportion to memory.
// Internal to algorithm_choice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace paceline::planner {

// One algorithm of a layer that may be part of an optimum.
struct Option {
  std::int64_t algorithm = 0;
  double time = 0;
  long double memory = 0;
};
// Per layer, ascending in memory and descending in time; no layer empty.
using Options = std::vector<std::vector<Option>>;

// The least time that the relaxed problem, where a layer may mix two algorithms, reaches within `bound`.
double relaxed_time(const Options& options, long double bound);

struct FrontierResult {
  std::optional<std::vector<std::size_t>>
      picks;          // per layer an index into its options; nothing: no choice is better than `incumbent`
  bool exact = true;  // false: there were too many states; a better choice may exist
};

// Dynamic programming over the layers with states (time, memory) that no other state beats in both and whose relaxed completion is
// better than `incumbent`, the time of a choice that is known. Deterministic; at most kMostStates states per layer.
inline constexpr std::size_t kMostStates = 100'000;
FrontierResult best_below(const Options& options, long double bound, double incumbent);

}  // namespace paceline::planner

// The mini-batch whose data epoch is shortest when each layer runs the fastest algorithm that fits beside it (S.-X. Zou et
// al., 3.1.3).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/status.h"
#include "planner/sizing/algorithm_choice.h"

namespace paceline::planner {

struct MiniBatchCandidate {
  std::int64_t mini_batch = 1;                     // X, >= 1
  double bound = 0;                                // memory left for workspaces with X
  std::vector<std::vector<AlgorithmCost>> layers;  // measured with X
};

struct MiniBatchPlan {
  AlgorithmChoice algorithms;   // of one iteration
  std::int64_t iterations = 0;  // per data epoch: ceil(samples / X)
  double time = 0;              // per data epoch: iterations * algorithms.time
};

struct MiniBatchChoice {
  std::optional<std::size_t> best;  // index of the candidate; nothing: none fits
  std::vector<MiniBatchPlan> candidates;
};

// Whether a data epoch of `time` is shorter, or as long but for rounding and with the larger mini-batch.
bool better(double time, std::int64_t mini_batch, double than_time, std::int64_t than_mini_batch);

// Least time; of times equal but for rounding the larger X; then the first. samples >= 1, at least one candidate, else kBadRequest.
Result<MiniBatchChoice> choose_mini_batch(std::int64_t samples, const std::vector<MiniBatchCandidate>& candidates);

}  // namespace paceline::planner

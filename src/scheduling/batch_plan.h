// From what is known of a job to its batches: one rule for the job that runs (live_profile.h) and for whoever predicts it. Pure;
// free to call from anywhere.
#pragma once

#include <span>
#include <vector>

#include "base/quantity.h"
#include "cost/link_fit.h"
#include "scheduling/batching.h"
#include "scheduling/schedule.h"

namespace paceline::scheduling {

// The exact optimum has the fewest batches. But values come back while others are still being updated, which the problem leaves
// out, and a batch waits for its last update: it is split as long as the makespan stays within this share of the optimum.
inline constexpr double kAsGoodBatches = 0.02;

// `bytes`: of each layer, in forward order, that come over links; `compute`: seconds of its forward pass, or of its backward pass
// for batches of pushes. A batch costs one start-up, to however many servers it goes.
BatchingProblem problem_of(std::span<const Bytes> bytes, const cost::LinkFit& link, std::vector<double> compute);

// Of a valid problem. kExact: the finest that is as good (kAsGoodBatches). Backward greedy falls back to one batch when it gets
// stuck.
Bounds batches_of(const BatchingProblem& problem, BatchingAlgorithm algorithm);

}  // namespace paceline::scheduling

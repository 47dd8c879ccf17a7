// What pipelined operations that were measured say about those to come. Pure; any thread.
#pragma once

#include <optional>
#include <span>

#include "collectives/exec/operation.h"
#include "cost/cost_fit.h"

namespace paceline::collectives {

// A broadcast or reduce along a chain.
struct CalibrationSample {
  Operation operation = Operation::kBroadcast;
  Bytes size, block;
  double seconds = 0;  // median
};

// How a pipeline is filled.
struct Filling {
  double share = 1;    // CollectiveProblem, `fill`
  double latency = 0;  // likewise
};

// The sample as the linear model of a link sees it (cost_fit.h). The time to wake the ranks along the chain is taken off; where
// that is most of the time, a quarter is left, for the rest would be noise.
cost::CostSample in_model(const CalibrationSample& sample, int ranks, const Filling& filling);

// The constants, and the share of filling in tenths, that leave the least residual; of equal ones the larger share. Nothing: the
// samples tell no rate (cost::fit_cost).
std::optional<Expectation> expectation(std::span<const CalibrationSample> samples, int ranks, double latency);

}  // namespace paceline::collectives

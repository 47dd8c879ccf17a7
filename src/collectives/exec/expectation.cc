#include "collectives/exec/expectation.h"

#include <algorithm>
#include <vector>

namespace paceline::collectives {
namespace {

constexpr int kShares = 10;

}  // namespace

cost::CostSample in_model(const CalibrationSample& sample, int ranks, const Filling& filling) {
  const auto size = static_cast<double>(sample.size.count), block = static_cast<double>(sample.block.count);
  const double steps = filling.share * (ranks - 1);
  const auto waits = static_cast<double>(hops(sample.operation, Algorithm::kLinearPipeline, ranks));
  cost::CostSample in{.messages = steps + size / block, .sent = block * steps + size};
  in.seconds = std::max(sample.seconds - filling.share * filling.latency * waits, sample.seconds / 4);
  if (sample.operation == Operation::kReduce) in.reduced = in.sent;
  return in;
}

std::optional<Expectation> expectation(std::span<const CalibrationSample> samples, int ranks, double latency) {
  std::optional<Expectation> best;
  double least = 0;
  for (int tenths = kShares; tenths >= 0; --tenths) {
    const Filling filling{static_cast<double>(tenths) / kShares, latency};
    std::vector<cost::CostSample> seen;
    for (const CalibrationSample& sample : samples) seen.push_back(in_model(sample, ranks, filling));
    const auto fit = cost::fit_cost(seen);
    if (!fit.ok() || (best && fit->residual >= least)) continue;
    least = fit->residual;
    best = Expectation{fit->cost, filling.share};
  }
  return best;
}

}  // namespace paceline::collectives

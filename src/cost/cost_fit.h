// The three constants of the linear cost model fitted to whole operations that were measured: every closed form of a collective
// (docs/algorithms.md, section 4) is linear in alpha, beta and gamma. Pure; any thread.
#pragma once

#include <span>

#include "base/status.h"
#include "cost/link_cost.h"

namespace paceline::cost {

// time = messages * alpha + sent * beta + reduced * gamma.
struct CostSample {
  double messages = 0;  // one after another on the longest path
  double sent = 0;      // bytes on that path
  double reduced = 0;   // bytes added to something on that path
  double seconds = 0;   // measured
};

struct CostFit {
  LinkCost cost;
  double residual = 0;  // root of the mean squared relative error over the samples; 0.05 is a good fit
};

double predicted(const LinkCost& cost, const CostSample& sample);
double residual(const LinkCost& cost, std::span<const CostSample> samples);  // as in CostFit; at least one sample

// Minimises the squares of the relative errors, so that short operations say as much as long ones; none of the three becomes
// negative. Where no sample reduces anything, gamma is 0. O(samples).
//
// Errors (kBadRequest): fewer than two samples, a count below 0, a time not above 0, samples of which none is explained by the
// bytes sent, so that there is no rate.
Result<CostFit> fit_cost(std::span<const CostSample> samples);

}  // namespace paceline::cost

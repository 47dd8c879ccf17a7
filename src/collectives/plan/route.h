// What links of different rates (link_rates.h) make of one operation: along which chain its linear pipeline runs, and what the
// bytes of each algorithm cost. Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "collectives/plan/cost.h"
#include "collectives/plan/link_rates.h"

namespace paceline::collectives {

struct Route {
  std::vector<int> order;  // of the linear pipeline, as PlanRequest::order; empty: the ranks' own, which is as good as any
  LinkPrices prices;
  std::string why;  // the rates, for people
};

// `root` counts for broadcast and reduce. Requires at least one rank. O(p^2) for the prices, and what best_order takes
// (chain_order.h): work it out once and keep it.
Route route_of(Operation operation, int root, const LinkRates& rates);

// Seconds that an algorithm without blocks takes for each byte of a long message, going round by round through its plan: a rank
// begins a round when its last one is over, a message when both its ends have begun the round. With links that are alike and 2^k
// ranks this is what the closed form charges.
double plan_seconds_per_byte(Operation operation, Algorithm algorithm, int root, const LinkRates& rates);

}  // namespace paceline::collectives

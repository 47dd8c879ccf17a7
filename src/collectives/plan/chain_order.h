// In which order ranks stand in the chain of a linear pipeline when their links differ (link_rates.h). Pure; any thread.
//
// What is made small is first the time that the busiest link or port of the chain takes for each byte of the message, the flow, and
// among orders of the same flow the time that one byte needs to travel along the chain, the fill: a long message takes n * flow,
// and filling the pipeline with its first block b * fill. A broadcast or reduce passes every link once, whatever the order, so that
// a slow host decides its flow wherever it stands; at the far end it delays only itself. The merged allreduce passes the ports of
// inner ranks twice each way and those of the two ends once: a slow host at an end carries half of the load.
#pragma once

#include <span>
#include <vector>

#include "collectives/plan/cost.h"
#include "collectives/plan/link_rates.h"

namespace paceline::collectives {

// Up to so many ranks the order is the best of all; with more it is the end of a local search that begins with the ranks' own order
// and with an order by speed, and so never worse than the ranks' own.
inline constexpr int kMostRanksExact = 12;

struct ChainSeconds {
  double flow = 0;  // for each byte of the message, once the pipeline is full
  double fill = 0;  // for each byte of a block, to travel along the chain, and back for an allreduce
};

// The ranks' own order: 0, 1, 2, ...; for a broadcast from the root on, for a reduce up to it.
std::vector<int> own_order(Operation operation, int ranks, int root);

// Requires one of broadcast, reduce and allreduce, and a permutation of the ranks. One rank: 0.
ChainSeconds chain_seconds(Operation operation, std::span<const int> order, const LinkRates& rates);

// Position by position. A broadcast begins and a reduce ends with the root; an allreduce ignores it. Of orders that are as good the
// one nearest to the ranks' own: where it is as good, that one. O(2^p p^2) up to kMostRanksExact, O(p^3) for each improvement
// beyond.
std::vector<int> best_order(Operation operation, int root, const LinkRates& rates);

}  // namespace paceline::collectives

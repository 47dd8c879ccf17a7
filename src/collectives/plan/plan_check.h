// Proves that a plan does what its request asks, for this number of ranks and elements. Pure; meant for tests and for `doctor`-like
// self-checks, not for the way of an iteration: O(steps + ranks * moved elements).
#pragma once

#include "collectives/plan/plan.h"

namespace paceline::collectives {

// Each step by itself: peers and ranges exist, lengths agree, rounds ascend; in a round at most one message each way, and nothing
// that is being sent is written. Error: the first fault, with rank and round.
Status check_form(const CollectivePlan& plan);

// check_form, and the whole: every message is received in the round it was sent, nobody waits for ever, and at the end every
// contribution is in every result exactly once and nothing else is. At most kMostRanksChecked ranks.
inline constexpr int kMostRanksChecked = 64;
Status check_plan(const CollectivePlan& plan);

// What a plan moves, in elements: what the closed forms count.
struct PlanTraffic {
  std::int64_t rounds = 0;          // that the plan takes, empty ones included
  std::int64_t serial_sent = 0;     // sum over rounds of the largest message
  std::int64_t serial_reduced = 0;  // sum over rounds of the most that one rank reduces
  std::int64_t most_sent = 0;       // by any one rank
  std::int64_t sent = 0;            // by all
};
PlanTraffic traffic_of(const CollectivePlan& plan);

}  // namespace paceline::collectives

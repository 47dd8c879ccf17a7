// In which order a plan adds. Rounding makes the bits of a sum depend on it, so whoever computes the same bits by other means has
// to add in the same order. Pure; any thread.
#pragma once

#include <vector>

#include "collectives/plan/plan.h"

namespace paceline::collectives {

// What rank `from` holds by then is added to what rank `to` holds.
struct Addition {
  int to = 0, from = 0;
  bool operator==(const Addition&) const = default;
};

// Of one element, one after the other: before the first one each rank holds its own number, after the last one `to` of it holds
// the sum. Empty for one rank.
using Additions = std::vector<Addition>;

// ((0 + 1) + 2) + ...
Additions in_rank_order(int ranks);

// By part of the message (part_of): how each of its elements is added. The part that an element stands in decides, whatever the
// message's length and the pipeline's blocks. Requires: a valid request of a reduce or allreduce; `elements` and `block` do not
// count. O(ranks^2 log ranks).
std::vector<Additions> additions_by_part(PlanRequest request);

}  // namespace paceline::collectives

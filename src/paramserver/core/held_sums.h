// With job::Plan::holds_updates (clipping, NonFinitePolicy::kSkip): which sums of an iteration are there, this server's of its
// units and the other servers' square sums. What is done once all are is ServerLedger's. Pure; owned by one progress loop.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "job/plan.h"

namespace paceline::paramserver {

class HeldSums {
 public:
  HeldSums(const job::Plan& plan, Rank server);

  // The other servers that have units: each is sent this one's square sum.
  std::span<const Rank> takers() const { return takers_; }
  // One more unit's sum of the iteration is there. True: it was the last one.
  bool count() { return ++summed_ >= units_; }
  // Another server's square sum of `iteration`, while `current` is summed. kBadRequest: it does not fit.
  Status on_square_sum(Rank server, Iteration iteration, Iteration current);
  // Everything of `iteration` is there, once: the next sums are those of the next iteration.
  bool take_complete(Iteration iteration);

 private:
  Rank server_;
  bool holds_;
  std::size_t units_;  // of this server that have gradients
  std::vector<Rank> takers_;
  std::vector<std::array<Iteration, 2>> square_sums_;  // of other servers: whose are there, by parity of the iteration
  std::size_t summed_ = 0;                             // units whose sum is there
};

}  // namespace paceline::paramserver

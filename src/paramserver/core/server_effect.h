// What one server of a parameter server wants done, in numbers: updates to be made, messages that leave, and what its memory has to
// do between them. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "base/quantity.h"
#include "paramserver/core/send.h"

namespace paceline::paramserver {

// One unit is to be updated, now.
struct Update {
  enum class Work : std::uint8_t {
    kSumAndStep,  // scale * (sum of the gradients that `workers` pushed for `iteration`, in this order), and one optimizer step
    kSum,         // only the sum: the step is decided when those of all units on all servers are there
    kStep,        // the step with a sum that was made before; all square sums of `iteration` are there
  };
  Work work = Work::kSumAndStep;
  std::uint32_t unit = 0;
  Iteration iteration = 0;
  std::span<const Rank> workers;  // ascending; none for kStep. Memory of the ledger: until its next event
  double scale = 1;
  Iteration rate_iteration = 0;  // whose learning rate the step is made with
};

// The value of `unit` as it is now will be asked for later, whatever is pushed until then.
struct Keep {
  std::uint32_t unit = 0;
};
// Nobody will ask for the kept value of `unit` any more; or, with a worker, what is coming of `unit` from it will not be complete.
struct Forget {
  std::uint32_t unit = 0;
  std::optional<Rank> worker = {};
};
// BSP: every unit has been updated (or skipped) for `iteration`, and none further; before values leave.
struct Complete {
  Iteration iteration = 0;
};

using ServerEffect = std::variant<Send, Keep, Forget, Complete>;
using ServerEffects = std::vector<ServerEffect>;

}  // namespace paceline::paramserver

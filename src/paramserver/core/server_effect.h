// What one server of a parameter server wants done, in numbers: updates to be made, and what follows from events. Plain values.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/quantity.h"

namespace paceline::paramserver {

// One unit is to be updated, now.
struct Update {
  enum class Work : std::uint8_t {
    kSumAndStep,  // scale * (sum of the gradients that `workers` pushed for `iteration`, in this order), and one optimizer step
    kSum,         // only the sum: the step is decided when those of all units on all servers are there
    kStep,        // the step with a sum that was made before
  };
  Work work = Work::kSumAndStep;
  std::uint32_t unit = 0;
  Iteration iteration = 0;
  std::span<const Rank> workers;  // ascending; none for kStep. Memory of the ledger: until its next event
  double scale = 1;
  Iteration rate_iteration = 0;  // whose learning rate the step is made with
};

struct ServerEffect {
  enum class Kind : std::uint8_t {
    kSendValue,          // the value of `unit` labelled `iteration`, to worker `to`
    kSendValues,         // the values of this server's units from `unit` to `last`, one behind the other
    kNotify,             // that `unit` has the value labelled `iteration`, to worker `to`
    kKeep,               // the value of `unit` as it is now will be asked for later, whatever is pushed until then
    kForget,             // nobody will ask for the kept value of `unit` any more
    kDropGradient,       // what is coming of `unit` from worker `to` will not be complete
    kSendSquareSum,      // this server's part of `iteration`, to server `to`
    kDecide,             // all parts of `iteration` are there: whether it is skipped, and how far its gradients are clipped
    kIterationComplete,  // BSP: every unit has been updated (or skipped) for `iteration`, and none further; before values leave
    kMiniBatch,          // mini-batch number `iteration` is for the `unit`-th iteration of worker `to`; both from 1
    kSendVerdict,        // job::UpdateOptions::verdict: this server's part of `iteration`, to worker `to`
  };
  Kind kind = Kind::kSendValue;
  bool kept = false;  // kSendValue, kSendValues: the kept values
  Rank to;
  std::uint32_t unit = 0, last = 0;
  Iteration iteration = 0;
};

using ServerEffects = std::vector<ServerEffect>;

}  // namespace paceline::paramserver

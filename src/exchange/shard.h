// The arithmetic of updates from the mean gradient on, and the optimizer state that it needs: of the units of a server
// (server_memory.h), or of all units on a rank that updates with the sums of collective operations (collectives/training), so that
// both make the same bits. Pure; one owner.
//
// An update of a part of a unit: a look at whether its mean gradient is finite, then one optimizer step with the rate of the
// iteration. A part that nobody used has none (no momentum, no decay, no step): its owner leaves it out. Both may be done in pieces
// of a part, from its first element to its last.
//
// With job::Plan::holds_updates all means of an iteration are looked at, those of other owners too; then decide() says whether the
// iteration is skipped and how far its gradients are clipped; then come the steps.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "base/status.h"
#include "exchange/told_rates.h"
#include "job/plan.h"
#include "tensor/exact_square_sum.h"

namespace paceline::exchange {

class Shard {
 public:
  enum class Steps { kHere, kElsewhere };  // kElsewhere: no memory is spent on optimizer state
  Shard(std::shared_ptr<const job::Plan> plan, std::span<const std::uint32_t> units, Steps steps = Steps::kHere);

  // Counts a piece of a mean gradient for decide(). False: it is not finite and must not be used; on_broken() is told why.
  [[nodiscard]] bool look(std::span<const float> mean);
  // The error that the job stops with. Success: the iteration is skipped instead.
  Status on_broken(Status reason);
  // kCorrupt, naming layer, tensor and unit: a worker's gradient is not finite; all are, but their sum overflows.
  Status broken_gradient(Rank worker, std::uint32_t part, Iteration iteration, std::size_t element, float value) const;
  Status broken_sum(std::uint32_t part, Iteration iteration) const;

  // holds_updates: all means of the iteration have been looked at, those of other servers too (put_squares).
  struct Decision {
    bool skip = false;      // the iteration changes nothing
    Status reason;          // of skipping: whose gradient it was, if it was found here
    float coefficient = 1;  // that clipping multiplies gradients by
  };
  const Decision& decide(Iteration iteration);
  // The newest one; before the first: nothing is skipped or clipped.
  const Decision& decision() const { return decision_; }

  // With which rates a step is made: those that were told, by group, or the plan's of an iteration.
  struct Rates {
    Iteration iteration = 0;
    std::span<const GroupRates> told = {};
  };
  // One step on a piece of the part, from its element `begin` on, with that piece of the mean: clipped by whoever has it.
  void step(std::uint32_t part, std::size_t begin, const Rates& rates, std::span<const float> mean, std::span<float> values);

  // This owner's part of the iteration's exact square sum; stays as it is until that of the next iteration but one.
  std::span<const std::byte> squares(Iteration iteration);
  void put_squares(Rank server, Iteration iteration, std::span<const std::byte, tensor::kSquareSumBytes> part);

  // For checkpoints. `state` is as in tensor/optimizer.h: planes of the part's elements each; none with Steps::kElsewhere.
  struct PartState {
    std::span<const float> state;
    std::int64_t steps = 0;  // updates made
  };
  PartState save(std::uint32_t part) const { return {parts_[part].state, parts_[part].steps}; }
  // Before the first update. kBadRequest when the state has another size or steps are negative.
  Status load(std::uint32_t part, const PartState& from);

 private:
  struct Part {
    std::int64_t steps = 0;
    std::vector<float> state;
  };
  struct SquarePart {
    Iteration iteration = -1;
    tensor::ExactSquareSum sum;
  };

  std::string wire_text() const;

  std::shared_ptr<const job::Plan> plan_;
  std::vector<Part> parts_;  // by part of the plan; those of other units are empty
  // Held updates
  tensor::ExactSquareSum own_squares_;
  Status own_failure_;  // why the iteration is to be skipped
  Decision decision_;
  std::vector<std::array<SquarePart, 2>> other_squares_;                        // by server and parity of the iteration
  std::array<std::array<std::byte, tensor::kSquareSumBytes>, 2> sent_squares_;  // by parity
};

}  // namespace paceline::exchange

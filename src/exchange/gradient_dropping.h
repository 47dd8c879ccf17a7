// Gradient dropping (Aji and Heafield 2017; iBatch, "Scalability", figure 6) on one worker: of each tensor the elements of largest
// magnitude are sent, and what is not sent is added to the gradients of later iterations. Deep gradient compression (Lin et al.
// 2018) adds up momenta instead of gradients, forgets the momentum of what it sends, clips before it adds, and sends more in the
// beginning. Random elements with a memory (Stich, Cordonnier, Jaggi 2018) are drawn instead of chosen.
//
// Elements are chosen in whole tensors, before these are cut into units, so a schedule changes nothing. Pure; one thread at a time,
// the one that makes the gradients.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "job/plan.h"
#include "tensor/exact_square_sum.h"
#include "tensor/sparse.h"

namespace paceline::exchange {

class GradientDropping {
 public:
  // Requires plan->options().wire.drops(). Memory: as large as the model; twice that with momentum.
  explicit GradientDropping(std::shared_ptr<const job::Plan> plan);

  // Whether gradients are clipped, so that none can be dropped from before all of the iteration are there.
  bool clips() const { return plan_->options().wire.clip_norm > 0; }
  // What the gradients of an iteration are to be multiplied by, all that there are; `squares` sums up theirs. 1 when one is not
  // finite, which others look for.
  float clip_coefficient(const tensor::ExactSquareSum& squares) const;

  // `gradient` is the one of `tensor` of one iteration; afterwards what is sent of it, the rest +0. Once per tensor and iteration,
  // not for tensors without a gradient.
  void drop(std::uint32_t tensor, Iteration iteration, float coefficient, std::span<float> gradient);

 private:
  std::shared_ptr<const job::Plan> plan_;
  std::vector<std::int64_t> offsets_;  // of tensors in the arena
  std::vector<float> kept_;            // what has not been sent
  std::vector<float> velocity_;        // momentum; empty without
  tensor::LargestElements largest_;
};

}  // namespace paceline::exchange

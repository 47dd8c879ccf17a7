// What of a worker's gradients is sent, where that is not all (job::WireOptions::drops): chosen in whole tensors before they are
// told, so that no cut into units changes it. Where gradients are clipped too, none can be chosen from before all of the iteration
// are there.
//
// Threads: any, those that make gradients.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "exchange/gradient_dropping.h"
#include "exchange/tensor_memory.h"

namespace paceline::exchange {

class GradientCompression {
 public:
  // Requires plan->options().wire.drops(). The arrays outlive it.
  GradientCompression(std::shared_ptr<const job::Plan> plan, TensorMemory memory)
      : dropping_(std::move(plan)), memory_(std::move(memory)) {}

  // The gradient of `tensor` becomes what is sent of it. False: it is held back until compress_held(). Once per tensor and
  // iteration.
  bool compress(std::uint32_t tensor, Iteration iteration);
  // Whether gradients are held back; those of this iteration so far.
  bool holds() const { return dropping_.clips(); }
  std::span<const std::uint32_t> held();
  // All of the iteration are there: those held back become what is sent of them. Returns them; they stay as they are until the
  // next call of compress().
  std::span<const std::uint32_t> compress_held(Iteration iteration);

 private:
  std::mutex mutex_;  // guards what follows
  GradientDropping dropping_;
  TensorMemory memory_;
  std::vector<std::uint32_t> held_, released_;  // tensors whose gradients are there and not told; and being told
};

// What the plan asks for; null: all of each gradient is sent.
std::unique_ptr<GradientCompression> compression_of(const std::shared_ptr<const job::Plan>& plan, const TensorMemory& memory);

}  // namespace paceline::exchange

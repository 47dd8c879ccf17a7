// The state that an optimizer keeps of each tensor (tensor/optimizer.h), where servers have it and a worker gives it to them or
// asks for it: a training script that saves and restores its own optimizer. A worker's OptimizerState is by tensor; what travels is
// by unit. Plain data; one owner.
//
// As sent, of a unit: of each part its steps (int64, updates made), then its planes (float32), one behind the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "exchange/shard.h"
#include "job/plan.h"

namespace paceline::exchange {

// Of the unit's state as it is sent.
std::size_t state_bytes(const job::Plan& plan, std::uint32_t unit);
// An owner's. `to` and `from` have state_bytes(). kBadRequest: a negative number of steps; then nothing has changed.
void write_state(const job::Plan& plan, std::uint32_t unit, const Shard& shard, std::span<std::byte> to);
Status read_state(const job::Plan& plan, std::uint32_t unit, std::span<const std::byte> from, Shard& shard);

// A worker's, of all tensors.
class OptimizerState {
 public:
  // What is known of one tensor.
  struct Known {
    std::int64_t steps = 0;                  // 0: none, and all planes are 0
    std::vector<std::vector<float>> planes;  // each of the tensor's elements
  };

  OptimizerState() = default;
  explicit OptimizerState(std::vector<Known> given) : tensors_(std::move(given)) {}

  // kBadRequest naming the tensor: it has another number of planes than the job's optimizer, or is frozen.
  Status check(const job::Plan& plan) const;
  // Nothing is known of any tensor.
  bool empty() const;
  const Known& of(std::uint32_t tensor) const { return tensors_[tensor]; }
  Known& of(std::uint32_t tensor) { return tensors_[tensor]; }

  // Every tensor that has gradients has the optimizer's planes; no steps. What was known is forgotten.
  void clear(const job::Plan& plan);
  // As above, to and from the place in each tensor. Of parts of a tensor that have made different numbers of steps the largest
  // counts.
  void write(const job::Plan& plan, std::uint32_t unit, std::span<std::byte> to) const;
  void read(const job::Plan& plan, std::uint32_t unit, std::span<const std::byte> from);

 private:
  std::vector<Known> tensors_;  // by position in the table
};

}  // namespace paceline::exchange

// Where a worker's parameters and gradients stand: the one class that knows. Today in two arenas in the order of the job's tensors
// (wire/tensor_table.h), which outlive it; and, where a training script has it, the optimizer's state. Immutable, so any thread may
// ask; what stands in the memory belongs to whoever the gates say (gradient_exchange.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "exchange/optimizer_state.h"
#include "job/plan.h"

namespace paceline::exchange {

class TensorMemory {
 public:
  // Both arrays have job::Plan::units().elements floats. `state` outlives it and was checked; null: nobody has it here.
  TensorMemory(std::shared_ptr<const job::Plan> plan, std::span<float> parameters, std::span<float> gradients,
               OptimizerState* state = nullptr);

  // Of a unit.
  std::span<float> parameters(std::uint32_t unit) const { return of_unit(parameters_, unit); }
  std::span<float> gradient(std::uint32_t unit) const { return of_unit(gradients_, unit); }
  // Of a part of a unit.
  std::span<const float> part_parameters(std::uint32_t part) const;
  // Of a tensor.
  std::span<float> tensor_gradient(std::uint32_t tensor) const;
  OptimizerState* state() const { return state_; }
  // Of the units from `first` to `last` in one piece; they stand behind each other.
  std::span<float> parameters(std::uint32_t first, std::uint32_t last) const { return of_units(parameters_, first, last); }
  std::span<float> gradient(std::uint32_t first, std::uint32_t last) const { return of_units(gradients_, first, last); }

 private:
  std::span<float> of_unit(std::span<float> arena, std::uint32_t unit) const { return of_units(arena, unit, unit); }
  std::span<float> of_units(std::span<float> arena, std::uint32_t first, std::uint32_t last) const;

  std::shared_ptr<const job::Plan> plan_;
  std::span<float> parameters_, gradients_;
  OptimizerState* state_;
  std::vector<std::int64_t> offsets_;  // of tensors, by position
};

}  // namespace paceline::exchange

#include "exchange/tensor_memory.h"

#include <utility>

namespace paceline::exchange {

TensorMemory::TensorMemory(std::shared_ptr<const job::Plan> plan, std::span<float> parameters, std::span<float> gradients,
                           OptimizerState* state)
    : plan_(std::move(plan)), parameters_(parameters), gradients_(gradients), state_(state), offsets_(plan_->table().offsets()) {
  const auto elements = static_cast<std::size_t>(plan_->units().elements);
  PACELINE_CHECK(parameters_.size() == elements && gradients_.size() == elements, "the plan has {} elements, the arenas {} and {}",
                 elements, parameters_.size(), gradients_.size());
}

std::span<float> TensorMemory::of_units(std::span<float> arena, std::uint32_t first, std::uint32_t last) const {
  const auto& units = plan_->units().units;
  const auto begin = static_cast<std::size_t>(units[first].offset);
  return arena.subspan(begin, static_cast<std::size_t>(units[last].offset + units[last].elements) - begin);
}

std::span<const float> TensorMemory::part_parameters(std::uint32_t part) const {
  const scheduling::Part& planned = plan_->units().parts[part];
  return parameters_.subspan(static_cast<std::size_t>(planned.offset), static_cast<std::size_t>(planned.elements));
}

std::span<float> TensorMemory::tensor_gradient(std::uint32_t tensor) const {
  const auto begin = static_cast<std::size_t>(offsets_[tensor]);
  return gradients_.subspan(begin, static_cast<std::size_t>(offsets_[tensor + 1]) - begin);
}

}  // namespace paceline::exchange

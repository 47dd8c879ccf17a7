#include "exchange/gradient_compression.h"

#include <utility>

namespace paceline::exchange {

bool GradientCompression::compress(std::uint32_t tensor, Iteration iteration) {
  const std::lock_guard lock(mutex_);
  if (dropping_.clips()) {
    held_.push_back(tensor);
    return false;
  }
  dropping_.drop(tensor, iteration, 1, memory_.tensor_gradient(tensor));
  return true;
}

std::span<const std::uint32_t> GradientCompression::held() {
  const std::lock_guard lock(mutex_);
  return held_;
}

std::span<const std::uint32_t> GradientCompression::compress_held(Iteration iteration) {
  const std::lock_guard lock(mutex_);
  tensor::ExactSquareSum squares;
  for (const std::uint32_t tensor : held_) squares.add(memory_.tensor_gradient(tensor));
  const float coefficient = dropping_.clip_coefficient(squares);
  for (const std::uint32_t tensor : held_) dropping_.drop(tensor, iteration, coefficient, memory_.tensor_gradient(tensor));
  std::swap(held_, released_);
  held_.clear();
  return released_;
}

std::unique_ptr<GradientCompression> compression_of(const std::shared_ptr<const job::Plan>& plan, const TensorMemory& memory) {
  return plan->options().wire.drops() ? std::make_unique<GradientCompression>(plan, memory) : nullptr;
}

}  // namespace paceline::exchange

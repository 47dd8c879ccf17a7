#include "exchange/gradient_dropping.h"

#include <cmath>
#include <utility>

#include "base/check.h"
#include "tensor/reduce.h"

namespace paceline::exchange {

GradientDropping::GradientDropping(std::shared_ptr<const job::Plan> plan)
    : plan_(std::move(plan)), offsets_(plan_->table().offsets()), kept_(static_cast<std::size_t>(plan_->units().elements), 0.0F) {
  const job::WireOptions& wire = plan_->options().wire;
  PACELINE_CHECK(wire.drops(), "{} drops nothing", wire.text());
  if (wire.momentum > 0) velocity_.resize(kept_.size(), 0.0F);
}

float GradientDropping::clip_coefficient(const tensor::ExactSquareSum& squares) const {
  if (!squares.finite()) return 1;
  const double workers = plan_->options().workers;
  return tensor::clip_coefficient(squares, plan_->options().wire.clip_norm / std::sqrt(workers));
}

void GradientDropping::drop(std::uint32_t tensor, Iteration iteration, float coefficient, std::span<float> gradient) {
  const job::WireOptions& wire = plan_->options().wire;
  const auto offset = static_cast<std::size_t>(offsets_[tensor]);
  const std::size_t elements = gradient.size();
  const auto kept = std::span(kept_).subspan(offset, elements);
  if (coefficient != 1) {
    for (float& value : gradient) value *= coefficient;
  }
  const std::span<float> velocity = velocity_.empty() ? std::span<float>() : std::span(velocity_).subspan(offset, elements);
  const auto momentum = static_cast<float>(wire.momentum);
  for (std::size_t i = 0; i < velocity.size(); ++i) {
    velocity[i] = momentum * velocity[i] + gradient[i];
    gradient[i] = wire.nesterov ? gradient[i] + momentum * velocity[i] : velocity[i];
  }
  tensor::add_into(kept, std::span<const float>(gradient));
  const std::size_t sent = job::sent_elements(wire.share_at(iteration), elements);
  largest_.take(kept, gradient, sent);
  // Of what leaves late its momentum is old by then. With everything sent at once nothing is late.
  for (std::size_t i = 0; sent < elements && i < velocity.size(); ++i) {
    if (gradient[i] != 0) velocity[i] = 0;
  }
}

}  // namespace paceline::exchange

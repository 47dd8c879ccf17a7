#include "paramserver/core/gradient_dropping.h"

#include <utility>

#include "base/check.h"
#include "tensor/reduce.h"

namespace paceline::paramserver {

GradientDropping::GradientDropping(std::shared_ptr<const JobPlan> plan)
    : plan_(std::move(plan)), offsets_(plan_->table().offsets()), kept_(static_cast<std::size_t>(plan_->units().elements), 0.0F) {
  PACELINE_CHECK(plan_->options().wire.drops(), "{} drops nothing", plan_->options().wire.text());
}

void GradientDropping::drop(std::uint32_t tensor, std::span<float> gradients) {
  const auto offset = static_cast<std::size_t>(offsets_[tensor]);
  const std::size_t elements = static_cast<std::size_t>(offsets_[tensor + 1]) - offset;
  const auto gradient = gradients.subspan(offset, elements), kept = std::span(kept_).subspan(offset, elements);
  tensor::add_into(kept, std::span<const float>(gradient));
  largest_.take(kept, gradient, sent_elements(plan_->options().wire, elements));
}

}  // namespace paceline::paramserver

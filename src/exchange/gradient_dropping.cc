#include "exchange/gradient_dropping.h"

#include <cmath>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "tensor/reduce.h"

namespace paceline::exchange {
namespace {

// Places of a tensor drawn by lot, each once: the first ones of the permutation i -> (first + i * step) mod size. Tensor and
// iteration decide, so all workers draw the same, and their sum has no more elements.
class Lot {
 public:
  // `size`: at least 1.
  Lot(std::uint32_t tensor, Iteration iteration, std::size_t size) : size_(size) {
    Random random(random_at(0, {tensor, static_cast<std::uint64_t>(iteration)}));
    next_ = random.below(size);
    do step_ = 1 + random.below(size);
    while (std::gcd(step_, size) != 1);
  }

  std::size_t draw() { return std::exchange(next_, (next_ + step_) % size_); }

 private:
  std::size_t size_, next_ = 0, step_ = 1;
};

// As LargestElements::take. What is not finite leaves at once, so that it is noticed.
void take_drawn(std::span<float> kept, std::span<float> sent, std::size_t count, Lot lot) {
  for (std::size_t i = 0; i < kept.size(); ++i) sent[i] = std::isfinite(kept[i]) ? 0.0F : std::exchange(kept[i], 0.0F);
  for (; count > 0; --count) {
    const std::size_t place = lot.draw();
    if (kept[place] != 0) sent[place] = kept[place];
    kept[place] = 0.0F;
  }
}

}  // namespace

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
  if (wire.kind == job::WireKind::kRandom && elements > 0)
    take_drawn(kept, gradient, sent, Lot(tensor, iteration, elements));
  else
    largest_.take(kept, gradient, sent);
  // Of what leaves late its momentum is old by then. With everything sent at once nothing is late.
  for (std::size_t i = 0; sent < elements && i < velocity.size(); ++i) {
    if (gradient[i] != 0) velocity[i] = 0;
  }
}

}  // namespace paceline::exchange

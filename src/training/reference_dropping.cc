#include "training/reference_dropping.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/random.h"
#include "tensor/exact_square_sum.h"

namespace paceline::training {
namespace {

// NaN above infinity above all numbers.
std::uint32_t size_of(float value) { return std::bit_cast<std::uint32_t>(std::abs(value)); }

// Of n elements those at (first + i * step) mod n, for i below `wanted`.
void drop_drawn(Random random, std::size_t wanted, std::span<float> kept, std::span<float> gradients) {
  const std::size_t size = kept.size();
  const std::uint64_t first = random.below(size);
  std::uint64_t step = 1 + random.below(size);
  while (std::gcd(step, size) != 1) step = 1 + random.below(size);
  std::vector<bool> drawn(size, false);
  for (std::size_t i = 0; i < wanted; ++i) drawn[(first + i * step) % size] = true;
  for (std::size_t i = 0; i < size; ++i) {
    const bool leaves = drawn[i] || !std::isfinite(kept[i]);
    gradients[i] = leaves && kept[i] != 0 ? kept[i] : 0.0f;
    if (leaves) kept[i] = 0.0f;
  }
}

}  // namespace

ReferenceDropping::ReferenceDropping(const job::WireOptions& wire, std::vector<std::int64_t> offsets)
    : wire_(wire),
      offsets_(std::move(offsets)),
      kept_(static_cast<std::size_t>(offsets_.back()), 0.0f),
      velocity_(kept_.size(), 0.0f) {}

float ReferenceDropping::clip_coefficient(std::size_t workers, std::span<const char> used, std::span<const float> gradients) const {
  if (wire_.clip_norm == 0) return 1;
  tensor::ExactSquareSum squares;
  for (std::size_t tensor = 0; tensor < used.size(); ++tensor) {
    const auto begin = static_cast<std::size_t>(offsets_[tensor]);
    if (used[tensor] != 0) squares.add(gradients.subspan(begin, static_cast<std::size_t>(offsets_[tensor + 1]) - begin));
  }
  const double limit = wire_.clip_norm / std::sqrt(static_cast<double>(workers));
  const double coefficient = limit / (std::sqrt(squares.value()) + 1e-6);
  return squares.finite() && coefficient < 1 ? static_cast<float>(coefficient) : 1.0f;
}

void ReferenceDropping::drop(std::size_t tensor, Iteration iteration, float coefficient, std::span<float> gradients) {
  const auto begin = static_cast<std::size_t>(offsets_[tensor]), end = static_cast<std::size_t>(offsets_[tensor + 1]);
  if (!wire_.drops() || begin == end) return;
  std::vector<std::size_t> order(end - begin);
  std::iota(order.begin(), order.end(), begin);
  const auto momentum = static_cast<float>(wire_.momentum);
  for (const std::size_t i : order) {
    const float gradient = gradients[i] * coefficient;
    velocity_[i] = momentum * velocity_[i] + gradient;
    const float step = wire_.nesterov ? gradient + momentum * velocity_[i] : velocity_[i];
    kept_[i] = kept_[i] + (wire_.momentum > 0 ? step : gradient);
  }
  double share = wire_.share;
  if (iteration <= wire_.warm_up && share < 0.25)
    share = 0.25 * std::pow(share / 0.25, static_cast<double>(iteration - 1) / static_cast<double>(wire_.warm_up));
  const double wanted = std::max(1.0, std::floor(share * static_cast<double>(order.size()) + 0.5));
  if (wire_.kind == job::WireKind::kRandom)
    return drop_drawn(Random(random_at(0, {tensor, static_cast<std::uint64_t>(iteration)})), static_cast<std::size_t>(wanted),
                      std::span(kept_).subspan(begin, order.size()), gradients.subspan(begin, order.size()));
  // Of equal ones the first.
  std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(wanted) - 1, order.end(),
                   [&](std::size_t a, std::size_t b) { return std::pair(size_of(kept_[b]), a) < std::pair(size_of(kept_[a]), b); });
  for (std::size_t place = 0; place < order.size(); ++place) {
    const std::size_t i = order[place];
    gradients[i] = static_cast<double>(place) < wanted && kept_[i] != 0 ? kept_[i] : 0.0f;
    if (static_cast<double>(place) < wanted || kept_[i] == 0) kept_[i] = 0.0f;
    if (wanted < static_cast<double>(order.size()) && gradients[i] != 0) velocity_[i] = 0.0f;
  }
}

}  // namespace paceline::training

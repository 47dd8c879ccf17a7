#include "runtime/reference_dropping.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

namespace paceline::runtime {
namespace {

// NaN above infinity above all numbers.
std::uint32_t size_of(float value) { return std::bit_cast<std::uint32_t>(std::abs(value)); }

}  // namespace

ReferenceDropping::ReferenceDropping(const paramserver::WireOptions& wire, std::vector<std::int64_t> offsets)
    : share_(wire.share), offsets_(std::move(offsets)), kept_(static_cast<std::size_t>(offsets_.back()), 0.0f) {}

void ReferenceDropping::drop(std::size_t tensor, std::span<float> gradients) {
  const auto begin = static_cast<std::size_t>(offsets_[tensor]), end = static_cast<std::size_t>(offsets_[tensor + 1]);
  if (share_ == 1 || begin == end) return;
  std::vector<std::size_t> order(end - begin);
  std::iota(order.begin(), order.end(), begin);
  for (const std::size_t i : order) kept_[i] = kept_[i] + gradients[i];
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return size_of(kept_[a]) > size_of(kept_[b]); });
  const double wanted = std::max(1.0, std::floor(share_ * static_cast<double>(order.size()) + 0.5));
  for (std::size_t place = 0; place < order.size(); ++place) {
    const std::size_t i = order[place];
    gradients[i] = static_cast<double>(place) < wanted && kept_[i] != 0 ? kept_[i] : 0.0f;
    if (static_cast<double>(place) < wanted || kept_[i] == 0) kept_[i] = 0.0f;
  }
}

}  // namespace paceline::runtime

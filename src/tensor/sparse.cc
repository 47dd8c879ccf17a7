#include "tensor/sparse.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "base/check.h"
#include "tensor/reduce.h"

namespace paceline::tensor {
namespace {

constexpr std::uint32_t kMagnitude = 0x7FFF'FFFF;
// Counting goes over the upper bits of magnitudes first, then over the lower ones of those with the upper bits that decide.
constexpr int kLowBits = 15;
constexpr std::size_t kUpper = std::size_t{1} << 16, kLower = std::size_t{1} << kLowBits;
// Below so many elements clearing the counters costs more than partitioning the elements.
constexpr std::size_t kWorthCounting = 16'384;

std::uint32_t magnitude(float value) { return std::bit_cast<std::uint32_t>(value) & kMagnitude; }
bool is_sent(float value) { return std::bit_cast<std::uint32_t>(value) != 0; }

// The highest place of `counts` at or above which there are `count` in all, and how many of them lie at it.
struct Place {
  std::size_t index = 0, at = 0;
};
Place place_of(std::span<const std::uint32_t> counts, std::size_t count) {
  std::size_t above = 0;
  for (std::size_t i = counts.size(); i-- > 0;) {
    if (above + counts[i] >= count) return {i, count - above};
    above += counts[i];
  }
  PACELINE_CHECK(false, "{} of {} elements", count, above);
}

}  // namespace

LargestElements::Threshold LargestElements::threshold_by_counting(std::span<const float> values, std::size_t count) {
  scratch_.assign(kUpper + kLower, 0);
  const auto upper = std::span(scratch_).first(kUpper), lower = std::span(scratch_).subspan(kUpper);
  for (const float value : values) ++upper[magnitude(value) >> kLowBits];
  const Place coarse = place_of(upper, count);
  for (const float value : values) {
    const std::uint32_t bits = magnitude(value);
    if (bits >> kLowBits == coarse.index) ++lower[bits & (kLower - 1)];
  }
  const Place fine = place_of(lower, coarse.at);
  return {static_cast<std::uint32_t>(coarse.index << kLowBits | fine.index), fine.at};
}

LargestElements::Threshold LargestElements::threshold_by_partition(std::span<const float> values, std::size_t count) {
  scratch_.resize(std::max(values.size(), kUpper + kLower));
  const auto all = std::span(scratch_).first(values.size());
  std::ranges::transform(values, all.begin(), magnitude);
  const auto nth = all.begin() + static_cast<std::ptrdiff_t>(count - 1);
  std::ranges::nth_element(all, nth, std::greater<>());
  const std::uint32_t least = *nth;
  // What comes before is not smaller.
  return {least, 1 + static_cast<std::size_t>(std::count(all.begin(), nth, least))};
}

void LargestElements::take(std::span<float> kept, std::span<float> sent, std::size_t count) {
  PACELINE_CHECK(kept.size() == sent.size(), "{} elements into {}", kept.size(), sent.size());
  Threshold threshold;
  if (count == 0) {
    threshold.magnitude = kMagnitude;
  } else if (count < kept.size()) {
    threshold = kept.size() < kWorthCounting ? threshold_by_partition(kept, count) : threshold_by_counting(kept, count);
  }
  if (threshold.magnitude == 0) threshold.equal = 0;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const std::uint32_t bits = magnitude(kept[i]);
    bool taken = bits > threshold.magnitude;
    if (bits == threshold.magnitude && threshold.equal > 0) {
      taken = true;
      --threshold.equal;
    }
    sent[i] = taken ? kept[i] : 0.0F;
    if (taken || bits == 0) kept[i] = 0.0F;
  }
}

std::size_t count_sparse(std::span<const float> values) { return static_cast<std::size_t>(std::ranges::count_if(values, is_sent)); }

std::size_t pack_sparse(std::span<const float> values, std::uint32_t first, std::size_t at, std::span<std::uint32_t> indices,
                        std::span<float> packed) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!is_sent(values[i])) continue;
    indices[at] = first + static_cast<std::uint32_t>(i);
    packed[at] = values[i];
    ++at;
  }
  return at;
}

SparseView sparse_view(std::span<const std::byte> payload) {
  const std::size_t count = payload.size() / kSparseBytes;
  return {{reinterpret_cast<const std::uint32_t*>(payload.data()), count},
          {reinterpret_cast<const float*>(payload.data() + count * sizeof(std::uint32_t)), count}};
}

std::optional<SparseView> parse_sparse(std::span<const std::byte> payload, std::size_t elements) {
  if (payload.empty() || payload.size() % kSparseBytes != 0) return std::nullopt;
  const SparseView view = sparse_view(payload);
  for (std::size_t i = 1; i < view.indices.size(); ++i) {
    if (view.indices[i] <= view.indices[i - 1]) return std::nullopt;
  }
  if (view.indices.back() >= elements) return std::nullopt;
  return view;
}

SparseSource part_of(const SparseView& whole, std::size_t first, std::size_t count) {
  const auto begin = std::ranges::lower_bound(whole.indices, first);
  const auto end = std::lower_bound(begin, whole.indices.end(), first + count);
  const auto skipped = static_cast<std::size_t>(begin - whole.indices.begin()), held = static_cast<std::size_t>(end - begin);
  return {.sparse = {whole.indices.subspan(skipped, held), whole.values.subspan(skipped, held)},
          .first = static_cast<std::uint32_t>(first)};
}

void sum_sparse(std::span<float> dst, std::span<const SparseSource> sources, double scale_by) {
  std::ranges::fill(dst, 0.0F);
  for (const SparseSource& source : sources) {
    if (!source.dense.empty()) add_into(dst, source.dense);
    for (std::size_t i = 0; i < source.sparse.indices.size(); ++i)
      dst[source.sparse.indices[i] - source.first] += source.sparse.values[i];
  }
  scale(dst, scale_by);
}

std::optional<std::size_t> first_non_finite(const SparseSource& source) {
  if (!source.dense.empty()) return first_non_finite(ConstTensorView(source.dense));
  for (std::size_t i = 0; i < source.sparse.values.size(); ++i) {
    if (!std::isfinite(source.sparse.values[i])) return source.sparse.indices[i] - source.first;
  }
  return std::nullopt;
}

float element_of(const SparseSource& source, std::size_t index) {
  if (!source.dense.empty()) return source.dense[index];
  const auto& indices = source.sparse.indices;
  const auto found = std::ranges::lower_bound(indices, index + source.first);
  PACELINE_CHECK(found != indices.end() && *found == index + source.first, "element {} is not there", index);
  return source.sparse.values[static_cast<std::size_t>(found - indices.begin())];
}

}  // namespace paceline::tensor

// The numbers that a replay trains with: initial parameters and gradients that are functions of seed, rank, iteration and index, so
// that every process can tell what the parameters must be after any number of iterations.
//
// They repeat with a period in the index, which is a prime, so that slices of equal size hold different numbers, and what one
// period must be tells what all must be: 4099 updates instead of millions. Making and comparing arrays is then as fast as memory
// is.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/quantity.h"

namespace paceline::replay {

inline constexpr std::int64_t kPeriod = 4099;

// Immutable; any thread.
class Values {
 public:
  explicit Values(std::uint64_t seed);

  // One period of the initial parameters, -1 .. 1.
  std::span<const float> initial() const { return initial_; }
  // One period of what all gradients are multiples of: 0.5 .. 1.5 in magnitude, either sign.
  std::span<const float> direction() const { return direction_; }
  // The multiple: 0.5 .. 1.5.
  float size(Rank rank, Iteration iteration) const;

  // size * direction, rounded to float32.
  float gradient(Rank rank, Iteration iteration, std::int64_t index) const;
  // One period of it.
  void make_gradient(Rank rank, Iteration iteration, std::span<float> period) const;

 private:
  std::uint64_t seed_;
  std::vector<float> initial_, direction_;
};

// to[i] = period[(offset + i) mod period's size].
void repeat(std::span<const float> period, std::int64_t offset, std::span<float> to);
// Index of the first element of `values` whose bits are not those that repeat() would have put there.
std::optional<std::size_t> first_difference(std::span<const float> period, std::int64_t offset, std::span<const float> values);

}  // namespace paceline::replay

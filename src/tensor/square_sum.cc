#include "tensor/square_sum.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace paceline::tensor {
namespace {

constexpr int kExponents = 256;
constexpr int kUnit = -298;  // twice the exponent of the smallest float
// So many 48-bit squares fit into 64 bits.
constexpr std::size_t kBlock = std::size_t{1} << 16;

// Squares by the exponent of their element. Four sets, because neighbours often have the same exponent and an addition to memory
// waits for the one before it.
using Bins = std::array<std::array<std::uint64_t, kExponents>, 4>;

void count(float value, std::array<std::uint64_t, kExponents>& bins) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t exponent = (bits >> 23) & 0xFF;
  const std::uint64_t fraction = (bits & 0x7FFFFF) | (exponent == 0 ? 0u : 0x800000u);
  bins[exponent] += fraction * fraction;
}

using Words = decltype(SquareSum::Parts::words);

// Adds addend * 2^(64 * word); false when the result has no room.
bool add_at(Words& words, std::size_t word, std::uint64_t addend) {
  for (; addend != 0; ++word) {
    if (word >= words.size()) return false;
    words[word] += addend;
    addend = words[word] < addend ? 1 : 0;
  }
  return true;
}

// Adds addend * 2^shift.
bool add_shifted(Words& words, std::uint64_t addend, int shift) {
  const std::size_t word = static_cast<std::size_t>(shift / 64);
  const int bit = shift % 64;
  if (!add_at(words, word, addend << bit)) return false;
  return bit == 0 || add_at(words, word + 1, addend >> (64 - bit));
}

}  // namespace

void SquareSum::add(std::span<const float> values) {
  while (!values.empty()) {
    const std::span<const float> block = values.first(std::min(values.size(), kBlock));
    values = values.subspan(block.size());
    Bins bins{};
    std::size_t i = 0;
    for (; i + 4 <= block.size(); i += 4) {
      for (std::size_t k = 0; k < 4; ++k) count(block[i + k], bins[k]);
    }
    for (; i < block.size(); ++i) count(block[i], bins[0]);

    for (int exponent = 0; exponent < kExponents; ++exponent) {
      // No more than kBlock squares in all four together.
      std::uint64_t sum = 0;
      for (const auto& set : bins) sum += set[static_cast<std::size_t>(exponent)];
      if (sum == 0) continue;
      // Exponent 0: below the normal range, same unit as 1. The last one: infinity or NaN.
      const bool added = exponent < kExponents - 1 && add_shifted(parts_.words, sum, 2 * (std::max(exponent, 1) - 1));
      if (!added) parts_.finite = false;
    }
  }
}

void SquareSum::add(const SquareSum& other) {
  const Parts theirs = other.parts_;  // `other` may be this
  bool fits = true;
  for (std::size_t word = 0; word < theirs.words.size(); ++word) fits = add_at(parts_.words, word, theirs.words[word]) && fits;
  parts_.finite = parts_.finite && theirs.finite && fits;
}

double SquareSum::value() const {
  if (!parts_.finite) return std::numeric_limits<double>::quiet_NaN();
  const auto& words = parts_.words;
  int top = static_cast<int>(words.size()) - 1;
  while (top > 0 && words[static_cast<std::size_t>(top)] == 0) --top;
  const auto word = [&](int index) { return index < 0 ? 0 : words[static_cast<std::size_t>(index)]; };
  // The 64 bits from the highest one that is set, and one more bit at the end for whatever lies below: rounding them to 53 rounds the
  // whole number.
  const int zeros = std::countl_zero(word(top));
  if (zeros == 64) return 0;
  std::uint64_t leading = word(top) << zeros;
  std::uint64_t below = word(top - 1);
  if (zeros != 0) {
    leading |= below >> (64 - zeros);
    below <<= zeros;
  }
  for (int i = top - 2; i >= 0; --i) below |= word(i);
  if (below != 0) leading |= 1;
  return std::ldexp(static_cast<double>(leading), 64 * top - zeros + kUnit);
}

double square_sum(std::span<const float> values) {
  SquareSum sum;
  sum.add(values);
  return sum.value();
}

double clip_factor(double squares, double clip_norm) {
  const double norm = std::sqrt(squares);
  return norm <= clip_norm ? 1 : clip_norm / norm;
}

}  // namespace paceline::tensor

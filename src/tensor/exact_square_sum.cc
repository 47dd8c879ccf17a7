#include "tensor/exact_square_sum.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace paceline::tensor {
namespace {

constexpr std::size_t kBanks = 4;         // so that equal exponents in a row do not wait for each other
constexpr std::size_t kBlock = 1U << 16;  // squares of 48 bits that a 64-bit bin holds
constexpr int kUnit = -298;               // the sum is an integer times 2^kUnit
constexpr unsigned kMantissaBits = 23;
constexpr std::uint32_t kHidden = 1U << kMantissaBits;
constexpr std::uint32_t kSpecial = 255;  // exponent field of infinities and NaNs

}  // namespace

void ExactSquareSum::add_shifted(std::uint64_t value, unsigned shift) {
  std::size_t limb = shift / 64;
  const unsigned bits = shift % 64;
  const std::uint64_t parts[2] = {value << bits, bits == 0 ? 0 : value >> (64 - bits)};
  std::uint64_t carry = 0;
  for (std::size_t i = 0; limb < kLimbs && (i < 2 || carry != 0); ++i, ++limb) {
    const std::uint64_t part = i < 2 ? parts[i] : 0;
    const std::uint64_t with_part = limbs_[limb] + part;
    limbs_[limb] = with_part + carry;
    carry = static_cast<std::uint64_t>(with_part < part) + static_cast<std::uint64_t>(limbs_[limb] < with_part);
  }
}

void ExactSquareSum::add(std::span<const float> values) {
  while (!values.empty()) {
    const auto block = values.first(std::min(values.size(), kBlock));
    values = values.subspan(block.size());
    // bins[bank][exponent field]: sum of the squared integer mantissas.
    std::uint64_t bins[kBanks][256] = {};
    for (std::size_t i = 0; i < block.size(); ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(block[i]);
      const std::uint32_t exponent = (bits >> kMantissaBits) & 0xff;
      const std::uint64_t mantissa = (bits & (kHidden - 1)) | (exponent == 0 ? 0 : kHidden);
      bins[i % kBanks][exponent] += mantissa * mantissa;
    }
    for (std::uint32_t exponent = 0; exponent < kSpecial; ++exponent) {
      const std::uint64_t sum = bins[0][exponent] + bins[1][exponent] + bins[2][exponent] + bins[3][exponent];
      // Mantissa times 2^(exponent - 150); subnormals have the exponent of field 1.
      if (sum != 0) add_shifted(sum, 2 * (std::max(exponent, 1U) - 1));
    }
    const bool special = bins[0][kSpecial] + bins[1][kSpecial] + bins[2][kSpecial] + bins[3][kSpecial] != 0;
    if (special) {
      for (const float value : block) {
        nan_ = nan_ || std::isnan(value);
        infinite_ = infinite_ || std::isinf(value);
      }
    }
  }
}

void ExactSquareSum::add(const ExactSquareSum& other) {
  std::uint64_t carry = 0;
  for (std::size_t limb = 0; limb < kLimbs; ++limb) {
    const std::uint64_t sum = limbs_[limb] + other.limbs_[limb];
    const std::uint64_t carried = static_cast<std::uint64_t>(sum < other.limbs_[limb]);
    limbs_[limb] = sum + carry;
    carry = carried + static_cast<std::uint64_t>(limbs_[limb] < sum);
  }
  infinite_ = infinite_ || other.infinite_;
  nan_ = nan_ || other.nan_;
}

double ExactSquareSum::value() const {
  if (nan_) return std::numeric_limits<double>::quiet_NaN();
  if (infinite_) return std::numeric_limits<double>::infinity();
  std::size_t top = kLimbs;
  while (top > 0 && limbs_[top - 1] == 0) --top;
  if (top == 0) return 0;
  // The 64 leading bits; whether anything is left below them goes into the lowest bit, far under the rounding position.
  const std::uint64_t high = limbs_[top - 1];
  const auto shift = static_cast<unsigned>(std::countl_zero(high));
  std::uint64_t leading = high << shift;
  bool rest = false;
  if (top >= 2) {
    const std::uint64_t below = limbs_[top - 2];
    if (shift != 0) leading |= below >> (64 - shift);
    rest = (below << shift) != 0;
    for (std::size_t limb = 0; limb + 2 < top; ++limb) rest = rest || limbs_[limb] != 0;
  }
  if (rest) leading |= 1;
  const int exponent = kUnit + 64 * (static_cast<int>(top) - 1) - static_cast<int>(shift);
  return std::ldexp(static_cast<double>(leading), exponent);  // the conversion rounds to nearest even; ldexp is exact here
}

void ExactSquareSum::write(std::span<std::byte, kSquareSumBytes> to) const {
  static_assert(kSquareSumBytes == (kLimbs + 1) * sizeof(std::uint64_t));
  std::uint64_t words[kLimbs + 1];
  std::copy(limbs_.begin(), limbs_.end(), words);
  words[kLimbs] = (infinite_ ? 1U : 0U) | (nan_ ? 2U : 0U);
  static_assert(std::endian::native == std::endian::little);
  std::memcpy(to.data(), words, sizeof words);
}

ExactSquareSum ExactSquareSum::read(std::span<const std::byte, kSquareSumBytes> from) {
  std::uint64_t words[kLimbs + 1];
  std::memcpy(words, from.data(), sizeof words);
  ExactSquareSum sum;
  std::copy_n(words, kLimbs, sum.limbs_.begin());
  sum.infinite_ = (words[kLimbs] & 1) != 0;
  sum.nan_ = (words[kLimbs] & 2) != 0;
  return sum;
}

float clip_coefficient(const ExactSquareSum& squares, double limit) {
  const double norm = std::sqrt(squares.value());
  const double coefficient = limit / (norm + 1e-6);
  return static_cast<float>(coefficient > 1 ? 1.0 : coefficient);  // a NaN passes
}

}  // namespace paceline::tensor

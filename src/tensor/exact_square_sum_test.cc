#include "tensor/exact_square_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace paceline::tensor {
namespace {

// The sum as a number of 800 binary digits, one array element each, added as on paper: the bit of 2^(-300 + i) is digits[i].
class PaperSum {
 public:
  void add_square(float value) {
    int exponent = 0;
    const auto mantissa = static_cast<std::uint64_t>(std::ldexp(std::frexp(std::abs(value), &exponent), 24));
    const std::uint64_t square = mantissa * mantissa;
    for (int bit = 0; bit < 48; ++bit) {
      // frexp's mantissas of subnormals have zeros at the end, so that no bit falls below 2^-298.
      if ((square >> bit & 1) != 0) add_bit(2 * (exponent - 24) + bit + 300);
    }
  }
  double rounded() const {
    int top = 799;
    while (top >= 0 && !digits_[static_cast<std::size_t>(top)]) --top;
    if (top < 0) return 0;
    std::uint64_t kept = 0;
    for (int i = 0; i < 53; ++i) kept = kept * 2 + (top - i >= 0 && digits_[static_cast<std::size_t>(top - i)] ? 1 : 0);
    const bool half = top - 53 >= 0 && digits_[static_cast<std::size_t>(top - 53)];
    bool more = false;
    for (int i = 0; i < top - 53; ++i) more = more || digits_[static_cast<std::size_t>(i)];
    if (half && (more || kept % 2 == 1)) ++kept;
    return std::ldexp(static_cast<double>(kept), top - 52 - 300);
  }

 private:
  void add_bit(int at) {
    auto i = static_cast<std::size_t>(at);
    while (digits_[i]) digits_[i++] = false;
    digits_[i] = true;
  }
  std::vector<bool> digits_ = std::vector<bool>(800, false);
};

float random_float(std::mt19937_64& random, int mode) {
  if (mode == 0) {  // any finite bit pattern, subnormals included
    auto bits = static_cast<std::uint32_t>(random());
    if ((bits >> 23 & 0xff) == 255) bits &= ~(1U << 23);
    if (random() % 4 == 0) bits &= 0x807fffff;
    return std::bit_cast<float>(bits);
  }
  return std::ldexp(static_cast<float>(random() % 1000) - 500, static_cast<int>(random() % 20) - 30);
}

TEST(ExactSquareSum, IsTheExactSumRoundedOnce) {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<float> values(random() % 40);
    for (float& value : values) value = random_float(random, static_cast<int>(seed % 2));
    PaperSum paper;
    for (const float value : values) paper.add_square(value);
    ExactSquareSum sum;
    sum.add(values);
    ASSERT_EQ(sum.value(), paper.rounded()) << "seed " << seed;
  }
}

TEST(ExactSquareSum, DoesNotDependOnOrderOrPieces) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<float> values(200'000);
    for (float& value : values) value = random_float(random, static_cast<int>(seed % 2));
    ExactSquareSum whole;
    whole.add(values);
    std::ranges::shuffle(values, random);
    ExactSquareSum parts[3];
    for (std::size_t begin = 0; begin < values.size();) {
      const std::size_t size = std::min<std::size_t>(values.size() - begin, random() % 70'000);
      parts[random() % 3].add(std::span(values).subspan(begin, size));
      begin += size;
    }
    std::array<std::byte, kSquareSumBytes> bytes;
    parts[2].write(bytes);
    ExactSquareSum together = ExactSquareSum::read(bytes);
    together.add(parts[0]);
    together.add(parts[1]);
    ASSERT_EQ(together, whole) << "seed " << seed;
    ASSERT_EQ(together.value(), whole.value());
  }
}

TEST(ExactSquareSum, HoldsManyOfTheLargestAndTheSmallest) {
  const std::vector<float> largest(300'000, std::numeric_limits<float>::max()), smallest(300'000, std::numeric_limits<float>::denorm_min());
  ExactSquareSum sum;
  sum.add(smallest);
  EXPECT_EQ(sum.value(), std::ldexp(300'000.0, -298));
  sum.add(largest);
  const auto max = static_cast<double>(std::numeric_limits<float>::max());
  EXPECT_EQ(sum.value(), max * max * 300'000);  // the square is exact in a double; the product rounds once
}

TEST(ExactSquareSum, RemembersInfinitiesAndNaNs) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> with_infinity = {1, -infinity}, with_both = {std::nanf(""), infinity}, fine = {3, 4};
  ExactSquareSum sum;
  EXPECT_EQ(sum.value(), 0);
  sum.add(fine);
  EXPECT_EQ(sum.value(), 25);
  EXPECT_TRUE(sum.finite());
  ExactSquareSum other;
  other.add(with_infinity);
  EXPECT_FALSE(other.finite());
  EXPECT_EQ(other.value(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(clip_coefficient(other, 1), 0.0F);
  sum.add(other);
  EXPECT_FALSE(sum.finite());
  sum.add(with_both);
  EXPECT_TRUE(std::isnan(sum.value()));
  EXPECT_TRUE(std::isnan(clip_coefficient(sum, 1)));
  ExactSquareSum marked;
  marked.mark_nan();
  std::array<std::byte, kSquareSumBytes> bytes;
  marked.write(bytes);
  EXPECT_FALSE(ExactSquareSum::read(bytes).finite());
}

TEST(ClipCoefficient, IsOneForSmallNormsAndShrinksLargeOnesToTheLimit) {
  const std::vector<float> values = {3, 4};
  ExactSquareSum sum;
  sum.add(values);
  EXPECT_EQ(clip_coefficient(sum, 5.1), 1.0F);
  EXPECT_EQ(clip_coefficient(sum, 5), static_cast<float>(5 / (5 + 1e-6)));
  EXPECT_EQ(clip_coefficient(sum, 1), static_cast<float>(1 / (5 + 1e-6)));
  EXPECT_EQ(clip_coefficient(ExactSquareSum(), 1), 1.0F);
}

}  // namespace
}  // namespace paceline::tensor

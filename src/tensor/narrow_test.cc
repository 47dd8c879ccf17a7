#include "tensor/narrow.h"

#include "tensor/testing.h"

namespace paceline::tensor {
namespace {

using testing::all_same;
using testing::on_every_target;

constexpr std::size_t kRoom = 96;  // offsets 0..15 and lengths 0..67 leave elements on both sides that must not change

template <typename T>
T rounded(float value) {
  if constexpr (std::is_same_v<T, Float16>) {
    return to_float16(value);
  } else {
    return to_bfloat16(value);
  }
}

template <typename T>
std::vector<T> uglies(std::mt19937_64& random) {
  std::vector<T> values(kRoom);
  for (T& value : values) value = rounded<T>(testing::ugly_float(random));
  return values;
}

template <typename T>
class Narrow : public ::testing::Test {};
using HalfTypes = ::testing::Types<Float16, BFloat16>;
TYPED_TEST_SUITE(Narrow, HalfTypes);

TYPED_TEST(Narrow, RoundsEachProductAtEveryLengthAndOffset) {
  std::mt19937_64 random(11);
  const std::vector<float> source = testing::ugly_floats(kRoom, random);
  const auto untouched = uglies<TypeParam>(random);
  on_every_target([&] {
    for (const float factor : {1.0f, 64.0f, 16777216.0f}) {
      for (std::size_t offset = 0; offset < 16; ++offset) {
        for (std::size_t n = 0; n <= 67; ++n) {
          auto found = untouched, expected = untouched;
          for (std::size_t i = 0; i < n; ++i) expected[offset + i] = rounded<TypeParam>(source[i + 5] * factor);
          narrow(std::span(found).subspan(offset, n), std::span(source).subspan(5, n), factor);
          ASSERT_TRUE(all_same(found, expected)) << n << " at " << offset << " times " << factor;
        }
      }
    }
  });
}

// The values' way, with and without an own offset of the source.
TYPED_TEST(Narrow, ConvertsBothWaysAtEveryLengthAndOffset) {
  std::mt19937_64 random(12);
  const std::vector<float> wide = testing::ugly_floats(kRoom, random);
  const auto halves = uglies<TypeParam>(random);
  on_every_target([&] {
    for (std::size_t offset = 0; offset < 16; ++offset) {
      for (std::size_t n = 0; n <= 67; ++n) {
        auto found_wide = wide, expected_wide = wide;
        for (std::size_t i = 0; i < n; ++i) expected_wide[offset + i] = to_float(halves[i + 3]);
        convert(std::span(found_wide).subspan(offset, n), std::span(halves).subspan(3, n));
        ASSERT_TRUE(all_same(found_wide, expected_wide)) << n << " at " << offset;
        auto found = halves, expected = halves;
        for (std::size_t i = 0; i < n; ++i) expected[offset + i] = rounded<TypeParam>(wide[i + 3]);
        convert(std::span(found).subspan(offset, n), std::span(wide).subspan(3, n));
        ASSERT_TRUE(all_same(found, expected)) << n << " at " << offset;
      }
    }
  });
}

TYPED_TEST(Narrow, SumsInFloat32InTheOrderOfTheSources) {
  std::mt19937_64 random(13);
  for (const std::size_t workers : {1, 2, 3, 7}) {
    std::vector<std::vector<TypeParam>> sources;
    for (std::size_t k = 0; k < workers; ++k) sources.push_back(uglies<TypeParam>(random));
    const double scale = 1.0 / static_cast<double>(workers) / 64;
    const std::vector<float> untouched = testing::ugly_floats(kRoom, random);
    on_every_target([&] {
      for (std::size_t offset = 0; offset < 16; ++offset) {
        for (std::size_t n = 0; n <= 67; ++n) {
          auto found = untouched, expected = untouched;
          std::vector<ConstTensorView> views;
          for (const auto& source : sources) views.emplace_back(std::span(source).subspan(offset, n));
          for (std::size_t i = 0; i < n; ++i) {
            float sum = to_float(sources[0][offset + i]);
            for (std::size_t k = 1; k < workers; ++k) sum += to_float(sources[k][offset + i]);
            expected[i + 7] = sum * static_cast<float>(scale);
          }
          sum_widened(std::span(found).subspan(7, n), views, scale);
          ASSERT_TRUE(all_same(found, expected)) << n << " at " << offset << " of " << workers;
        }
      }
    });
  }
}

// 2048 + 1 is no float16, nor is 256 + 1 a bfloat16: sums in the narrow type would lose the ones.
TYPED_TEST(Narrow, AddsWithoutRoundingToTheNarrowType) {
  const std::vector<TypeParam> large(5, rounded<TypeParam>(2048)), one(5, rounded<TypeParam>(1));
  const std::vector<ConstTensorView> sources = {std::span(large), std::span(one), std::span(one)};
  std::vector<float> sum(5);
  sum_widened(sum, sources, 1);
  EXPECT_EQ(sum, std::vector<float>(5, 2050));
}

TEST(SumWidened, OfFloatsIsTheSumInRankOrder) {
  const std::vector<float> large(9, 1e8f), one(9, 1), minus(9, -1e8f);
  const std::vector<ConstTensorView> sources = {std::span(large), std::span(one), std::span(minus)};
  std::vector<float> sum(9);
  sum_widened(sum, sources, 0.5);
  EXPECT_EQ(sum, std::vector<float>(9, 0)) << "1e8 + 1 is 1e8";
}

}  // namespace
}  // namespace paceline::tensor

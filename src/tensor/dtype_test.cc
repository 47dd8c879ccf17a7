#include "tensor/dtype.h"

#include "tensor/testing.h"

namespace paceline::tensor {
namespace {

using testing::all_same;
using testing::on_every_target;
using testing::same;

// The value of a half by its definition, sign * fraction * 2^exponent; infinity is what would come next.
double value_of(Float16 half) {
  const int exponent = (half.bits >> 10) & 31;
  const int fraction = half.bits & 1023;
  const double magnitude = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return (half.bits & 0x8000) != 0 ? -magnitude : magnitude;
}
double value_of(BFloat16 half) {
  const int exponent = (half.bits >> 7) & 255;
  const int fraction = half.bits & 127;
  const double magnitude = exponent == 0 ? std::ldexp(fraction, -133) : std::ldexp(128 + fraction, exponent - 134);
  return (half.bits & 0x8000) != 0 ? -magnitude : magnitude;
}

template <typename Half>
struct Traits;
template <>
struct Traits<Float16> {
  static constexpr std::uint16_t kInfinity = 0x7C00;
  static Float16 from(float value) { return to_float16(value); }
};
template <>
struct Traits<BFloat16> {
  static constexpr std::uint16_t kInfinity = 0x7F80;
  static BFloat16 from(float value) { return to_bfloat16(value); }
};

// The nearest by bisection over all non-negative halves, infinity standing for the value that would follow the largest.
template <typename Half>
Half nearest_half(float value) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return Half{0x7FFF};
  const double magnitude = std::fabs(static_cast<double>(value));
  std::uint16_t low = 0, high = Traits<Half>::kInfinity;
  if (magnitude >= value_of(Half{high})) return Half{static_cast<std::uint16_t>(sign | high)};
  while (high - low > 1) {
    const std::uint16_t middle = static_cast<std::uint16_t>((low + high) / 2);
    (value_of(Half{middle}) <= magnitude ? low : high) = middle;
  }
  const double below = magnitude - value_of(Half{low}), above = value_of(Half{high}) - magnitude;
  const std::uint16_t chosen = below < above || (below == above && low % 2 == 0) ? low : high;
  return Half{static_cast<std::uint16_t>(sign | chosen)};
}

template <typename Half>
class Halves : public ::testing::Test {};
using HalfTypes = ::testing::Types<Float16, BFloat16>;
TYPED_TEST_SUITE(Halves, HalfTypes);

TYPED_TEST(Halves, BecomeTheFloatTheyStandFor) {
  on_every_target([] {
    std::vector<TypeParam> halves(65536);
    for (std::size_t i = 0; i < halves.size(); ++i) halves[i].bits = static_cast<std::uint16_t>(i);
    std::vector<float> floats(halves.size());
    convert(std::span<float>(floats), std::span<const TypeParam>(halves));
    for (std::size_t i = 0; i < halves.size(); ++i) {
      const std::uint16_t magnitude = halves[i].bits & 0x7FFF;
      if (magnitude > Traits<TypeParam>::kInfinity) {
        ASSERT_TRUE(std::isnan(floats[i])) << i;
      } else if (magnitude == Traits<TypeParam>::kInfinity) {
        ASSERT_TRUE(std::isinf(floats[i])) << i;
      } else {
        ASSERT_EQ(static_cast<double>(floats[i]), value_of(halves[i])) << i;
      }
      ASSERT_EQ(std::signbit(floats[i]), i >= 0x8000) << i;
      ASSERT_TRUE(same(to_float(halves[i]), floats[i])) << i;
    }
  });
}

TYPED_TEST(Halves, SurviveTheWayToFloatAndBack) {
  on_every_target([] {
    std::vector<TypeParam> halves(65536), back(65536);
    for (std::size_t i = 0; i < halves.size(); ++i) halves[i].bits = static_cast<std::uint16_t>(i);
    std::vector<float> floats(halves.size());
    convert(std::span<float>(floats), std::span<const TypeParam>(halves));
    convert(std::span<TypeParam>(back), std::span<const float>(floats));
    EXPECT_TRUE(all_same(back, halves));
  });
}

// Around every half: itself, the middle to the next one, and the floats beside the middle; and random bits.
TYPED_TEST(Halves, AreTheNearestToAFloatWithTiesToEven) {
  std::vector<float> floats;
  for (std::uint16_t bits = 0; bits < Traits<TypeParam>::kInfinity; ++bits) {
    const float value = static_cast<float>(value_of(TypeParam{bits}));
    const double next = value_of(TypeParam{static_cast<std::uint16_t>(bits + 1)});  // beyond float for the largest bfloat16
    const float middle = static_cast<float>((static_cast<double>(value) + next) / 2);
    for (const float each : {value, middle, std::nextafter(middle, 0.0f), std::nextafter(middle, INFINITY)}) {
      floats.push_back(each);
      floats.push_back(-each);
    }
  }
  std::mt19937_64 random(7);
  for (int i = 0; i < 100'000; ++i) floats.push_back(testing::ugly_float(random));
  for (int i = 0; i < 100'000; ++i) floats.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  std::vector<TypeParam> expected(floats.size()), found(floats.size());
  for (std::size_t i = 0; i < floats.size(); ++i) expected[i] = nearest_half<TypeParam>(floats[i]);
  on_every_target([&] {
    convert(std::span<TypeParam>(found), std::span<const float>(floats));
    EXPECT_TRUE(all_same(found, expected));
    for (std::size_t i = 0; i < floats.size(); i += 97)
      ASSERT_TRUE(same(Traits<TypeParam>::from(floats[i]), expected[i])) << floats[i];
  });
}

TYPED_TEST(Halves, KeepSignAndUpperPayloadOfANan) {
  on_every_target([] {
    const TypeParam half = Traits<TypeParam>::from(std::bit_cast<float>(0xFF812345u));  // signalling
    EXPECT_TRUE(std::isnan(to_float(half)));
    EXPECT_TRUE(std::signbit(to_float(half)));
    const int dropped = std::is_same_v<TypeParam, Float16> ? 13 : 16;
    const int quiet = std::is_same_v<TypeParam, Float16> ? 0x200 : 0x40;
    const int payload = std::is_same_v<TypeParam, Float16> ? 0x3FF : 0x7F;
    EXPECT_EQ(half.bits & payload, ((0x012345 >> dropped) & payload) | quiet);
  });
}

TEST(Float16, OverflowsFromHalfAUnitAboveTheLargest) {
  EXPECT_EQ(to_float16(65504).bits, 0x7BFF);
  EXPECT_EQ(to_float16(65519.996f).bits, 0x7BFF);
  EXPECT_EQ(to_float16(65520).bits, 0x7C00);
  EXPECT_EQ(to_float16(-1e30f).bits, 0xFC00);
}

TEST(Float16, KeepsTheSmallestAndRoundsHalfOfItToZero) {
  EXPECT_EQ(to_float16(std::ldexp(1.0f, -24)).bits, 0x0001);
  EXPECT_EQ(to_float16(std::ldexp(1.0f, -25)).bits, 0x0000);
  EXPECT_EQ(to_float16(-std::nextafter(std::ldexp(1.0f, -25), 1.0f)).bits, 0x8001);
}

TEST(Convert, TouchesExactlyItsElementsAtEveryLengthAndOffset) {
  std::mt19937_64 random(11);
  const std::vector<float> floats = testing::ordinary_floats(96, random);
  on_every_target([&] {
    for (std::size_t offset = 0; offset < 16; ++offset) {
      for (std::size_t n = 0; n <= 67; ++n) {
        std::vector<Float16> halves(96, Float16{0x1234}), expected = halves;
        std::vector<BFloat16> others(96, BFloat16{0x1234}), expected_others = others;
        for (std::size_t i = 0; i < n; ++i) {
          expected[offset + i] = nearest_half<Float16>(floats[i + 3]);
          expected_others[i] = nearest_half<BFloat16>(static_cast<float>(value_of(expected[offset + i])));
        }
        const auto target = std::span(halves).subspan(offset, n);
        convert(target, std::span(floats).subspan(3, n));
        ASSERT_TRUE(all_same(halves, expected)) << n << " at " << offset;
        convert(std::span(others).first(n), target);
        ASSERT_TRUE(all_same(others, expected_others)) << n << " at " << offset;
      }
    }
  });
}

TEST(Convert, CopiesBetweenEqualTypes) {
  const std::vector<std::int32_t> from = {1, -2, 3};
  std::vector<std::int32_t> to(3);
  convert(std::span(to), std::span(from));
  EXPECT_EQ(to, from);
}

TEST(ConvertDeathTest, AbortsOnDifferentLengthsAndOnTypesItDoesNotKnow) {
  std::vector<float> floats(3);
  std::vector<std::int32_t> ints(3);
  EXPECT_DEATH(convert(std::span(floats).first(2), std::span<const float>(floats)), "3 elements into 2");
  EXPECT_DEATH(convert(std::span(floats), std::span<const std::int32_t>(ints)), "from int32 to float32");
}

TEST(DType, HasASize) {
  const std::size_t sizes[] = {4, 8, 4, 2, 2};
  for (std::uint8_t i = 0; i < kDTypeCount; ++i) {
    ASSERT_TRUE(is_dtype(i));
    EXPECT_EQ(size_of(static_cast<DType>(i)), sizes[i]);
  }
  EXPECT_FALSE(is_dtype(kDTypeCount));
  EXPECT_FALSE(is_dtype(255));
}

TEST(TensorView, SlicesByElements) {
  std::vector<double> values = {0, 1, 2, 3};
  const TensorView view{std::span(values)};
  EXPECT_EQ(view.dtype(), DType::kFloat64);
  EXPECT_EQ(view.size().count, 32);
  EXPECT_EQ(view.slice(1, 2).as<double>()[1], 2);
  view.slice(3, 1).as<double>()[0] = 7;
  EXPECT_EQ(values[3], 7);
  EXPECT_EQ(view.slice(4, 0).elements(), 0u);
  const ConstTensorView readable = view;
  EXPECT_EQ(readable.slice(1, 3).as<double>()[0], 1);
}

TEST(TensorViewDeathTest, AbortsOnMisuse) {
  std::vector<float> values(4);
  const TensorView view{std::span(values)};
  EXPECT_DEATH(view.slice(3, 2), "slice 3\\+2 of 4");
  EXPECT_DEATH(view.slice(5, 0), "slice 5\\+0 of 4");
  EXPECT_DEATH(view.slice(1, SIZE_MAX), "of 4 elements");
  EXPECT_DEATH(view.as<std::int32_t>(), "float32 used as int32");
  EXPECT_DEATH(ConstTensorView(nullptr, DType::kFloat32, 1), "no memory");
  EXPECT_DEATH(ConstTensorView(reinterpret_cast<const std::byte*>(values.data()) + 2, DType::kFloat32, 1), "misaligned");
}

}  // namespace
}  // namespace paceline::tensor

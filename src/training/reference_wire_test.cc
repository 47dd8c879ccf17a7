#include "training/reference_wire.h"

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "tensor/dtype.h"

namespace paceline::training {
namespace {

using job::WireKind;
using job::WireOptions;

float by_kernel(WireKind kind, float value) {
  return kind == WireKind::kFloat16 ? tensor::to_float(tensor::to_float16(value)) : tensor::to_float(tensor::to_bfloat16(value));
}

// Two implementations that share nothing: this one in double arithmetic, the kernels' on bits.
TEST(ReferenceWire, RoundsEveryFloatAsTheKernelsDo) {
  std::mt19937_64 random(3);
  for (const WireKind kind : {WireKind::kBFloat16, WireKind::kFloat16}) {
    for (int i = 0; i < 300'000; ++i) {
      const auto bits = static_cast<std::uint32_t>(random());
      // Also with low bits near the middle between two halves.
      const int low = kind == WireKind::kFloat16 ? 13 : 16;
      const std::uint32_t tie = ((bits >> low) << low) | (1U << (low - 1));
      for (const std::uint32_t each : {bits, tie, tie - 1, tie + 1}) {
        const auto value = std::bit_cast<float>(each);
        const float expected = by_kernel(kind, value), found = reference_rounded({.kind = kind}, value);
        if (std::isnan(value)) {
          ASSERT_TRUE(std::isnan(found) && std::isnan(expected));
        } else {
          ASSERT_EQ(std::bit_cast<std::uint32_t>(found), std::bit_cast<std::uint32_t>(expected)) << value;
        }
      }
    }
  }
}

TEST(ReferenceWire, KnowsTheCornersByTheirDefinition) {
  const WireOptions half{.kind = WireKind::kFloat16}, brain{.kind = WireKind::kBFloat16};
  EXPECT_EQ(reference_rounded(half, 65519.0f), 65504.0f);
  EXPECT_TRUE(std::isinf(reference_rounded(half, -65520.0f)));
  EXPECT_EQ(reference_rounded(half, 2049.0f), 2048.0f) << "a tie goes to the even one";
  EXPECT_EQ(reference_rounded(half, 2051.0f), 2052.0f);
  EXPECT_EQ(reference_rounded(half, 0x1p-25f), 0.0f) << "half of the smallest, a tie";
  EXPECT_EQ(reference_rounded(half, 0x1.8p-25f), 0x1p-24f);
  EXPECT_TRUE(std::signbit(reference_rounded(half, -0x1p-30f)));
  EXPECT_EQ(reference_rounded(brain, 257.0f), 256.0f);
  EXPECT_EQ(reference_rounded(brain, 259.0f), 260.0f);
  EXPECT_TRUE(std::isinf(reference_rounded(brain, std::numeric_limits<float>::max())));
  EXPECT_EQ(reference_rounded({}, 257.123f), 257.123f);
}

TEST(ReferenceWire, ALossScaleSavesASmallGradient) {
  EXPECT_EQ(reference_sent({.kind = WireKind::kFloat16}, 0x1p-30f), 0.0f);
  EXPECT_EQ(reference_sent({.kind = WireKind::kFloat16, .loss_scale = 1024}, 0x1p-30f), 0x1p-20f);
}

}  // namespace
}  // namespace paceline::training

// For the tests of this folder: every instruction set in turn, numbers that kernels stumble over, comparison of bits.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hwy/highway.h"
#include "tensor/dtype.h"

namespace paceline::tensor::testing {

// Runs `body` once for every instruction set that was compiled and that this machine has; failures name it. One thread.
template <class Body>
void on_every_target(Body body) {
  const std::vector<std::int64_t> targets = hwy::SupportedAndGeneratedTargets();
  ASSERT_GE(targets.size(), 1u);
  for (const std::int64_t target : targets) {
    SCOPED_TRACE(std::string("on ") + hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body();
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
}

// Mostly ordinary values; one in eight is a zero, subnormal, huge, infinite or NaN, or any bits at all.
inline float ugly_float(std::mt19937_64& random) {
  const std::uint64_t draw = random();
  const float ordinary = std::normal_distribution<float>(0, 1)(random);
  const float sign = (draw & 64) != 0 ? -1.0f : 1.0f;
  switch (draw % 64) {
    case 0:
      return sign * 0.0f;
    case 1:
      return sign * std::numeric_limits<float>::denorm_min() * static_cast<float>((draw >> 8) % 1000);
    case 2:
      return sign * std::numeric_limits<float>::max();
    case 3:
      return sign * std::numeric_limits<float>::infinity();
    case 4:
      return std::numeric_limits<float>::quiet_NaN();
    case 5:
    case 6:
    case 7:
      return std::bit_cast<float>(static_cast<std::uint32_t>(draw >> 32));
    default:
      return ordinary;
  }
}

inline std::vector<float> ordinary_floats(std::size_t n, std::mt19937_64& random) {
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

inline std::vector<float> ugly_floats(std::size_t n, std::mt19937_64& random) {
  std::vector<float> values(n);
  for (float& value : values) value = ugly_float(random);
  return values;
}

// Equal bits, or NaN both: a NaN's payload is not part of the contract.
inline bool same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}
inline bool same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}
inline bool same(std::int32_t a, std::int32_t b) { return a == b; }
inline bool same(Float16 a, Float16 b) { return a == b || ((a.bits & 0x7FFF) > 0x7C00 && (b.bits & 0x7FFF) > 0x7C00); }
inline bool same(BFloat16 a, BFloat16 b) { return a == b || ((a.bits & 0x7FFF) > 0x7F80 && (b.bits & 0x7FFF) > 0x7F80); }

template <typename T>
::testing::AssertionResult all_same(std::span<const T> found, std::span<const T> expected) {
  if (found.size() != expected.size()) return ::testing::AssertionFailure() << found.size() << " elements, not " << expected.size();
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!same(found[i], expected[i]))
      return ::testing::AssertionFailure() << "element " << i << " of " << found.size() << " differs";
  }
  return ::testing::AssertionSuccess();
}
template <typename T>
::testing::AssertionResult all_same(const std::vector<T>& found, const std::vector<T>& expected) {
  return all_same(std::span<const T>(found), std::span<const T>(expected));
}

}  // namespace paceline::tensor::testing

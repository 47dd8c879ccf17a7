#include "training/reference_wire.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace paceline::training {
namespace {

// Binary floating point: so many significant bits, normal numbers from 2^least to below 2^(most + 1).
struct Format {
  int bits = 0, least = 0, most = 0;
};
constexpr Format kBFloat16{8, -126, 127}, kFloat16{11, -14, 15};

// In double, where the division by a power of two and the product are exact.
float nearest(const Format& format, float value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const int exponent = std::max(std::ilogb(value), format.least);
  const double unit = std::ldexp(1.0, exponent - (format.bits - 1));
  const double rounded = std::nearbyint(static_cast<double>(value) / unit) * unit;
  if (std::abs(rounded) < std::ldexp(1.0, format.most + 1)) return static_cast<float>(rounded);
  return std::copysign(std::numeric_limits<float>::infinity(), value);
}

}  // namespace

float reference_rounded(const job::WireOptions& wire, float value) {
  if (wire.type() == tensor::DType::kBFloat16) return nearest(kBFloat16, value);
  if (wire.type() == tensor::DType::kFloat16) return nearest(kFloat16, value);
  return value;
}

float reference_sent(const job::WireOptions& wire, float gradient) {
  return reference_rounded(wire, gradient * static_cast<float>(wire.loss_scale));
}

}  // namespace paceline::training

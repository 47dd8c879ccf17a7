#include "paramserver/core/wire_options.h"

#include <cmath>
#include <vector>

#include "base/text.h"

namespace paceline::paramserver {
namespace {

// By WireKind.
const std::vector<std::string>& names() {
  static const std::vector<std::string> all = {"float32", "bfloat16", "float16"};
  return all;
}

}  // namespace

tensor::DType WireOptions::type() const {
  switch (kind) {
    case WireKind::kBFloat16:
      return tensor::DType::kBFloat16;
    case WireKind::kFloat16:
      return tensor::DType::kFloat16;
    case WireKind::kFloat32:
      break;
  }
  return tensor::DType::kFloat32;
}

Result<WireOptions> parse_wire(std::string_view text) {
  for (std::size_t i = 0; i < names().size(); ++i) {
    if (text == names()[i]) return WireOptions{.kind = static_cast<WireKind>(i)};
  }
  return error(ErrorKind::kBadRequest, "--wire '{}' is illegal{}; legal: float32, bfloat16, float16", text,
               suggestion(text, names()));
}

std::string WireOptions::text() const { return names()[static_cast<std::size_t>(kind)]; }

Result<WireOptions> validated(WireOptions wire) {
  int exponent = 0;
  const bool power = std::isfinite(wire.loss_scale) && std::frexp(wire.loss_scale, &exponent) == 0.5;
  if (!power || wire.loss_scale < 1 || wire.loss_scale > kLargestLossScale) {
    return error(ErrorKind::kBadRequest, "--loss-scale {} is illegal; legal: a power of two from 1 to {:.0f}", wire.loss_scale,
                 kLargestLossScale);
  }
  if (wire.loss_scale != 1 && !wire.narrow()) {
    return error(ErrorKind::kBadRequest, "--loss-scale {} is for --wire float16 or bfloat16; {} loses no small gradients",
                 wire.loss_scale, wire.text());
  }
  return wire;
}

}  // namespace paceline::paramserver

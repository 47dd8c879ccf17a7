#include "job/wire_options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "base/text.h"

namespace paceline::job {
namespace {

// By WireKind.
const std::vector<std::string>& names() {
  static const std::vector<std::string> all = {"float32", "bfloat16", "float16", "dropping", "dgc"};
  return all;
}

bool has_share(WireKind kind) { return kind == WireKind::kDropping || kind == WireKind::kDgc; }
bool is_share(double share) { return share > 0 && share <= 1; }

}  // namespace

tensor::DType WireOptions::type() const {
  switch (kind) {
    case WireKind::kBFloat16:
      return tensor::DType::kBFloat16;
    case WireKind::kFloat16:
      return tensor::DType::kFloat16;
    case WireKind::kFloat32:
    case WireKind::kDropping:
    case WireKind::kDgc:
      break;
  }
  return tensor::DType::kFloat32;
}

Result<WireOptions> parse_wire(std::string_view text) {
  const std::string_view name = text.substr(0, text.find(':'));
  const bool with_share = name.size() < text.size();
  for (std::size_t i = 0; i < names().size(); ++i) {
    WireOptions wire{.kind = static_cast<WireKind>(i)};
    if (name != names()[i] || with_share != has_share(wire.kind)) continue;
    if (!with_share) return wire;
    const char* const end = text.data() + text.size();
    const auto [read, problem] = std::from_chars(text.data() + name.size() + 1, end, wire.share);
    if (problem == std::errc() && read == end && is_share(wire.share)) return wire;
  }
  std::string hint = suggestion(name, names());
  for (const WireKind kind : {WireKind::kDropping, WireKind::kDgc}) {
    // The name is right, and what lacks is the share.
    if (name == names()[static_cast<std::size_t>(kind)]) hint = fmt::format(" (give a share: {}:0.01)", name);
  }
  return error(ErrorKind::kBadRequest,
               "--wire '{}' is illegal{}; legal: float32, bfloat16, float16, dropping:SHARE, dgc:SHARE (of the elements that is "
               "sent, above 0 up to 1)",
               text, hint);
}

std::string WireOptions::text() const {
  const std::string& name = names()[static_cast<std::size_t>(kind)];
  return has_share(kind) ? fmt::format("{}:{}", name, share) : name;
}

double WireOptions::share_at(std::int64_t iteration) const {
  if (iteration > warm_up || share >= kWarmUpShare) return share;
  return kWarmUpShare * std::pow(share / kWarmUpShare, static_cast<double>(iteration - 1) / static_cast<double>(warm_up));
}

std::size_t sent_elements(double share, std::size_t elements) {
  const double wanted = std::floor(share * static_cast<double>(elements) + 0.5);
  return std::min(elements, std::max<std::size_t>(1, static_cast<std::size_t>(wanted)));
}

Result<WireOptions> validated(WireOptions wire) {
  if (!is_share(wire.share))
    return error(ErrorKind::kBadRequest, "--wire {} is illegal; legal: a share above 0 up to 1", wire.text());
  if (wire.warm_up < 0) return error(ErrorKind::kBadRequest, "--dgc-warm-up {} is illegal; legal: 0 and more", wire.warm_up);
  if (wire.warm_up > 0 && wire.kind != WireKind::kDgc)
    return error(ErrorKind::kBadRequest, "--dgc-warm-up {} is for --wire dgc:SHARE, not {}", wire.warm_up, wire.text());
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

}  // namespace paceline::job

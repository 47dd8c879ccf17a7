#include "job/wire_options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include <fmt/ranges.h>

#include "base/text.h"

namespace paceline::job {
namespace {

const WireRow& row_of(WireKind kind) { return kWires[static_cast<std::size_t>(kind)]; }

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const WireRow& row : kWires) all.emplace_back(row.name);
  return all;
}

bool is_share(double share) { return share > 0 && share <= 1; }

}  // namespace

tensor::DType WireOptions::type() const { return row_of(kind).type; }
std::shared_ptr<const tensor::Codec> WireOptions::gradient_codec() const {
  return drops() ? tensor::sparse_codec() : tensor::dense_codec(type(), loss_scale);
}
std::shared_ptr<const tensor::Codec> WireOptions::value_codec() const { return tensor::dense_codec(type()); }
bool WireOptions::has_share() const { return row_of(kind).has_share; }

std::string wire_words() {
  std::vector<std::string> words;
  for (const WireRow& row : kWires) words.push_back(row.has_share ? fmt::format("{}:SHARE", row.name) : row.name);
  return fmt::format("{}", fmt::join(words, ", "));
}

const char* wire_sentence() {
  static const std::string sentence = [] {
    std::vector<std::string> meanings;
    for (const WireRow& row : kWires) meanings.emplace_back(row.meaning);
    return fmt::format("What gradients and values are sent as: {}", fmt::join(meanings, "; or "));
  }();
  return sentence.c_str();
}

Result<WireOptions> parse_wire(std::string_view text) {
  const std::string_view name = text.substr(0, text.find(':'));
  const bool with_share = name.size() < text.size();
  std::string hint;
  for (std::size_t i = 0; i < std::size(kWires); ++i) {
    WireOptions wire{.kind = static_cast<WireKind>(i)};
    if (name != kWires[i].name) continue;
    // The name is right, and what lacks is the share.
    if (wire.has_share()) hint = fmt::format(" (give a share: {}:0.01)", name);
    if (with_share != wire.has_share()) continue;
    if (!with_share) return wire;
    const char* const end = text.data() + text.size();
    const auto [read, problem] = std::from_chars(text.data() + name.size() + 1, end, wire.share);
    if (problem == std::errc() && read == end && is_share(wire.share)) return wire;
  }
  return error(ErrorKind::kBadRequest, "--wire '{}' is illegal{}; legal: {} (of the elements that is sent, above 0 up to 1)", text,
               hint.empty() ? suggestion(name, names()) : hint, wire_words());
}

std::string WireOptions::text() const { return has_share() ? fmt::format("{}:{}", row_of(kind).name, share) : row_of(kind).name; }

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

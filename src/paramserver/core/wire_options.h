// What gradients and values look like on the wire: the codec of a unit, which every schedule can carry. A value, agreed on by all
// processes of a job.
//
// A narrow codec sends 16 bits for each element. Gradients are rounded at the worker and summed in float32; the servers keep
// float32 values and round a copy of each new one, so that all workers compute with the same, rounded parameters. Rounding is of
// single elements, so the result has the same bits with every schedule, cut and number of servers.
//
// Dropping sends few of a gradient's elements, as float32 with their indices, and all of a value's (gradient_dropping.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "tensor/dtype.h"

namespace paceline::paramserver {

enum class WireKind : std::uint8_t { kFloat32, kBFloat16, kFloat16, kDropping };

// Largest legal WireOptions::loss_scale.
inline constexpr double kLargestLossScale = 16'777'216;  // 2^24: float16 has no more below its smallest normal number

struct WireOptions {
  WireKind kind = WireKind::kFloat32;
  // Gradients are multiplied by this before they are rounded, and their sum divided by it: small ones survive float16. A power of
  // two from 1 to kLargestLossScale, so that it rounds nothing by itself; other than 1 only with a narrow codec.
  double loss_scale = 1;
  // kDropping: share of a tensor's elements that is sent, above 0 up to 1; 1 is as kFloat32.
  double share = 1;

  // Of what is sent.
  tensor::DType type() const;
  std::size_t element_bytes() const { return tensor::size_of(type()); }
  bool narrow() const { return type() != tensor::DType::kFloat32; }
  bool drops() const { return kind == WireKind::kDropping && share < 1; }
  std::string text() const;  // as parse_wire() takes it
  bool operator==(const WireOptions&) const = default;
};

// "float32", "bfloat16", "float16" or "dropping:SHARE"; kBadRequest with the legal values.
Result<WireOptions> parse_wire(std::string_view text);
// How many elements of a tensor with so many are sent: its share, rounded to nearest, but at least one.
std::size_t sent_elements(const WireOptions& wire, std::size_t elements);
// The options, or kBadRequest that names the wrong one.
Result<WireOptions> validated(WireOptions wire);

}  // namespace paceline::paramserver

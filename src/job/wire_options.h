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
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "tensor/codec.h"
#include "tensor/dtype.h"

namespace paceline::job {

enum class WireKind : std::uint8_t { kFloat32, kBFloat16, kFloat16, kDropping, kDgc, kRandom };

struct WireRow {
  const char* name;
  tensor::DType type;  // of what is sent
  bool has_share;      // of the elements: dropping:SHARE
  const char* meaning;
};
// By WireKind. A new codec is a row here, what it does (tensor/codec.h, exchange/gradient_compression.h), and training/reference_*.
inline constexpr WireRow kWires[] = {
    {"float32", tensor::DType::kFloat32, false, "float32"},
    {"bfloat16", tensor::DType::kBFloat16, false,
     "bfloat16, half the bytes: rounded to nearest, summed in float32, while the servers keep float32 values"},
    {"float16", tensor::DType::kFloat16, false, "float16, the same with finer steps and a smaller range"},
    {"dropping", tensor::DType::kFloat32, true,
     "dropping:SHARE: of each gradient only the share of its elements that is largest, the rest is added to later ones"},
    {"dgc", tensor::DType::kFloat32, true, "dgc:SHARE: the same of the momentum (deep gradient compression)"},
    {"random", tensor::DType::kFloat32, true, "random:SHARE: as dropping, of elements drawn by lot"},
};

// The share with which a warm-up begins (Lin et al. 2018, section 3.3).
inline constexpr double kWarmUpShare = 0.25;
// Largest legal WireOptions::loss_scale.
inline constexpr double kLargestLossScale = 16'777'216;  // 2^24: float16 has no more below its smallest normal number

struct WireOptions {
  WireKind kind = WireKind::kFloat32;
  // Gradients are multiplied by this before they are rounded, and their sum divided by it: small ones survive float16. A power of
  // two from 1 to kLargestLossScale, so that it rounds nothing by itself; other than 1 only with a narrow codec.
  double loss_scale = 1;
  // kDropping, kRandom, kDgc: share of a tensor's elements that is sent, above 0 up to 1; 1 is as kFloat32, but for kDgc.
  double share = 1;
  // kDgc, deep gradient compression (Lin et al. 2018): what workers do instead of the servers. Momentum, 0 up to below 1; with
  // Nesterov's step; the norm above which gradients are scaled down, of W workers each for itself with that norm / sqrt(W), 0 for
  // none; iterations until the share is reached.
  double momentum = 0;
  bool nesterov = false;
  double clip_norm = 0;
  std::int64_t warm_up = 0;

  // How gradients travel, and values.
  std::shared_ptr<const tensor::Codec> gradient_codec() const;
  std::shared_ptr<const tensor::Codec> value_codec() const;
  // Of what is sent.
  tensor::DType type() const;
  std::size_t element_bytes() const { return tensor::size_of(type()); }
  bool narrow() const { return type() != tensor::DType::kFloat32; }
  bool has_share() const;
  bool drops() const { return has_share() && (share < 1 || kind == WireKind::kDgc); }
  // In this iteration, counted from 1: falls exponentially from kWarmUpShare while warming up.
  double share_at(std::int64_t iteration) const;
  std::string text() const;  // as parse_wire() takes it
  bool operator==(const WireOptions&) const = default;
};

// One of wire_words(); kBadRequest with the legal values.
Result<WireOptions> parse_wire(std::string_view text);
std::string wire_words();     // "float32, ..., dropping:SHARE, ..."
const char* wire_sentence();  // what each of them means
// How many elements of a tensor with so many are sent: the share, rounded to nearest, but at least one.
std::size_t sent_elements(double share, std::size_t elements);
// The options, or kBadRequest that names the wrong one.
Result<WireOptions> validated(WireOptions wire);

}  // namespace paceline::job

// How an array of float32 travels: as it stands, rounded to 16 bits, or the few elements of it that are not zero. What carries
// gradients and values asks a codec and knows no kind of it. Immutable, so any thread; pure; the same bytes everywhere.
//
// An array may be sent in full, which is size() bytes, or, where the codec packs, in fewer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "tensor/dtype.h"

namespace paceline::tensor {

// Elements first .. first + count - 1 of an array.
struct Range {
  std::size_t first = 0, count = 0;
};

// A range of an array that was received. An empty payload: the array is +0 everywhere.
struct Encoded {
  std::span<const std::byte> payload;  // of the whole array, aligned to 4 bytes
  std::size_t elements = 0;            // of the whole array
  Range range;
};

class Codec {
 public:
  virtual ~Codec() = default;

  // Bytes of an array that is sent in full: the most that it takes.
  virtual std::size_t size(std::size_t elements) const = 0;
  // Whether an array in full is its float32 elements as they stand, so that nobody has to encode or decode it.
  virtual bool raw() const { return false; }
  // Whether the bytes of an array depend on what it holds.
  virtual bool packs() const { return false; }
  // Whether what somebody sent, of so many bytes, can be an array of that length; and whether these bytes, which fit, are one.
  virtual bool fits(std::size_t elements, std::uint64_t bytes) const { return bytes == size(elements); }
  virtual bool valid(std::span<const std::byte> /*payload*/, std::size_t /*elements*/) const { return true; }

  // Writes the array in full. `place` has size() bytes; no overlap.
  virtual void encode(std::span<const float> values, std::span<std::byte> place) const = 0;
  // Packs it, where that is smaller. Of the array only `used` counts, ascending runs; the rest is +0. `place` has size() bytes.
  // Returns how many it wrote, at least 1; or nothing: it is to be sent in full.
  virtual std::optional<std::size_t> pack(std::span<const float> /*values*/, std::span<const Range> /*used*/,
                                          std::span<std::byte> /*place*/) const {
    return std::nullopt;
  }
  // Of an array in full. As many elements; no overlap.
  virtual void decode(std::span<const std::byte> payload, std::span<float> values) const = 0;

  // sum[i] = (((source0[i] + source1[i]) + source2[i]) + ...) * scale, each operation in float32, `scale` rounded to it. Each
  // source is valid() and its range is as long as `sum`; at least one.
  virtual void add_up(std::span<float> sum, std::span<const Encoded> sources, double scale) const = 0;
  // The first element that is infinite or NaN.
  struct Element {
    std::size_t index = 0;  // in the range
    float value = 0;
    bool operator==(const Element&) const = default;
  };
  virtual std::optional<Element> first_non_finite(const Encoded& source) const = 0;
};

// Every element rounded to `type`: float32, float16 or bfloat16. encode() multiplies by `factor` before it rounds, and add_up()
// divides by it.
std::shared_ptr<const Codec> dense_codec(DType type, double factor = 1);
// float32; packs indices and values of the elements that are not +0 (tensor/sparse.h).
std::shared_ptr<const Codec> sparse_codec();

}  // namespace paceline::tensor

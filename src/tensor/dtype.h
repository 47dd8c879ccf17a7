// Element types, and views of arrays of them. What the kernels of this folder work on.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/check.h"
#include "base/quantity.h"
#include "base/status.h"

namespace paceline::tensor {

// The numbers travel on the wire and stand in checkpoints: never renumber.
enum class DType : std::uint8_t { kFloat32 = 0, kFloat64 = 1, kInt32 = 2, kFloat16 = 3, kBFloat16 = 4 };

inline constexpr int kDTypeCount = 5;

// IEEE 754 binary16 and the upper half of a binary32, as they lie in memory. Arithmetic is done in float32: see to_float.
struct Float16 {
  std::uint16_t bits = 0;
  friend constexpr bool operator==(Float16, Float16) = default;  // of the bits: NaN == NaN, +0 != -0
};
struct BFloat16 {
  std::uint16_t bits = 0;
  friend constexpr bool operator==(BFloat16, BFloat16) = default;
};

constexpr std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return 8;
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kFloat16:
    case DType::kBFloat16:
      return 2;
  }
  PACELINE_CHECK(false, "{} is no element type", static_cast<int>(dtype));
}

// "float32", "float64", "int32", "float16", "bfloat16": as on the command line and in error messages.
const char* name_of(DType dtype);
// Whether a number from outside (wire, file) is an element type.
constexpr bool is_dtype(std::uint8_t number) { return number < kDTypeCount; }

template <typename T>
struct DTypeOf;  // only the five element types have one
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kFloat32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kFloat64;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::kInt32;
};
template <>
struct DTypeOf<Float16> {
  static constexpr DType value = DType::kFloat16;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::kBFloat16;
};

// Elements in memory that somebody else owns and keeps alive. `data` is aligned to the element's size (aborts otherwise); it may be
// null when there are no elements. Free to copy.
class ConstTensorView {
 public:
  ConstTensorView() = default;
  ConstTensorView(const void* data, DType dtype, std::size_t elements) : data_(data), dtype_(dtype), elements_(elements) {
    PACELINE_CHECK(data != nullptr || elements == 0, "no memory for {} elements of {}", elements, name_of(dtype));
    PACELINE_CHECK(reinterpret_cast<std::uintptr_t>(data) % size_of(dtype) == 0, "{} at a misaligned address", name_of(dtype));
  }
  template <typename T>
  ConstTensorView(std::span<T> values) : ConstTensorView(values.data(), DTypeOf<std::remove_const_t<T>>::value, values.size()) {}

  DType dtype() const { return dtype_; }
  std::size_t elements() const { return elements_; }
  Bytes size() const { return {static_cast<std::int64_t>(elements_ * size_of(dtype_))}; }
  const void* data() const { return data_; }
  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), elements_ * size_of(dtype_)}; }

  // Requires that T is the element type.
  template <typename T>
  std::span<const T> as() const {
    PACELINE_CHECK(DTypeOf<T>::value == dtype_, "a view of {} used as {}", name_of(dtype_), name_of(DTypeOf<T>::value));
    return {static_cast<const T*>(data_), elements_};
  }
  // Elements offset .. offset+count-1; requires that they exist.
  ConstTensorView slice(std::size_t offset, std::size_t count) const {
    PACELINE_CHECK(offset <= elements_ && count <= elements_ - offset, "slice {}+{} of {} elements", offset, count, elements_);
    return count == 0 ? ConstTensorView(nullptr, dtype_, 0)
                      : ConstTensorView(static_cast<const std::byte*>(data_) + offset * size_of(dtype_), dtype_, count);
  }

 private:
  const void* data_ = nullptr;
  DType dtype_ = DType::kFloat32;
  std::size_t elements_ = 0;
};

// The same, for writing. Like a span, constness of the view is not constness of the elements.
class TensorView {
 public:
  TensorView() = default;
  TensorView(void* data, DType dtype, std::size_t elements) : data_(data), view_(data, dtype, elements) {}
  template <typename T>
    requires(!std::is_const_v<T>)
  TensorView(std::span<T> values) : TensorView(values.data(), DTypeOf<T>::value, values.size()) {}

  operator ConstTensorView() const { return view_; }
  DType dtype() const { return view_.dtype(); }
  std::size_t elements() const { return view_.elements(); }
  Bytes size() const { return view_.size(); }
  void* data() const { return data_; }
  std::span<std::byte> bytes() const { return {static_cast<std::byte*>(data_), view_.bytes().size()}; }

  template <typename T>
  std::span<T> as() const {
    return {const_cast<T*>(view_.as<T>().data()), elements()};
  }
  TensorView slice(std::size_t offset, std::size_t count) const {
    const ConstTensorView part = view_.slice(offset, count);
    return {const_cast<void*>(part.data()), part.dtype(), part.elements()};
  }

 private:
  void* data_ = nullptr;
  ConstTensorView view_;
};

// Exact: every half is a float. A NaN keeps sign and payload.
float to_float(Float16 half);
constexpr float to_float(BFloat16 half) { return std::bit_cast<float>(static_cast<std::uint32_t>(half.bits) << 16); }

// To the nearest half, of two equally near ones to the one with the even last bit (IEEE's default). Beyond the largest half (65504
// for float16): infinity from half a unit above it on. Halves below the normal range are kept. A NaN stays one: sign and upper
// payload bits kept, made quiet.
Float16 to_float16(float value);
BFloat16 to_bfloat16(float value);

// dst[i] = src[i] in dst's type, for any two of float32, float16, bfloat16: as to_float and the roundings above (from one half type
// to the other by way of float32). Equal types copy the bytes. Same number of elements; the arrays do not overlap. Vectorised.
void convert(TensorView dst, ConstTensorView src);

}  // namespace paceline::tensor

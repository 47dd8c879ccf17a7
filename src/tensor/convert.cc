#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/convert.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h
#include "tensor/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace paceline::tensor {
namespace HWY_NAMESPACE {

template <typename To, typename From>
HWY_INLINE void convert_elements(void* dst, const void* src, std::size_t n) {
  To* to = static_cast<To*>(dst);
  const From* from = static_cast<const From*>(src);
  for_each_run<float>(n, [=](auto d, std::size_t i) HWY_ATTR { Lanes<To>::store(d, Lanes<From>::load(d, from + i), to + i); });
}

template <typename To>
HWY_INLINE void convert_to(void* dst, const void* src, DType from, std::size_t n) {
  switch (from) {
    case DType::kFloat16:
      return convert_elements<To, Float16>(dst, src, n);
    case DType::kBFloat16:
      return convert_elements<To, BFloat16>(dst, src, n);
    default:
      return convert_elements<To, float>(dst, src, n);
  }
}

void convert_any(void* dst, DType to, const void* src, DType from, std::size_t n) {
  switch (to) {
    case DType::kFloat16:
      return convert_to<Float16>(dst, src, from, n);
    case DType::kBFloat16:
      return convert_to<BFloat16>(dst, src, from, n);
    default:
      return convert_to<float>(dst, src, from, n);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace paceline::tensor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <cstring>

namespace paceline::tensor {
namespace {

HWY_EXPORT(convert_any);

bool is_convertible(DType dtype) { return dtype == DType::kFloat32 || dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

template <typename To, typename From>
To convert_one(From from) {
  To to{};
  HWY_DYNAMIC_DISPATCH(convert_any)(&to, DTypeOf<To>::value, &from, DTypeOf<From>::value, 1);
  return to;
}

}  // namespace

float to_float(Float16 half) { return convert_one<float>(half); }
Float16 to_float16(float value) { return convert_one<Float16>(value); }
BFloat16 to_bfloat16(float value) { return convert_one<BFloat16>(value); }

void convert(TensorView dst, ConstTensorView src) {
  PACELINE_CHECK(dst.elements() == src.elements(), "conversion of {} elements into {}", src.elements(), dst.elements());
  if (src.elements() == 0) return;
  if (dst.dtype() == src.dtype()) {
    std::memcpy(dst.data(), src.data(), src.bytes().size());
    return;
  }
  PACELINE_CHECK(is_convertible(dst.dtype()) && is_convertible(src.dtype()), "no conversion from {} to {}", name_of(src.dtype()),
                 name_of(dst.dtype()));
  HWY_DYNAMIC_DISPATCH(convert_any)(dst.data(), dst.dtype(), src.data(), src.dtype(), src.elements());
}

}  // namespace paceline::tensor
#endif

#include "tensor/narrow.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/narrow.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h
#include "tensor/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace paceline::tensor {
namespace HWY_NAMESPACE {

template <typename T>
HWY_INLINE void narrow_elements(void* dst, const float* src, std::size_t n, float factor) {
  T* to = static_cast<T*>(dst);
  for_each_run<float>(n, [=](auto d, std::size_t i)
                             HWY_ATTR { Lanes<T>::store(d, hn::Mul(Lanes<float>::load(d, src + i), hn::Set(d, factor)), to + i); });
}

template <typename T>
HWY_INLINE void sum_elements_widened(float* dst, const ConstTensorView* sources, std::size_t count, std::size_t n, float factor) {
  const auto source = [=](std::size_t k) HWY_ATTR { return static_cast<const T*>(sources[k].data()); };
  for_each_run<float>(n, [=](auto d, std::size_t i) HWY_ATTR {
    auto sum = Lanes<T>::load(d, source(0) + i);
    for (std::size_t k = 1; k < count; ++k) sum = hn::Add(sum, Lanes<T>::load(d, source(k) + i));
    hn::StoreU(hn::Mul(sum, hn::Set(d, factor)), d, dst + i);
  });
}

void narrow_any(DType type, void* dst, const float* src, std::size_t n, float factor) {
  if (type == DType::kFloat16) return narrow_elements<Float16>(dst, src, n, factor);
  narrow_elements<BFloat16>(dst, src, n, factor);
}

void sum_any_widened(DType type, float* dst, const ConstTensorView* sources, std::size_t count, std::size_t n, float factor) {
  if (type == DType::kFloat16) return sum_elements_widened<Float16>(dst, sources, count, n, factor);
  sum_elements_widened<BFloat16>(dst, sources, count, n, factor);
}

}  // namespace HWY_NAMESPACE
}  // namespace paceline::tensor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "tensor/reduce.h"

namespace paceline::tensor {
namespace {

HWY_EXPORT(narrow_any);
HWY_EXPORT(sum_any_widened);

bool is_half(DType type) { return type == DType::kFloat16 || type == DType::kBFloat16; }

}  // namespace

void narrow(TensorView dst, std::span<const float> src, float factor) {
  PACELINE_CHECK(dst.elements() == src.size(), "{} elements narrowed into {}", src.size(), dst.elements());
  PACELINE_CHECK(is_half(dst.dtype()), "{} is not narrow", name_of(dst.dtype()));
  HWY_DYNAMIC_DISPATCH(narrow_any)(dst.dtype(), dst.data(), src.data(), src.size(), factor);
}

void sum_widened(std::span<float> dst, std::span<const ConstTensorView> sources, double scale) {
  PACELINE_CHECK(!sources.empty(), "a sum of no sources");
  const DType type = sources[0].dtype();
  if (type == DType::kFloat32) return sum_in_rank_order(dst, sources, scale);
  PACELINE_CHECK(is_half(type), "{} is not narrow", name_of(type));
  for (const ConstTensorView& source : sources) {
    PACELINE_CHECK(source.dtype() == type && source.elements() == dst.size(), "{} elements of {} in a sum of {} of {}",
                   source.elements(), name_of(source.dtype()), dst.size(), name_of(type));
  }
  HWY_DYNAMIC_DISPATCH(sum_any_widened)(type, dst.data(), sources.data(), sources.size(), dst.size(), static_cast<float>(scale));
}

}  // namespace paceline::tensor
#endif

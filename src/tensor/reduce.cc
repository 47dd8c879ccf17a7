#include "tensor/reduce.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/reduce.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h
#include "tensor/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace paceline::tensor {
namespace HWY_NAMESPACE {

// A comparison with NaN is false: `a` must win when it is one, and loses to a `b` that is one.
template <class D, class V>
HWY_INLINE V larger([[maybe_unused]] D d, V a, V b) {
  if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
    return hn::IfThenElse(hn::Or(hn::Ge(a, b), hn::IsNaN(a)), a, b);
  } else {
    return hn::Max(a, b);
  }
}
template <class D, class V>
HWY_INLINE V smaller([[maybe_unused]] D d, V a, V b) {
  if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
    return hn::IfThenElse(hn::Or(hn::Le(a, b), hn::IsNaN(a)), a, b);
  } else {
    return hn::Min(a, b);
  }
}

template <typename T>
HWY_INLINE void reduce_elements(Reduction reduction, void* to, const void* from, std::size_t n) {
  using L = Lanes<T>;
  T* dst = static_cast<T*>(to);
  const T* src = static_cast<const T*>(from);
  const auto combine = [=](auto operation) HWY_ATTR {
    for_each_run<typename L::Compute>(
        n, [=](auto d, std::size_t i) HWY_ATTR { L::store(d, operation(d, L::load(d, dst + i), L::load(d, src + i)), dst + i); });
  };
  switch (reduction) {
    case Reduction::kSum:
      return combine([](auto, auto a, auto b) HWY_ATTR { return hn::Add(a, b); });
    case Reduction::kMax:
      return combine([](auto d, auto a, auto b) HWY_ATTR { return larger(d, a, b); });
    case Reduction::kMin:
      return combine([](auto d, auto a, auto b) HWY_ATTR { return smaller(d, a, b); });
  }
}

template <typename T>
HWY_INLINE void scale_elements(void* to, std::size_t n, double factor) {
  using L = Lanes<T>;
  using Compute = typename L::Compute;
  T* dst = static_cast<T*>(to);
  for_each_run<Compute>(n, [=](auto d, std::size_t i) HWY_ATTR {
    L::store(d, hn::Mul(L::load(d, dst + i), hn::Set(d, static_cast<Compute>(factor))), dst + i);
  });
}

template <typename T>
HWY_INLINE void sum_elements(void* to, const void* const* sources, std::size_t count, std::size_t n, double factor) {
  using L = Lanes<T>;
  using Compute = typename L::Compute;
  T* dst = static_cast<T*>(to);
  const hn::ScalableTag<Compute> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto source = [=](std::size_t k) HWY_ATTR { return static_cast<const T*>(sources[k]); };
  const auto multiplied = [=]([[maybe_unused]] auto tag, auto sum) HWY_ATTR {
    if constexpr (hwy::IsFloat<Compute>()) {
      return hn::Mul(sum, hn::Set(tag, static_cast<Compute>(factor)));
    } else {
      return sum;
    }
  };
  std::size_t i = 0;
  // Four vectors of each source in turn: whole cache lines, and four chains of additions that do not wait for one another.
  for (; n - i >= 4 * lanes; i += 4 * lanes) {
    const T* first = source(0) + i;
    auto sum0 = L::load(d, first);
    auto sum1 = L::load(d, first + lanes);
    auto sum2 = L::load(d, first + 2 * lanes);
    auto sum3 = L::load(d, first + 3 * lanes);
    for (std::size_t k = 1; k < count; ++k) {
      const T* next = source(k) + i;
      sum0 = L::round(d, hn::Add(sum0, L::load(d, next)));
      sum1 = L::round(d, hn::Add(sum1, L::load(d, next + lanes)));
      sum2 = L::round(d, hn::Add(sum2, L::load(d, next + 2 * lanes)));
      sum3 = L::round(d, hn::Add(sum3, L::load(d, next + 3 * lanes)));
    }
    L::store(d, multiplied(d, sum0), dst + i);
    L::store(d, multiplied(d, sum1), dst + i + lanes);
    L::store(d, multiplied(d, sum2), dst + i + 2 * lanes);
    L::store(d, multiplied(d, sum3), dst + i + 3 * lanes);
  }
  const hn::CappedTag<Compute, 1> one;
  for (; i < n; ++i) {
    auto sum = L::load(one, source(0) + i);
    for (std::size_t k = 1; k < count; ++k) sum = L::round(one, hn::Add(sum, L::load(one, source(k) + i)));
    L::store(one, multiplied(one, sum), dst + i);
  }
}

// x - x is zero for every finite x and NaN otherwise; whole chunks first, then the one that is not clean.
template <typename T>
HWY_INLINE std::size_t first_non_finite_element(const void* from, std::size_t n) {
  using L = Lanes<T>;
  using Compute = typename L::Compute;
  constexpr std::size_t kChunk = 4096;
  const T* src = static_cast<const T*>(from);
  const hn::ScalableTag<Compute> d;
  const std::size_t lanes = hn::Lanes(d);
  const hn::CappedTag<Compute, 1> one;
  for (std::size_t begin = 0; begin < n; begin += kChunk) {
    const std::size_t end = n - begin < kChunk ? n : begin + kChunk;
    auto dirt = hn::Zero(d);
    std::size_t i = begin;
    for (; end - i >= lanes; i += lanes) {
      const auto x = L::load(d, src + i);
      dirt = hn::Or(dirt, hn::Sub(x, x));
    }
    // The bits of +0 are all zero, those of a NaN compare unequal to 0 whatever they were combined with.
    if (hn::AllTrue(d, hn::Eq(dirt, hn::Zero(d)))) {
      if (end - i == 0) continue;
    } else {
      i = begin;
    }
    for (; i < end; ++i) {
      const auto x = L::load(one, src + i);
      if (hn::GetLane(hn::Sub(x, x)) != Compute{0}) return i;
    }
  }
  return n;
}

void reduce_any(Reduction reduction, DType dtype, void* dst, const void* src, std::size_t n) {
  switch (dtype) {
    case DType::kFloat32:
      return reduce_elements<float>(reduction, dst, src, n);
    case DType::kFloat64:
      return reduce_elements<double>(reduction, dst, src, n);
    case DType::kInt32:
      return reduce_elements<std::int32_t>(reduction, dst, src, n);
    case DType::kFloat16:
      return reduce_elements<Float16>(reduction, dst, src, n);
    case DType::kBFloat16:
      return reduce_elements<BFloat16>(reduction, dst, src, n);
  }
}

// Not int32.
void scale_any(DType dtype, void* dst, std::size_t n, double factor) {
  switch (dtype) {
    case DType::kFloat32:
      return scale_elements<float>(dst, n, factor);
    case DType::kFloat64:
      return scale_elements<double>(dst, n, factor);
    case DType::kFloat16:
      return scale_elements<Float16>(dst, n, factor);
    case DType::kBFloat16:
      return scale_elements<BFloat16>(dst, n, factor);
    case DType::kInt32:
      break;
  }
}

// int32 is only summed.
void sum_any(DType dtype, void* dst, const void* const* sources, std::size_t count, std::size_t n, double factor) {
  switch (dtype) {
    case DType::kFloat32:
      return sum_elements<float>(dst, sources, count, n, factor);
    case DType::kFloat64:
      return sum_elements<double>(dst, sources, count, n, factor);
    case DType::kInt32:
      return sum_elements<std::int32_t>(dst, sources, count, n, factor);
    case DType::kFloat16:
      return sum_elements<Float16>(dst, sources, count, n, factor);
    case DType::kBFloat16:
      return sum_elements<BFloat16>(dst, sources, count, n, factor);
  }
}

// n when there is none.
std::size_t first_non_finite_any(DType dtype, const void* src, std::size_t n) {
  switch (dtype) {
    case DType::kFloat32:
      return first_non_finite_element<float>(src, n);
    case DType::kFloat64:
      return first_non_finite_element<double>(src, n);
    case DType::kFloat16:
      return first_non_finite_element<Float16>(src, n);
    case DType::kBFloat16:
      return first_non_finite_element<BFloat16>(src, n);
    case DType::kInt32:
      break;
  }
  return n;
}

}  // namespace HWY_NAMESPACE
}  // namespace paceline::tensor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace paceline::tensor {
namespace {

HWY_EXPORT(reduce_any);
HWY_EXPORT(scale_any);
HWY_EXPORT(sum_any);
HWY_EXPORT(first_non_finite_any);

void check_alike(ConstTensorView a, ConstTensorView b) {
  PACELINE_CHECK(a.dtype() == b.dtype() && a.elements() == b.elements(), "{} elements of {} combined with {} of {}", a.elements(),
                 name_of(a.dtype()), b.elements(), name_of(b.dtype()));
}

void scale_int32(std::span<std::int32_t> values, double factor) {
  PACELINE_CHECK(std::isfinite(factor), "int32 scaled by {}", factor);
  constexpr double kLeast = std::numeric_limits<std::int32_t>::min();
  constexpr double kMost = std::numeric_limits<std::int32_t>::max();
  for (std::int32_t& value : values) {
    value = static_cast<std::int32_t>(std::clamp(std::nearbyint(static_cast<double>(value) * factor), kLeast, kMost));
  }
}

// Source pointers without an allocation for any usual number of workers.
class Pointers {
 public:
  explicit Pointers(std::size_t count) : many_(count > few_.size() ? count : 0) {}
  const void** data() { return many_.empty() ? few_.data() : many_.data(); }

 private:
  std::array<const void*, 64> few_{};
  std::vector<const void*> many_;
};

}  // namespace

void reduce_into(Reduction reduction, TensorView dst, ConstTensorView src) {
  check_alike(dst, src);
  HWY_DYNAMIC_DISPATCH(reduce_any)(reduction, dst.dtype(), dst.data(), src.data(), dst.elements());
}

void scale(TensorView dst, double factor) {
  if (dst.dtype() == DType::kInt32) return scale_int32(dst.as<std::int32_t>(), factor);
  HWY_DYNAMIC_DISPATCH(scale_any)(dst.dtype(), dst.data(), dst.elements(), factor);
}

void sum_in_rank_order(TensorView dst, std::span<const ConstTensorView> sources, double scale_by) {
  PACELINE_CHECK(!sources.empty(), "a sum of no sources");
  Pointers pointers(sources.size());
  for (std::size_t k = 0; k < sources.size(); ++k) {
    check_alike(dst, sources[k]);
    pointers.data()[k] = sources[k].data();
  }
  HWY_DYNAMIC_DISPATCH(sum_any)(dst.dtype(), dst.data(), pointers.data(), sources.size(), dst.elements(), scale_by);
  if (dst.dtype() == DType::kInt32 && scale_by != 1) scale(dst, scale_by);
}

void sum_in_rank_order(std::span<float> dst, std::span<const std::span<const float>> sources, double scale_by) {
  PACELINE_CHECK(!sources.empty(), "a sum of no sources");
  Pointers pointers(sources.size());
  for (std::size_t k = 0; k < sources.size(); ++k) {
    PACELINE_CHECK(sources[k].size() == dst.size(), "source {} has {} elements, the sum {}", k, sources[k].size(), dst.size());
    pointers.data()[k] = sources[k].data();
  }
  HWY_DYNAMIC_DISPATCH(sum_any)(DType::kFloat32, dst.data(), pointers.data(), sources.size(), dst.size(), scale_by);
}

std::optional<std::size_t> first_non_finite(ConstTensorView values) {
  const std::size_t found = HWY_DYNAMIC_DISPATCH(first_non_finite_any)(values.dtype(), values.data(), values.elements());
  if (found == values.elements()) return std::nullopt;
  return found;
}

bool all_finite(ConstTensorView values) { return !first_non_finite(values).has_value(); }

}  // namespace paceline::tensor
#endif

// How the kernels read, compute and write each element type with Highway. Included once per instruction set (foreach_target.h),
// hence the toggling guard. Only for the kernels' .cc files.
//
// `Lanes<T>` gives the type the arithmetic is done in (`Compute`: float for the two halves) and load, store and round for any
// Highway tag of it. The halves are converted with integer arithmetic, not with the machine's instructions: those exist on some
// targets only and treat NaN, and small numbers in some modes, differently.
#include "hwy/highway.h"
#include "tensor/dtype.h"

#if defined(PACELINE_TENSOR_LANES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PACELINE_TENSOR_LANES_INL_H
#undef PACELINE_TENSOR_LANES_INL_H
#else
#define PACELINE_TENSOR_LANES_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace paceline::tensor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
struct Lanes {
  using Compute = T;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const T* from) {
    return hn::LoadU(d, from);
  }
  template <class D>
  static HWY_INLINE void store(D d, hn::Vec<D> v, T* to) {
    hn::StoreU(v, d, to);
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> round(D, hn::Vec<D> v) {
    return v;
  }
};

// What the two halves share: `Codec` turns 16 bits in 32-bit lanes into floats (widen) and back (narrow).
template <typename T, class Codec>
struct HalfLanes {
  using Compute = float;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const T* from) {
    const hn::Rebind<std::uint16_t, D> d16;
    const hn::RebindToUnsigned<D> du;
    return Codec::widen(d, hn::PromoteTo(du, hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(from))));
  }
  template <class D>
  static HWY_INLINE void store(D d, hn::Vec<D> v, T* to) {
    const hn::Rebind<std::uint16_t, D> d16;
    const hn::RebindToSigned<D> di;
    // The narrow bits are below 2^16, so that the saturation of DemoteTo changes nothing.
    hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, Codec::narrow(d, v))), d16, reinterpret_cast<std::uint16_t*>(to));
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> round(D d, hn::Vec<D> v) {
    return Codec::widen(d, Codec::narrow(d, v));
  }
};

struct BFloat16Codec {
  template <class D>
  static HWY_INLINE hn::Vec<D> widen([[maybe_unused]] D d, hn::Vec<hn::RebindToUnsigned<D>> bits) {
    return hn::BitCast(d, hn::ShiftLeft<16>(bits));
  }

  template <class D>
  static HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> narrow([[maybe_unused]] D d, hn::Vec<D> v) {
    const hn::RebindToUnsigned<D> du;
    const auto bits = hn::BitCast(du, v);
    const auto upper = hn::ShiftRight<16>(bits);
    // Just under half a unit, plus one when the last kept bit is odd: ties carry into odd numbers only.
    const auto bias = hn::Add(hn::Set(du, 0x7FFFu), hn::And(upper, hn::Set(du, 1u)));
    const auto rounded = hn::ShiftRight<16>(hn::Add(bits, bias));
    const auto nan = hn::RebindMask(du, hn::IsNaN(v));
    return hn::IfThenElse(nan, hn::Or(upper, hn::Set(du, 0x40u)), rounded);
  }
};

struct Float16Codec {
  template <class D>
  static HWY_INLINE hn::Vec<D> widen([[maybe_unused]] D d, hn::Vec<hn::RebindToUnsigned<D>> bits) {
    const hn::RebindToUnsigned<D> du;
    const hn::RebindToSigned<D> di;
    const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(du, 0x8000u)));
    const auto magnitude = hn::ShiftLeft<13>(hn::And(bits, hn::Set(du, 0x7FFFu)));  // exponent at a float's place, bias 15
    const auto exponent = hn::BitCast(di, hn::And(magnitude, hn::Set(du, 0x0F800000u)));
    const auto rebiased = hn::Add(magnitude, hn::Set(du, (127u - 15u) << 23));
    const auto special =
        hn::Add(rebiased, hn::Set(du, (127u - 15u) << 23));  // infinity, NaN: the largest exponent stays the largest
    // Below the normal range: 2^-14 * (1 + m) - 2^-14 is exact.
    const auto smallest = hn::Set(du, (127u - 14u) << 23);
    const auto small = hn::BitCast(du, hn::Sub(hn::BitCast(d, hn::Add(magnitude, smallest)), hn::BitCast(d, smallest)));
    const auto is_special = hn::RebindMask(du, hn::Eq(exponent, hn::Set(di, 0x0F800000)));
    const auto is_small = hn::RebindMask(du, hn::Eq(exponent, hn::Zero(di)));
    return hn::BitCast(d, hn::Or(sign, hn::IfThenElse(is_small, small, hn::IfThenElse(is_special, special, rebiased))));
  }

  template <class D>
  static HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> narrow([[maybe_unused]] D d, hn::Vec<D> v) {
    const hn::RebindToUnsigned<D> du;
    const hn::RebindToSigned<D> di;
    const auto bits = hn::BitCast(du, v);
    const auto magnitude = hn::And(bits, hn::Set(du, 0x7FFFFFFFu));
    const auto sign = hn::ShiftRight<16>(hn::Xor(bits, magnitude));
    const auto compared = hn::BitCast(di, magnitude);  // as signed, which every target can compare
    // Normal range: new bias, then as for bfloat16. A carry out of the fraction gives the next exponent, at the top infinity.
    const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 1u));
    const auto bias = hn::Add(hn::Set(du, 0xFFFu), odd);
    const auto normal = hn::ShiftRight<13>(hn::Sub(hn::Add(magnitude, bias), hn::Set(du, (127u - 15u) << 23)));
    // Below it: a unit in the last place of 0.5f is the smallest half, 2^-24, so that the float addition does the rounding.
    const auto half = hn::Set(d, 0.5f);
    const auto small = hn::Sub(hn::BitCast(du, hn::Add(hn::BitCast(d, magnitude), half)), hn::BitCast(du, half));
    const auto nan = hn::Or(hn::Set(du, 0x7E00u), hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 0x3FFu)));
    const auto is_small = hn::RebindMask(du, hn::Lt(compared, hn::Set(di, (127 - 14) << 23)));
    const auto is_large = hn::RebindMask(du, hn::Gt(compared, hn::Set(di, ((127 + 16) << 23) - 1)));
    const auto is_nan = hn::RebindMask(du, hn::Gt(compared, hn::Set(di, 0x7F800000)));
    const auto finite = hn::IfThenElse(is_large, hn::Set(du, 0x7C00u), hn::IfThenElse(is_small, small, normal));
    return hn::Or(sign, hn::IfThenElse(is_nan, nan, finite));
  }
};

template <>
struct Lanes<Float16> : HalfLanes<Float16, Float16Codec> {};
template <>
struct Lanes<BFloat16> : HalfLanes<BFloat16, BFloat16Codec> {};

// Calls body(tag, index) for indices 0..n-1 in runs as long as the vectors, the rest one by one with a tag of one lane: the same
// operations, so the same bits.
template <typename Compute, class Body>
HWY_INLINE void for_each_run(std::size_t n, Body body) {
  const hn::ScalableTag<Compute> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; n - i >= lanes; i += lanes) body(d, i);
  const hn::CappedTag<Compute, 1> one;
  for (; i < n; ++i) body(one, i);
}

}  // namespace HWY_NAMESPACE
}  // namespace paceline::tensor
HWY_AFTER_NAMESPACE();
#endif

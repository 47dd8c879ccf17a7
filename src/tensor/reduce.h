// Kernels that add and inspect arrays. Vectorised with run-time choice of the instruction set; pure functions, any thread.
//
// The same bits on every instruction set: no fused multiply-add, no reordered sums. Every operation rounds to the element type at
// once: float16 and bfloat16 are computed in float32 and rounded to nearest-even after each single operation. Only the payload of a
// NaN is not fixed. int32 sums wrap around. Sums of squares: tensor/exact_square_sum.h.
//
// Arrays of one call have the same element type and number of elements (aborts otherwise: whoever takes bytes from the wire checks
// before). `dst` may be the same array as a source; apart from that they do not overlap.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "tensor/dtype.h"

namespace paceline::tensor {

enum class Reduction { kSum, kMax, kMin };

// dst[i] = dst[i] (+, max, min) src[i]. A NaN on either side gives a NaN; of +0 and -0, dst's stays in max and min.
void reduce_into(Reduction reduction, TensorView dst, ConstTensorView src);
inline void add_into(TensorView dst, ConstTensorView src) { reduce_into(Reduction::kSum, dst, src); }

// dst[i] = dst[i] * factor; `factor` is rounded to float32 first, except for float64. int32: the product in float64, rounded to the
// nearest (even) integer and held within int32's range; the factor must be finite.
void scale(TensorView dst, double factor);

// dst[i] = (((src0[i] + src1[i]) + src2[i]) + ...) * scale, in the order of `sources` (rank order), as if by add_into for each and
// scale() at the end, but in one pass: each source is read once and dst written once. The server's main kernel. At least one
// source. The mean over W workers has scale 1.0 / W.
void sum_in_rank_order(TensorView dst, std::span<const ConstTensorView> sources, double scale);
void sum_in_rank_order(std::span<float> dst, std::span<const std::span<const float>> sources, double scale);

// Whether every element is neither infinite nor NaN. Exact (no sum that could overflow), one read of the memory. int32: always.
bool all_finite(ConstTensorView values);
// Index of the first infinite or NaN element, if any.
std::optional<std::size_t> first_non_finite(ConstTensorView values);

}  // namespace paceline::tensor

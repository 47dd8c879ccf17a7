// Kernels for gradients that travel in a narrow type: rounded where they are sent, summed in float32 where they arrive. Vectorised
// with run-time choice of the instruction set; pure functions, any thread; the same bits on every instruction set (only a NaN's
// payload is not fixed). Rounding as in tensor/dtype.h.
#pragma once

#include <span>

#include "tensor/dtype.h"

namespace paceline::tensor {

// dst[i] = src[i] * factor, in float32, then rounded to dst's type: float16 or bfloat16. As many elements; no overlap.
void narrow(TensorView dst, std::span<const float> src, float factor);

// dst[i] = (((src0[i] + src1[i]) + src2[i]) + ...) * scale in the order of `sources`, which are all float32, all float16 or all
// bfloat16; each operation is done in float32. `scale` is rounded to float32. One pass: each source is read once. At least one
// source, all as long as dst; nothing overlaps, but dst may be a float32 source.
void sum_widened(std::span<float> dst, std::span<const ConstTensorView> sources, double scale);

}  // namespace paceline::tensor

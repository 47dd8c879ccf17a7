// The kernels of tensor/reduce.h for memory of a GPU, with the same bits: every operation rounds to the element type at once,
// nothing is fused or reordered. Only with PACELINE_CUDA.
//
// All of them enqueue and return; the stream belongs to the current device, on which all memory lies, aligned to the element's
// size. Errors: kIo with what CUDA says; errors of earlier work may come too. Any thread.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "tensor/dtype.h"
#include "tensor/reduce.h"

struct CUstream_st;  // cudaStream_t is a pointer to it

namespace paceline::tensor::cuda {

using Stream = CUstream_st*;

// The most sources of one sum_in_rank_order.
inline constexpr std::size_t kMostSources = 64;

// dst[i] = dst[i] (+, max, min) src[i]; the two are the same or do not overlap.
Status reduce_into(Reduction reduction, DType dtype, void* dst, const void* src, std::int64_t count, Stream stream);

// dst[i] = dst[i] * factor, as tensor::scale.
Status scale(DType dtype, void* dst, std::int64_t count, double factor, Stream stream);

// dst[i] = (((src0[i] + src1[i]) + src2[i]) + ...) * factor: reads each source once and writes dst once. 1 to kMostSources sources,
// or kBadRequest.
Status sum_in_rank_order(DType dtype, void* dst, std::span<const void* const> sources, std::int64_t count, double factor,
                         Stream stream);

}  // namespace paceline::tensor::cuda

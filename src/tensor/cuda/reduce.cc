#include "tensor/cuda/reduce.h"

#include "tensor/cuda/kernels.h"

namespace paceline::tensor::cuda {
namespace {

static_assert(kMostSources == kMostKernelSources);
static_assert(static_cast<int>(Reduction::kSum) == 0 && static_cast<int>(Reduction::kMax) == 1 &&
              static_cast<int>(Reduction::kMin) == 2);
static_assert(static_cast<int>(DType::kFloat32) == 0 && static_cast<int>(DType::kFloat64) == 1 &&
              static_cast<int>(DType::kInt32) == 2 && static_cast<int>(DType::kFloat16) == 3 &&
              static_cast<int>(DType::kBFloat16) == 4);

Status status_of(const char* what, const char* failure) {
  return failure == nullptr ? Status() : error(ErrorKind::kIo, "cannot {} on the GPU: {}", what, failure);
}

}  // namespace

Status reduce_into(Reduction reduction, DType dtype, void* dst, const void* src, std::int64_t count, Stream stream) {
  if (count == 0) return {};
  return status_of("reduce", launch_reduce({static_cast<int>(reduction), static_cast<int>(dtype), dst, count, stream}, src));
}

Status scale(DType dtype, void* dst, std::int64_t count, double factor, Stream stream) {
  if (count == 0) return {};
  return status_of("scale", launch_scale({0, static_cast<int>(dtype), dst, count, stream}, factor));
}

Status sum_in_rank_order(DType dtype, void* dst, std::span<const void* const> sources, std::int64_t count, double factor,
                         Stream stream) {
  if (sources.empty() || sources.size() > kMostSources)
    return error(ErrorKind::kBadRequest, "a sum of {} sources; legal: 1 to {}", sources.size(), kMostSources);
  if (count == 0) return {};
  return status_of("sum", launch_sum({0, static_cast<int>(dtype), dst, count, stream}, sources.data(),
                                     static_cast<int>(sources.size()), factor));
}

}  // namespace paceline::tensor::cuda

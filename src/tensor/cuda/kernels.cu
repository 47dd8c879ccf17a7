#include <algorithm>
#include <type_traits>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "tensor/cuda/kernels.h"

namespace paceline::tensor::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMostBlocks = 65'535;

// What an element is computed in, and how it gets there and back. int32 sums wrap around, so they are sums of unsigned numbers.
template <typename T>
struct Element {
  using Compute = T;
  __device__ static T load(T value) { return value; }
  __device__ static T store(T value) { return value; }
};
template <>
struct Element<__half> {
  using Compute = float;
  __device__ static float load(__half value) { return __half2float(value); }
  __device__ static __half store(float value) { return __float2half_rn(value); }
};
template <>
struct Element<__nv_bfloat16> {
  using Compute = float;
  __device__ static float load(__nv_bfloat16 value) { return __bfloat162float(value); }
  __device__ static __nv_bfloat16 store(float value) { return __float2bfloat16_rn(value); }
};

__device__ inline float add(float a, float b) { return __fadd_rn(a, b); }
__device__ inline double add(double a, double b) { return __dadd_rn(a, b); }
__device__ inline std::int32_t add(std::int32_t a, std::int32_t b) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
}

__device__ inline bool is_nan(float value) { return isnan(value); }
__device__ inline bool is_nan(double value) { return isnan(value); }
__device__ inline bool is_nan(std::int32_t) { return false; }

// A comparison with NaN is false: `a` must win when it is one, and loses to a `b` that is one.
struct Sum {
  template <typename C>
  __device__ C operator()(C a, C b) const {
    return add(a, b);
  }
};
struct Max {
  template <typename C>
  __device__ C operator()(C a, C b) const {
    return a >= b || is_nan(a) ? a : b;
  }
};
struct Min {
  template <typename C>
  __device__ C operator()(C a, C b) const {
    return a <= b || is_nan(a) ? a : b;
  }
};

__device__ inline float multiplied(float value, double factor) { return __fmul_rn(value, static_cast<float>(factor)); }
__device__ inline double multiplied(double value, double factor) { return __dmul_rn(value, factor); }
__device__ inline std::int32_t multiplied(std::int32_t value, double factor) {
  return static_cast<std::int32_t>(fmin(fmax(rint(__dmul_rn(value, factor)), -2147483648.0), 2147483647.0));
}

template <typename T, typename Combine>
__global__ void reduce_kernel(T* dst, const T* src, std::int64_t count, Combine combine) {
  using E = Element<T>;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride)
    dst[i] = E::store(combine(E::load(dst[i]), E::load(src[i])));
}

template <typename T>
__global__ void scale_kernel(T* dst, std::int64_t count, double factor) {
  using E = Element<T>;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride)
    dst[i] = E::store(multiplied(E::load(dst[i]), factor));
}

struct Sources {
  const void* at[kMostKernelSources];
  int count;
};

template <typename T>
__global__ void sum_kernel(T* dst, Sources sources, std::int64_t count, double factor) {
  using E = Element<T>;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    T sum = static_cast<const T*>(sources.at[0])[i];
    for (int k = 1; k < sources.count; ++k) sum = E::store(add(E::load(sum), E::load(static_cast<const T*>(sources.at[k])[i])));
    dst[i] = factor == 1 ? sum : E::store(multiplied(E::load(sum), factor));
  }
}

unsigned blocks_for(std::int64_t count) { return static_cast<unsigned>(std::min((count + kThreads - 1) / kThreads, kMostBlocks)); }

const char* failure() {
  const cudaError_t result = cudaGetLastError();
  return result == cudaSuccess ? nullptr : cudaGetErrorString(result);
}

// Calls `action` with a null pointer to the element's type.
template <typename Action>
void with_type(int dtype, const Action& action) {
  if (dtype == 0) action(static_cast<float*>(nullptr));
  if (dtype == 1) action(static_cast<double*>(nullptr));
  if (dtype == 2) action(static_cast<std::int32_t*>(nullptr));
  if (dtype == 3) action(static_cast<__half*>(nullptr));
  if (dtype == 4) action(static_cast<__nv_bfloat16*>(nullptr));
}

}  // namespace

const char* launch_reduce(const KernelCall& call, const void* src) {
  with_type(call.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    T* const to = static_cast<T*>(call.dst);
    const T* const from = static_cast<const T*>(src);
    const unsigned blocks = blocks_for(call.count);
    if (call.reduction == 0) reduce_kernel<<<blocks, kThreads, 0, call.stream>>>(to, from, call.count, Sum{});
    if (call.reduction == 1) reduce_kernel<<<blocks, kThreads, 0, call.stream>>>(to, from, call.count, Max{});
    if (call.reduction == 2) reduce_kernel<<<blocks, kThreads, 0, call.stream>>>(to, from, call.count, Min{});
  });
  return failure();
}

const char* launch_scale(const KernelCall& call, double factor) {
  with_type(call.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    scale_kernel<<<blocks_for(call.count), kThreads, 0, call.stream>>>(static_cast<T*>(call.dst), call.count, factor);
  });
  return failure();
}

const char* launch_sum(const KernelCall& call, const void* const* sources, int source_count, double factor) {
  Sources list{};
  std::copy(sources, sources + source_count, list.at);
  list.count = source_count;
  with_type(call.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    sum_kernel<<<blocks_for(call.count), kThreads, 0, call.stream>>>(static_cast<T*>(call.dst), list, call.count, factor);
  });
  return failure();
}

}  // namespace paceline::tensor::cuda

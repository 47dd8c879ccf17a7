// Internal to this folder: what nvcc compiles, in the C++17 that CMake 3.25 knows it to speak. See reduce.h for what they compute.
#pragma once

#include <cstdint>

struct CUstream_st;

namespace paceline::tensor::cuda {

// The numbers of tensor::Reduction and tensor::DType.
struct KernelCall {
  int reduction;
  int dtype;
  void* dst;
  std::int64_t count;  // above 0
  CUstream_st* stream;
};

inline constexpr int kMostKernelSources = 64;

// Each starts a kernel; nullptr, or what CUDA says against it.
const char* launch_reduce(const KernelCall& call, const void* src);
const char* launch_scale(const KernelCall& call, double factor);
const char* launch_sum(const KernelCall& call, const void* const* sources, int source_count, double factor);

}  // namespace paceline::tensor::cuda

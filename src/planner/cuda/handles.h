// Owners of what CUDA and cuDNN hand out, and their failures as Status. Only for the files of this folder.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>

#include <cuda_runtime.h>
#include <cudnn.h>

#include "base/status.h"

namespace paceline::planner {

// kIo: "cannot <what>: <what CUDA says>".
inline Status check(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return {};
  return error(ErrorKind::kIo, "cannot {}: {}", what, cudaGetErrorString(result));
}
inline Status check(cudnnStatus_t result, const char* what) {
  if (result == CUDNN_STATUS_SUCCESS) return {};
  return error(ErrorKind::kIo, "cannot {}: {}", what, cudnnGetErrorString(result));
}

// Calls kDestroy, whose result nobody could do anything about.
template <auto kDestroy>
struct Destroy {
  template <typename Object>
  void operator()(Object* object) const {
    static_cast<void>(kDestroy(object));
  }
};
template <typename Handle, auto kDestroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy<kDestroy>>;

using CudnnHandle = Owned<cudnnHandle_t, cudnnDestroy>;
using TensorShape = Owned<cudnnTensorDescriptor_t, cudnnDestroyTensorDescriptor>;
using FilterShape = Owned<cudnnFilterDescriptor_t, cudnnDestroyFilterDescriptor>;
using ConvolutionShape = Owned<cudnnConvolutionDescriptor_t, cudnnDestroyConvolutionDescriptor>;
using Event = Owned<cudaEvent_t, cudaEventDestroy>;
using DeviceMemory = std::unique_ptr<void, Destroy<cudaFree>>;

// What `create` (cudnnCreate…, cudaEventCreate) makes, owned.
template <typename Owner, typename Handle, typename Code>
Result<Owner> made(Code (*create)(Handle*), const char* what) {
  Handle handle = nullptr;
  PACELINE_RETURN_IF_ERROR(check(create(&handle), what));
  return Owner(handle);
}

// Memory of the GPU; at least a byte, so that there is an address. Null where there is not so much.
inline DeviceMemory device_memory(std::size_t bytes) {
  void* memory = nullptr;
  if (cudaMalloc(&memory, bytes > 0 ? bytes : 1) == cudaSuccess) return DeviceMemory(memory);
  cudaGetLastError();  // told by the result; what comes later is not to be blamed
  return nullptr;
}

}  // namespace paceline::planner

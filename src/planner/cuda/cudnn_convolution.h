// One convolution of one mini-batch in cuDNN's terms: 32-bit floats, NCHW, no tensor cores (TF32 would round the inputs to ten
// bits, and the processor's ways do not). Only for the files of this folder.
//
// cuDNN 9 calls this interface legacy, in favour of one that names engines instead of algorithms; it is the one that has the
// algorithms by name.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "model/description.h"
#include "planner/cuda/handles.h"
#include "planner/sizing/cudnn_families.h"

namespace paceline::planner {

// On the GPU: what the passes read, and room for what any of them writes.
struct ConvolutionMemory {
  DeviceMemory input, filter;
  DeviceMemory output;  // the first family's; also the gradient that the backward passes read
  DeviceMemory result;  // of the pass that ran last
};

class CudnnConvolution {
 public:
  // kIo with what cuDNN says, also when it expects another output than the description has; kBadRequest for sizes beyond cuDNN's
  // 32-bit integers.
  static Result<CudnnConvolution> make(const model::ConvolutionGeometry& geometry, std::int64_t mini_batch);

  // Values of each, and of what the pass writes.
  std::size_t input_values() const { return input_values_; }
  std::size_t filter_values() const { return filter_values_; }
  std::size_t output_values() const { return output_values_; }
  std::size_t result_values(CudnnPass pass) const;

  // CUDNN_STATUS_NOT_SUPPORTED… where the algorithm does not compute this pass, also where cuDNN has none of that name.
  cudnnStatus_t workspace(cudnnHandle_t cudnn, CudnnPass pass, CudnnAlgorithm algorithm, std::size_t& bytes) const;
  // Enqueues the pass, which writes memory.result.
  cudnnStatus_t run(cudnnHandle_t cudnn, CudnnPass pass, CudnnAlgorithm algorithm, const ConvolutionMemory& memory, void* workspace,
                    std::size_t workspace_bytes) const;

 private:
  CudnnConvolution() = default;
  Status describe(const model::ConvolutionGeometry& geometry, int mini_batch);
  Status compare(const model::ConvolutionGeometry& geometry, int mini_batch) const;

  TensorShape input_, output_;
  FilterShape filter_;
  ConvolutionShape convolution_;
  std::size_t input_values_ = 0, filter_values_ = 0, output_values_ = 0;
};

}  // namespace paceline::planner

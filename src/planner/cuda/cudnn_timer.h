// Measures the convolutions of a network on the first GPU, pass by pass, with every algorithm of cuDNN's that the candidates of
// planner/sizing/cudnn_families.h may run. Only with PACELINE_CUDA and cuDNN. One thread.
//
// Times are of the GPU's own clock: a pass runs twice to warm up, then in rounds of at least a millisecond; the median counts.
// Inputs and filters are made up, the same for every algorithm. Nothing but the convolution is timed: no bias, no copies between
// memories.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/description.h"
#include "planner/sizing/cudnn_families.h"

namespace paceline::planner {

// Why nothing can be measured here, in CUDA's words; "": there is a GPU.
std::string no_gpu_reason();

class CudnnTimer {
 public:
  // `rounds` >= 1. Errors: kIo with what CUDA or cuDNN says.
  static Result<std::unique_ptr<CudnnTimer>> make(int rounds);
  ~CudnnTimer();
  CudnnTimer(const CudnnTimer&) = delete;
  CudnnTimer& operator=(const CudnnTimer&) = delete;

  const CudnnFingerprint& fingerprint() const;

  // A convolution of the network; `passes` begin with the forward one. What cuDNN refuses, or has no room for, is a refusal within
  // the result. The GPU's memory is free again afterwards. Errors, which name the layer: kIo when the tensors themselves have no
  // room, when the algorithm that the others are compared with is refused, or when the GPU fails.
  Result<MeasuredCudnnLayer> measure(const model::LayerDescription& layer, const std::vector<CudnnPass>& passes,
                                     std::int64_t mini_batch);

 private:
  struct State;
  explicit CudnnTimer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace paceline::planner

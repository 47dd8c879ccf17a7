// A convolution layer whose algorithm can be chosen: torch::nn::Conv2d, with its parameters, options and initial values, that
// computes forward and backward pass by any of model/convolution_algorithm.h. Without a choice it is torch::nn::Conv2d to the bit.
// Modules of a user's own that hold a torch::nn::Conv2d keep running LibTorch's choice.
#pragma once

#include <functional>

#include <torch/nn/modules/conv.h>

#include "model/convolution_algorithm.h"

namespace paceline::trainer::models {

// Watches a layer compute, for measurements. The two calls enclose each forward and each backward pass of the layer.
class ConvolutionProbe {
 public:
  enum class Pass { kForward, kBackward };
  virtual ~ConvolutionProbe() = default;
  virtual void before(Pass pass) = 0;
  // `results`: bytes of what the pass hands on, which it needs whatever the algorithm.
  virtual void after(Pass pass, std::int64_t results) = 0;
};

class ConvolutionImpl : public torch::nn::Conv2dImpl {
 public:
  using Conv2dImpl::Conv2dImpl;

  torch::Tensor forward(const torch::Tensor& input);

  // From the next forward pass on. The algorithm must be able to compute this layer (model::refusal).
  void run_with(model::ConvolutionAlgorithm algorithm) { algorithm_ = algorithm; }
  // Whether LibTorch's choice for inputs of this shape is oneDNN anyway.
  bool default_is_onednn(at::IntArrayRef input) const;
  // nullptr: nobody watches. The probe must outlive every pass, backward ones too.
  void set_probe(ConvolutionProbe* probe) { probe_ = probe; }

 private:
  model::ConvolutionAlgorithm algorithm_ = model::ConvolutionAlgorithm::kDefault;
  ConvolutionProbe* probe_ = nullptr;
};
TORCH_MODULE(Convolution);

// Every Convolution inside `module` with its path, in the order of registration.
std::vector<std::pair<std::string, ConvolutionImpl*>> convolutions_of(torch::nn::Module& module);

// kBadRequest naming the layer: no Convolution of that name.
Status run_convolutions(torch::nn::Module& module, const model::ConvolutionChoice& choice);

}  // namespace paceline::trainer::models

// The algorithms themselves, forward and backward, as functions of tensors. Inside trainer/models only; convolution.h is the
// interface. Inputs are float32, N x C x H x W; strides and padding by side. No gradients are recorded.
#pragma once

#include <array>

#include <ATen/core/Tensor.h>

#include "model/convolution_algorithm.h"

namespace paceline::trainer::models {

struct ConvolutionShape {
  std::array<std::int64_t, 2> stride{1, 1};
  std::array<std::int64_t, 2> padding{0, 0};
  std::int64_t groups = 1;
};

// `bias` may be undefined.
at::Tensor convolution_forward(model::ConvolutionAlgorithm algorithm, const at::Tensor& input, const at::Tensor& weight,
                               const at::Tensor& bias, const ConvolutionShape& shape);

// Whether kDefault is kOnednn for these operands, of which only the shapes count.
bool default_is_onednn(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias, const ConvolutionShape& shape);

struct ConvolutionGradients {
  at::Tensor input, weight, bias;
};
// Those of which `wanted` says so; the others stay undefined.
ConvolutionGradients convolution_backward(model::ConvolutionAlgorithm algorithm, const at::Tensor& gradient,
                                          const at::Tensor& input, const at::Tensor& weight, const ConvolutionShape& shape,
                                          const std::array<bool, 3>& wanted);

}  // namespace paceline::trainer::models

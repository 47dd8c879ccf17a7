// What a training step needs on a device, by formula (S.-X. Zou et al., Eq 1-5, with their depths, mini-batch factors and biases
// put right), and what the formula leaves for the workspace of fast convolutions. Pure arithmetic; any thread.
//
// Counted: the input and every convolution's and pooling's output, once per sample; weights, biases and twice as much for
// gradients; the classifier's neurons and weights likewise. All in 32-bit floats. Not counted: normalisation layers, activations in
// place, optimizer state, the framework. So it is a bound for planning, to be compared with a measured step.
#pragma once

#include <cstdint>

#include "base/quantity.h"
#include "base/status.h"
#include "model/description.h"

namespace paceline::planner {

struct MemoryNeed {
  std::int64_t feature_maps_bits = 0;  // Eq 2
  std::int64_t convolution_bits = 0;   // Eq 3: weights, biases, gradients
  std::int64_t classifier_bits = 0;    // Eq 4; auxiliary classifiers too
  std::int64_t bound_bits = 0;         // Eq 5: what is left of the device; negative: it does not fit
};

// kBadRequest: mini_batch < 1, negative memory, or a need beyond 2^63 bits.
Result<MemoryNeed> memory_need(const model::ModelDescription& model, std::int64_t mini_batch, Bytes memory);

// The formula is for convolutional networks: why it does not speak about this one, or "".
std::string no_formula_reason(const model::ModelDescription& model);

// Table 2 of the paper: memory of an FFT-based convolution / of a GEMM-based one. All fields at least 1.
struct ConvolutionSize {
  std::int64_t mini_batch = 1;
  std::int64_t input_width = 1;
  std::int64_t input_height = 1;
  std::int64_t output_width = 1;
  std::int64_t output_height = 1;
  std::int64_t depth = 1;    // channels of the input
  std::int64_t filters = 1;  // channels of the output
};
double fft_memory_ratio(const ConvolutionSize& size);

}  // namespace paceline::planner

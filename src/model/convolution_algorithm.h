// The ways in which a convolution can be computed on the processor, and which layer of a network runs which (`--convolutions`).
// Plain values; any thread. trainer/models/convolution.h runs them.
//
// All compute the same sums in another order, so results differ in the last digits: against the library's default by less than
// tolerance() of the largest result.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/description.h"

namespace paceline::model {

enum class ConvolutionAlgorithm {
  kDefault,   // what LibTorch chooses: oneDNN, for small inputs im2col + GEMM
  kOnednn,    // oneDNN's direct convolution; the backward pass is LibTorch's choice
  kGemm,      // im2col and one matrix product for each sample
  kWinograd,  // Winograd's F(4x4, 3x3) as batched matrix products: 3x3, stride 1, padding up to 2
  kFft,       // product of Fourier transforms of the padded input and the filters, which are padded to its size
};
const std::vector<ConvolutionAlgorithm>& convolution_algorithms();      // all, the default first
const char* to_string(ConvolutionAlgorithm algorithm);                  // "default", "onednn", "gemm", "winograd", "fft"
Result<ConvolutionAlgorithm> parse_algorithm(const std::string& name);  // kBadRequest: legal names, and the nearest
double tolerance(ConvolutionAlgorithm algorithm);

// Why the algorithm cannot compute this convolution, or "".
std::string refusal(ConvolutionAlgorithm algorithm, const ConvolutionGeometry& geometry);

// By layer name. Layers that are not named run the default.
using ConvolutionChoice = std::map<std::string, ConvolutionAlgorithm>;

// "conv2=fft,conv3=winograd", ordered by name, without layers that run the default: equal choices have equal texts. "" : nothing.
std::string to_text(const ConvolutionChoice& choice);
// kBadRequest: what is not NAME=ALGORITHM.
Result<ConvolutionChoice> parse_convolutions(const std::string& text);

// kBadRequest naming the layer: it is no convolution of the model, or cannot run the algorithm.
Status check_convolutions(const ConvolutionChoice& choice, const ModelDescription& model);

}  // namespace paceline::model

// What a network looks like, without LibTorch: its layers in forward order, their tensors, their work, and the geometry that the
// memory model needs (Yan et al., Eq 1-5). Plain values; anybody may call from any thread. `trainer/tests/models_test.cc` compares
// every description with the instantiated torch module and with the tensors of a real forward pass.
//
// A layer is a module that owns parameters, in the order of the first call of its forward; its name is the module's path in
// PyTorch ("layer1.0.conv1"). Pooling owns nothing, so it is no layer: it stands with the layer after which it runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace paceline::model {

enum class LayerKind { kConvolution, kBatchNorm, kLinear, kEmbedding, kLstm, kAttention };
const char* to_string(LayerKind kind);  // "convolution", "batch-norm", "linear", "embedding", "lstm", "attention"

// One parameter array; the name is local to its layer ("weight", "bias_ih_l0").
struct TensorDescription {
  std::string name;
  std::vector<std::int64_t> shape;

  std::int64_t elements() const;
};

// One sample's activations between two layers.
struct FeatureMap {
  std::int64_t channels = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;

  std::int64_t elements() const { return channels * height * width; }
  bool operator==(const FeatureMap&) const = default;
};

struct Extent {
  std::int64_t height = 0;
  std::int64_t width = 0;

  bool operator==(const Extent&) const = default;
};

// Output size: floor((input - kernel + 2 padding) / stride) + 1 along each side (Eq 1).
struct ConvolutionGeometry {
  Extent kernel;
  Extent stride{1, 1};
  Extent padding{0, 0};
  std::int64_t groups = 1;
  bool bias = true;
  FeatureMap input;
  FeatureMap output;
};

enum class PoolingKind { kMax, kAverage };
const char* to_string(PoolingKind kind);  // "max", "average"

// As a convolution's; global average pooling has the whole input as its kernel.
struct PoolingGeometry {
  std::string name;
  PoolingKind kind = PoolingKind::kMax;
  Extent kernel;
  Extent stride{1, 1};
  Extent padding{0, 0};
  FeatureMap input;
  FeatureMap output;
};

struct LinearGeometry {
  std::int64_t in_features = 0;
  std::int64_t out_features = 0;
  bool bias = true;
};

struct LayerDescription {
  std::string name;
  LayerKind kind = LayerKind::kLinear;
  std::vector<TensorDescription> tensors;  // in PyTorch's order of registration
  std::int64_t parameters = 0;             // sum over the tensors
  // Multiply-accumulates of one sample's forward pass: products with the layer's weights, and an attention's products of
  // activations. Biases, normalisation, look-ups, activations and pooling count 0, as in the published figures. Recurrent layers:
  // for the length of the description's input.
  std::int64_t macs = 0;
  std::optional<ConvolutionGeometry> convolution;  // exactly for kConvolution
  std::optional<LinearGeometry> linear;            // exactly for kLinear
  std::vector<PoolingGeometry> pooling;            // what runs after this layer and before the next one, in order
};

struct ModelDescription {
  std::string name;
  // Images: {channels, height, width}. seq2seq: {2, length}, a row of source tokens and a row of target tokens.
  std::vector<std::int64_t> input;
  std::int64_t classes = 0;
  std::int64_t source_words = 0;         // seq2seq: ids of the source vocabulary; images: 0
  std::int64_t smallest_mini_batch = 1;  // that it can be trained with
  std::vector<LayerDescription> layers;  // forward order; auxiliary classifiers where training runs them

  std::int64_t parameters() const;
  std::int64_t macs() const;

  // kBadRequest, naming the model and --mini-batch, when so many samples are too few to train with.
  Status check_mini_batch(std::int64_t samples) const;

  // Eq 2 sums over these: the input and the output of every convolution and pooling layer, in forward order. Empty for a network
  // without convolutions.
  std::vector<FeatureMap> feature_maps() const;
  // Chains of linear layers, as sizes {L_1 = flattened input, L_2, ..., classes} (Eq 4). One, and one more for each auxiliary
  // classifier. A linear layer continues the chain of the linear layer right before it when the sizes fit.
  std::vector<std::vector<std::int64_t>> classifiers() const;
};

// The networks that `--model` knows, in the order in which they are listed.
const std::vector<std::string>& names();

// kBadRequest when there is no such network: the message suggests the nearest name and lists all.
Result<ModelDescription> describe(const std::string& name);

}  // namespace paceline::model

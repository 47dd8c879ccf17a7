// Writes a ModelDescription down in forward order and does the arithmetic: sizes (Eq 1), parameters, multiply-accumulates. Inside
// src/model only. A wrong network (a kernel larger than its input, features that do not fit) is a programmer's error and aborts.
#pragma once

#include <string>
#include <vector>

#include "model/description.h"

namespace paceline::model {

struct ConvolutionOptions {
  std::int64_t filters = 0;
  Extent kernel;
  Extent stride{1, 1};
  Extent padding{0, 0};
  bool bias = true;
};

struct PoolingOptions {
  PoolingKind kind = PoolingKind::kMax;
  std::int64_t kernel = 0;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
};

struct LstmOptions {
  std::int64_t input = 0;
  std::int64_t hidden = 0;
  std::int64_t directions = 1;
  std::int64_t length = 0;  // steps in one forward pass
};

// Each call appends one layer, or one pooling after the last layer, and returns the activations behind it.
class Builder {
 public:
  explicit Builder(std::vector<std::int64_t> input) { model_.input = std::move(input); }

  FeatureMap convolution(const std::string& name, const FeatureMap& input, const ConvolutionOptions& options);
  FeatureMap batch_norm(const std::string& name, const FeatureMap& input);
  FeatureMap pooling(const std::string& name, const FeatureMap& input, const PoolingOptions& options);
  FeatureMap global_average(const std::string& name, const FeatureMap& input);
  // `times`: how often one sample runs through it (once per token in a recurrent network).
  std::int64_t linear(const std::string& name, std::int64_t in_features, std::int64_t out_features, std::int64_t times = 1);
  void embedding(const std::string& name, std::int64_t words, std::int64_t width);
  void lstm(const std::string& name, const LstmOptions& options);
  void attention(const std::string& name, std::int64_t width, std::int64_t source_length, std::int64_t target_length);

  ModelDescription finish(std::int64_t classes) &&;

 private:
  LayerDescription& append(const std::string& name, LayerKind kind, std::vector<TensorDescription> tensors);

  ModelDescription model_;
};

constexpr Extent square(std::int64_t side) { return {side, side}; }

}  // namespace paceline::model

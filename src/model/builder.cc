#include "model/builder.h"

#include "base/check.h"

namespace paceline::model {
namespace {

std::int64_t output_side(std::int64_t input, std::int64_t kernel, std::int64_t stride, std::int64_t padding) {
  PACELINE_CHECK(kernel >= 1 && stride >= 1 && padding >= 0 && input + 2 * padding >= kernel,
                 "kernel {} stride {} padding {} on an input of {}", kernel, stride, padding, input);
  return (input - kernel + 2 * padding) / stride + 1;
}

FeatureMap output_map(std::int64_t channels, const FeatureMap& input, const Extent& kernel, const Extent& stride,
                      const Extent& padding) {
  return {channels, output_side(input.height, kernel.height, stride.height, padding.height),
          output_side(input.width, kernel.width, stride.width, padding.width)};
}

}  // namespace

LayerDescription& Builder::append(const std::string& name, LayerKind kind, std::vector<TensorDescription> tensors) {
  LayerDescription& layer = model_.layers.emplace_back();
  layer.name = name;
  layer.kind = kind;
  layer.tensors = std::move(tensors);
  for (const TensorDescription& tensor : layer.tensors) layer.parameters += tensor.elements();
  return layer;
}

FeatureMap Builder::convolution(const std::string& name, const FeatureMap& input, const ConvolutionOptions& options) {
  const Extent& kernel = options.kernel;
  const FeatureMap output = output_map(options.filters, input, kernel, options.stride, options.padding);
  std::vector<TensorDescription> tensors = {{"weight", {options.filters, input.channels, kernel.height, kernel.width}}};
  if (options.bias) tensors.push_back({"bias", {options.filters}});
  LayerDescription& layer = append(name, LayerKind::kConvolution, std::move(tensors));
  layer.macs = output.elements() * input.channels * kernel.height * kernel.width;
  layer.convolution = ConvolutionGeometry{.kernel = kernel,
                                          .stride = options.stride,
                                          .padding = options.padding,
                                          .groups = 1,
                                          .bias = options.bias,
                                          .input = input,
                                          .output = output};
  return output;
}

FeatureMap Builder::batch_norm(const std::string& name, const FeatureMap& input) {
  append(name, LayerKind::kBatchNorm, {{"weight", {input.channels}}, {"bias", {input.channels}}});
  return input;
}

FeatureMap Builder::pooling(const std::string& name, const FeatureMap& input, const PoolingOptions& options) {
  PACELINE_CHECK(!model_.layers.empty(), "pooling '{}' before the first layer", name);
  const Extent kernel = square(options.kernel), stride = square(options.stride), padding = square(options.padding);
  const FeatureMap output = output_map(input.channels, input, kernel, stride, padding);
  model_.layers.back().pooling.push_back({.name = name,
                                          .kind = options.kind,
                                          .kernel = kernel,
                                          .stride = stride,
                                          .padding = padding,
                                          .input = input,
                                          .output = output});
  return output;
}

FeatureMap Builder::global_average(const std::string& name, const FeatureMap& input) {
  PACELINE_CHECK(input.height == input.width, "global pooling of {} x {}", input.height, input.width);
  return pooling(name, input, {.kind = PoolingKind::kAverage, .kernel = input.height});
}

std::int64_t Builder::linear(const std::string& name, std::int64_t in_features, std::int64_t out_features, std::int64_t times) {
  LayerDescription& layer = append(name, LayerKind::kLinear, {{"weight", {out_features, in_features}}, {"bias", {out_features}}});
  layer.macs = times * in_features * out_features;
  layer.linear = LinearGeometry{.in_features = in_features, .out_features = out_features, .bias = true};
  return out_features;
}

void Builder::embedding(const std::string& name, std::int64_t words, std::int64_t width) {
  append(name, LayerKind::kEmbedding, {{"weight", {words, width}}});
}

void Builder::lstm(const std::string& name, const LstmOptions& options) {
  const std::int64_t gates = 4 * options.hidden;
  std::vector<TensorDescription> tensors;
  for (std::int64_t direction = 0; direction < options.directions; ++direction) {
    const std::string suffix = direction == 0 ? "_l0" : "_l0_reverse";
    tensors.push_back({"weight_ih" + suffix, {gates, options.input}});
    tensors.push_back({"weight_hh" + suffix, {gates, options.hidden}});
    tensors.push_back({"bias_ih" + suffix, {gates}});
    tensors.push_back({"bias_hh" + suffix, {gates}});
  }
  LayerDescription& layer = append(name, LayerKind::kLstm, std::move(tensors));
  layer.macs = options.length * options.directions * gates * (options.input + options.hidden);
}

void Builder::attention(const std::string& name, std::int64_t width, std::int64_t source_length, std::int64_t target_length) {
  LayerDescription& layer = append(
      name, LayerKind::kAttention,
      {{"query_weight", {width, width}}, {"key_weight", {width, width}}, {"value_weight", {width, width}}, {"bias", {width}}});
  // Keys once per source token; per target token a query, a score and a weighted sum over the source, and the value's projection.
  layer.macs = source_length * width * width + target_length * (2 * width * width + 2 * source_length * width);
}

ModelDescription Builder::finish(std::int64_t classes) && {
  model_.classes = classes;
  return std::move(model_);
}

}  // namespace paceline::model

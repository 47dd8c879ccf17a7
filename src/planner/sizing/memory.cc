#include "planner/sizing/memory.h"

#include <algorithm>
#include <limits>

namespace paceline::planner {
namespace {

// Wide enough for any product of what a description holds; narrowed at the end with a check.
__extension__ using Wide = __int128;

constexpr Wide kBitsPerValue = 32;
constexpr Wide kCopies = 3;  // a weight and, as the paper counts, two gradients

Wide feature_map_values(const model::ModelDescription& model) {
  Wide values = 0;
  for (const model::FeatureMap& map : model.feature_maps()) values += Wide{map.channels} * map.height * map.width;
  return values;
}

Wide convolution_weights(const model::ModelDescription& model) {
  Wide weights = 0;
  for (const model::LayerDescription& layer : model.layers) {
    if (!layer.convolution) continue;
    const model::ConvolutionGeometry& geometry = *layer.convolution;
    const Wide filters = geometry.output.channels;
    weights += Wide{geometry.kernel.height} * geometry.kernel.width * (geometry.input.channels / geometry.groups) * filters;
    if (geometry.bias) weights += filters;
  }
  return weights;
}

Wide linear_weights(const model::ModelDescription& model) {
  Wide weights = 0;
  for (const model::LayerDescription& layer : model.layers) {
    if (!layer.linear) continue;
    weights += Wide{layer.linear->in_features} * layer.linear->out_features;
    if (layer.linear->bias) weights += layer.linear->out_features;
  }
  return weights;
}

Wide neurons(const model::ModelDescription& model) {
  Wide sum = 0;
  for (const auto& chain : model.classifiers()) {
    for (std::int64_t size : chain) sum += size;
  }
  return sum;
}

Result<std::int64_t> narrow(const char* what, Wide bits) {
  if (bits <= std::numeric_limits<std::int64_t>::max() && bits >= std::numeric_limits<std::int64_t>::min())
    return static_cast<std::int64_t>(bits);
  return error(ErrorKind::kBadRequest, "the {} would need more than 2^63 bits; give a smaller mini_batch", what);
}

}  // namespace

Result<MemoryNeed> memory_need(const model::ModelDescription& model, std::int64_t mini_batch, Bytes memory) {
  if (mini_batch < 1) return error(ErrorKind::kBadRequest, "mini_batch is {}; legal is 1 or more", mini_batch);
  if (memory.count < 0) return error(ErrorKind::kBadRequest, "memory is {} bytes; legal is 0 or more", memory.count);
  const Wide maps = feature_map_values(model) * mini_batch * kBitsPerValue;
  const Wide convolutions = convolution_weights(model) * kCopies * kBitsPerValue;
  const Wide classifier = neurons(model) * mini_batch * kBitsPerValue + linear_weights(model) * kCopies * kBitsPerValue;
  MemoryNeed need;
  PACELINE_ASSIGN_OR_RETURN(need.feature_maps_bits, narrow("feature maps", maps));
  PACELINE_ASSIGN_OR_RETURN(need.convolution_bits, narrow("convolutions", convolutions));
  PACELINE_ASSIGN_OR_RETURN(need.classifier_bits, narrow("classifier", classifier));
  PACELINE_ASSIGN_OR_RETURN(need.bound_bits, narrow("network", Wide{memory.count} * 8 - maps - convolutions - classifier));
  return need;
}

std::string no_formula_reason(const model::ModelDescription& model) {
  for (const model::LayerDescription& layer : model.layers) {
    if (layer.kind == model::LayerKind::kLstm) {
      return fmt::format("layer '{}' is recurrent; the memory formula (Eq 1-5) is for convolutional networks", layer.name);
    }
  }
  const bool convolutional =
      std::any_of(model.layers.begin(), model.layers.end(), [](const auto& layer) { return layer.convolution.has_value(); });
  return convolutional ? "" : "the network has no convolutions; the memory formula (Eq 1-5) is for convolutional networks";
}

double fft_memory_ratio(const ConvolutionSize& size) {
  PACELINE_CHECK(std::min({size.mini_batch, size.input_width, size.input_height, size.output_width, size.output_height, size.depth,
                           size.filters}) >= 1,
                 "a convolution without extent");
  const auto n = static_cast<double>(size.mini_batch);
  const auto d = static_cast<double>(size.depth);
  const auto k = static_cast<double>(size.filters);
  const auto b = static_cast<double>(size.input_width);
  const auto h = static_cast<double>(size.input_height);
  const double input = n * d * b * h;
  const double output = n * k * static_cast<double>(size.output_width) * static_cast<double>(size.output_height);
  const std::int64_t frequencies = size.input_height / 2 + 1;        // of a real row
  const double spectrum = 2 * b * static_cast<double>(frequencies);  // real and imaginary half of a plane
  return (input + spectrum * (d * k + n * k)) / (input + output);
}

}  // namespace paceline::planner

#include "planner/sizing/layer_chain.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace paceline::planner {
namespace {

using model::Extent;
using model::FeatureMap;

constexpr std::int64_t kLargest = std::int64_t{1} << 31;  // of any one extent: products of three stay within 2^93

template <typename... Args>
Status wrong(const std::string& where, fmt::format_string<Args...> format, Args&&... args) {
  return error(ErrorKind::kBadRequest, "{} {}", where, fmt::format(format, std::forward<Args>(args)...));
}

std::string text(const FeatureMap& map) { return fmt::format("[{}, {}, {}]", map.channels, map.height, map.width); }

Status check_range(const std::string& where, const char* what, std::int64_t value, std::int64_t least) {
  if (value >= least && value <= kLargest) return {};
  return wrong(where, "has a {} of {}; legal are {}..2^31", what, value, least);
}

Status check_map(const std::string& where, const char* what, const FeatureMap& map) {
  for (std::int64_t extent : {map.channels, map.height, map.width}) PACELINE_RETURN_IF_ERROR(check_range(where, what, extent, 1));
  return {};
}

Status check_window(const std::string& where, const Extent& kernel, const Extent& stride, const Extent& padding) {
  for (std::int64_t extent : {kernel.height, kernel.width}) PACELINE_RETURN_IF_ERROR(check_range(where, "kernel", extent, 1));
  for (std::int64_t extent : {stride.height, stride.width}) PACELINE_RETURN_IF_ERROR(check_range(where, "stride", extent, 1));
  for (std::int64_t extent : {padding.height, padding.width}) PACELINE_RETURN_IF_ERROR(check_range(where, "padding", extent, 0));
  return {};
}

// Eq 1 along both sides.
template <typename Geometry>
Status check_output(const std::string& where, const Geometry& geometry) {
  PACELINE_RETURN_IF_ERROR(check_map(where, "input", geometry.input));
  PACELINE_RETURN_IF_ERROR(check_map(where, "output", geometry.output));
  PACELINE_RETURN_IF_ERROR(check_window(where, geometry.kernel, geometry.stride, geometry.padding));
  const auto side = [](std::int64_t input, std::int64_t kernel, std::int64_t stride, std::int64_t padding) {
    return input + 2 * padding < kernel ? 0 : (input - kernel + 2 * padding) / stride + 1;
  };
  const FeatureMap expected{geometry.output.channels,
                            side(geometry.input.height, geometry.kernel.height, geometry.stride.height, geometry.padding.height),
                            side(geometry.input.width, geometry.kernel.width, geometry.stride.width, geometry.padding.width)};
  if (expected.height < 1 || expected.width < 1)
    return wrong(where, "has a kernel larger than its padded input {}", text(geometry.input));
  if (expected == geometry.output) return {};
  return wrong(where, "says its output is {}; its input {} gives {}", text(geometry.output), text(geometry.input), text(expected));
}

// The tensors that a layer's geometry implies: weight, then bias. None where only the geometry of others matters.
std::vector<std::vector<std::int64_t>> implied_shapes(const model::LayerDescription& layer) {
  std::vector<std::vector<std::int64_t>> shapes;
  if (layer.convolution) {
    const auto& geometry = *layer.convolution;
    shapes.push_back(
        {geometry.output.channels, geometry.input.channels / geometry.groups, geometry.kernel.height, geometry.kernel.width});
    if (geometry.bias) shapes.push_back({geometry.output.channels});
  } else if (layer.linear) {
    shapes.push_back({layer.linear->out_features, layer.linear->in_features});
    if (layer.linear->bias) shapes.push_back({layer.linear->out_features});
  }
  return shapes;
}

// `parameters` 0 and no tensors mean that the list does not say.
Status check_tensors(const std::string& where, const model::LayerDescription& layer) {
  const auto implied = implied_shapes(layer);
  if (implied.empty()) return {};
  long double parameters = 0;
  for (const auto& shape : implied) {
    long double elements = 1;
    for (std::int64_t extent : shape) elements *= static_cast<long double>(extent);
    parameters += elements;
  }
  if (layer.parameters != 0 && static_cast<long double>(layer.parameters) != parameters) {
    return wrong(where, "says it has {} parameters; its shapes give {:.0f}", layer.parameters, parameters);
  }
  if (layer.tensors.empty()) return {};
  if (layer.tensors.size() != implied.size())
    return wrong(where, "lists {} tensors; its shapes give {}", layer.tensors.size(), implied.size());
  for (std::size_t t = 0; t < implied.size(); ++t) {
    if (layer.tensors[t].shape == implied[t]) continue;
    return wrong(where, "says its tensor '{}' is [{}]; its shapes give [{}]", layer.tensors[t].name,
                 fmt::join(layer.tensors[t].shape, ", "), fmt::join(implied[t], ", "));
  }
  return {};
}

// What has been produced so far. From shapes alone a branch cannot be followed to its end, so outputs that were joined are told by
// their sum: of those of equal extent since the last joining, and only once some layer has branched off.
class Outputs {
 public:
  // Nothing has been produced, so the first layer may take anything.
  bool none() const { return all_.empty(); }
  const FeatureMap& last() const { return all_.back(); }

  void add(const FeatureMap& map) {
    all_.push_back(map);
    to_join_.push_back(map);
  }

  // True when `wanted` exists or can be joined.
  bool take(const FeatureMap& wanted) {
    if (std::find(all_.begin(), all_.end(), wanted) != all_.end()) {
      if (wanted != all_.back()) branched_ = true;
      return true;
    }
    const auto same_extent = [&](const FeatureMap& map) { return map.height == wanted.height && map.width == wanted.width; };
    std::vector<FeatureMap> parts;
    std::copy_if(to_join_.begin(), to_join_.end(), std::back_inserter(parts), same_extent);
    if (!branched_ || !sums_to(parts, wanted.channels)) return false;
    std::erase_if(to_join_, same_extent);
    branched_ = false;
    all_.push_back(wanted);
    return true;
  }

  // The same for a linear layer: one or joined outputs with so many values.
  bool take_flattened(std::int64_t features) {
    for (const FeatureMap& map : all_) {
      if (map.elements() == features) return take(map);
    }
    for (const FeatureMap& map : to_join_) {
      const std::int64_t area = map.height * map.width;
      if (features % area == 0 && take({features / area, map.height, map.width})) return true;
    }
    return false;
  }

 private:
  // Do some of the parts have `channels` together? Yes too where there are more sums than anyone would try.
  static bool sums_to(const std::vector<FeatureMap>& parts, std::int64_t channels) {
    constexpr std::size_t kTried = 100'000;
    std::set<std::int64_t> sums = {0};
    for (const FeatureMap& part : parts) {
      std::set<std::int64_t> grown = sums;
      for (std::int64_t sum : sums) {
        if (sum + part.channels <= channels) grown.insert(sum + part.channels);
      }
      sums = std::move(grown);
      if (sums.size() > kTried) return true;
    }
    return sums.contains(channels);
  }

  std::vector<FeatureMap> all_;
  std::vector<FeatureMap> to_join_;
  bool branched_ = false;  // since the last joining
};

template <typename Geometry>
Status take_input(const std::string& where, const Geometry& geometry, Outputs& outputs) {
  if (outputs.none()) outputs.add(geometry.input);
  const FeatureMap expected = outputs.last();
  if (!outputs.take(geometry.input)) {
    return wrong(where, "takes {}; expected {}, the output of the layer before, or another earlier output", text(geometry.input),
                 text(expected));
  }
  outputs.add(geometry.output);
  return {};
}

Status check_convolution(const std::string& where, const model::ConvolutionGeometry& geometry, Outputs& outputs) {
  PACELINE_RETURN_IF_ERROR(check_output(where, geometry));
  PACELINE_RETURN_IF_ERROR(check_range(where, "number of groups", geometry.groups, 1));
  if (geometry.input.channels % geometry.groups != 0 || geometry.output.channels % geometry.groups != 0) {
    return wrong(where, "has {} groups, which do not divide its {} input and {} output channels", geometry.groups,
                 geometry.input.channels, geometry.output.channels);
  }
  return take_input(where, geometry, outputs);
}

Status check_pooling(const std::string& where, const model::PoolingGeometry& geometry, Outputs& outputs) {
  PACELINE_RETURN_IF_ERROR(check_output(where, geometry));
  if (geometry.input.channels != geometry.output.channels) {
    return wrong(where, "pools {} channels into {}; pooling keeps them", geometry.input.channels, geometry.output.channels);
  }
  return take_input(where, geometry, outputs);
}

Status check_linear(const std::string& where, const model::LinearGeometry& linear, const model::LinearGeometry* before,
                    Outputs& outputs) {
  PACELINE_RETURN_IF_ERROR(check_range(where, "number of input features", linear.in_features, 1));
  PACELINE_RETURN_IF_ERROR(check_range(where, "number of output features", linear.out_features, 1));
  if (before != nullptr && before->out_features == linear.in_features) return {};
  if (before == nullptr && outputs.none()) return {};
  if (outputs.take_flattened(linear.in_features)) return {};
  if (before != nullptr)
    return wrong(where, "takes {} features; expected {}, the output of the layer before", linear.in_features, before->out_features);
  return wrong(where, "takes {} features; expected {}, the flattened {} before it", linear.in_features, outputs.last().elements(),
               text(outputs.last()));
}

}  // namespace

Status check_chain(const model::ModelDescription& model) {
  Outputs outputs;
  const model::LinearGeometry* before = nullptr;
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    const model::LayerDescription& layer = model.layers[l];
    const std::string where = fmt::format("layer {} '{}'", l + 1, layer.name);
    // Past these, shapes are no longer those of one sample's feature maps.
    if (layer.kind == model::LayerKind::kLstm || layer.kind == model::LayerKind::kEmbedding ||
        layer.kind == model::LayerKind::kAttention)
      return {};
    if (layer.convolution) PACELINE_RETURN_IF_ERROR(check_convolution(where, *layer.convolution, outputs));
    if (layer.linear) PACELINE_RETURN_IF_ERROR(check_linear(where, *layer.linear, before, outputs));
    PACELINE_RETURN_IF_ERROR(check_tensors(where, layer));
    for (const model::PoolingGeometry& pooling : layer.pooling) {
      PACELINE_RETURN_IF_ERROR(
          check_pooling(fmt::format("layer {} '{}', pooling '{}'", l + 1, layer.name, pooling.name), pooling, outputs));
    }
    before = layer.linear ? &*layer.linear : nullptr;
  }
  return {};
}

}  // namespace paceline::planner

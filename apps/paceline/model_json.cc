#include "paceline/model_json.h"

namespace paceline::cli {
namespace {

using Json = nlohmann::ordered_json;

Json pair(const model::Extent& extent) { return Json::array({extent.height, extent.width}); }

Json triple(const model::FeatureMap& map) { return Json::array({map.channels, map.height, map.width}); }

Json to_json(const model::ConvolutionGeometry& convolution) {
  return {{"kernel", pair(convolution.kernel)},  {"stride", pair(convolution.stride)}, {"padding", pair(convolution.padding)},
          {"groups", convolution.groups},        {"bias", convolution.bias},           {"input", triple(convolution.input)},
          {"output", triple(convolution.output)}};
}

Json to_json(const model::PoolingGeometry& pooling) {
  return {{"name", pooling.name},
          {"kind", to_string(pooling.kind)},
          {"kernel", pair(pooling.kernel)},
          {"stride", pair(pooling.stride)},
          {"padding", pair(pooling.padding)},
          {"input", triple(pooling.input)},
          {"output", triple(pooling.output)}};
}

Json to_json(const model::LinearGeometry& linear) {
  return {{"in_features", linear.in_features}, {"out_features", linear.out_features}, {"bias", linear.bias}};
}

}  // namespace

Json to_json(const model::LayerDescription& layer) {
  Json tensors = Json::array();
  for (const model::TensorDescription& tensor : layer.tensors) tensors.push_back({{"name", tensor.name}, {"shape", tensor.shape}});
  Json json = {{"name", layer.name},
               {"kind", to_string(layer.kind)},
               {"parameters", layer.parameters},
               {"macs", layer.macs},
               {"tensors", std::move(tensors)}};
  if (layer.convolution) json["convolution"] = to_json(*layer.convolution);
  if (layer.linear) json["linear"] = to_json(*layer.linear);
  if (!layer.pooling.empty()) {
    Json& all = json["pooling"] = Json::array();
    for (const model::PoolingGeometry& pooling : layer.pooling) all.push_back(to_json(pooling));
  }
  return json;
}

Json to_json(const model::ModelDescription& model) {
  Json layers = Json::array();
  for (const model::LayerDescription& layer : model.layers) layers.push_back(to_json(layer));
  return {{"name", model.name},   {"parameters", model.parameters()}, {"macs", model.macs()},
          {"input", model.input}, {"classes", model.classes},         {"layers", std::move(layers)}};
}

}  // namespace paceline::cli

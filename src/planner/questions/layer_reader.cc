#include "planner/questions/layer_reader.h"

#include <fmt/ranges.h>

#include "base/text.h"
#include "planner/sizing/layer_chain.h"
#include "report/json_fields.h"

namespace paceline::planner {
namespace {

template <typename... Args>
Status wrong_at(const std::string& where, fmt::format_string<Args...> format, Args&&... args) {
  return error(ErrorKind::kBadRequest, "{} {}", where, fmt::format(format, std::forward<Args>(args)...));
}

using Fields = report::JsonFields;

Result<model::Extent> extent(const Fields& fields, const char* key) {
  PACELINE_ASSIGN_OR_RETURN(const auto pair, fields.counts(key, 2));
  return model::Extent{pair[0], pair[1]};
}

Result<model::FeatureMap> map(const Fields& fields, const char* key) {
  PACELINE_ASSIGN_OR_RETURN(const auto triple, fields.counts(key, 3));
  return model::FeatureMap{triple[0], triple[1], triple[2]};
}

Result<model::ConvolutionGeometry> read_convolution(const Json& json, const std::string& where) {
  PACELINE_ASSIGN_OR_RETURN(const Fields fields,
                            Fields::of(json, where, {"kernel", "stride", "padding", "groups", "bias", "input", "output"}));
  model::ConvolutionGeometry geometry;
  PACELINE_ASSIGN_OR_RETURN(geometry.kernel, extent(fields, "kernel"));
  PACELINE_ASSIGN_OR_RETURN(geometry.stride, extent(fields, "stride"));
  PACELINE_ASSIGN_OR_RETURN(geometry.padding, extent(fields, "padding"));
  PACELINE_ASSIGN_OR_RETURN(geometry.groups, fields.count("groups"));
  PACELINE_ASSIGN_OR_RETURN(geometry.bias, fields.truth("bias"));
  PACELINE_ASSIGN_OR_RETURN(geometry.input, map(fields, "input"));
  PACELINE_ASSIGN_OR_RETURN(geometry.output, map(fields, "output"));
  return geometry;
}

Result<model::LinearGeometry> read_linear(const Json& json, const std::string& where) {
  PACELINE_ASSIGN_OR_RETURN(const Fields fields, Fields::of(json, where, {"in_features", "out_features", "bias"}));
  model::LinearGeometry geometry;
  PACELINE_ASSIGN_OR_RETURN(geometry.in_features, fields.count("in_features"));
  PACELINE_ASSIGN_OR_RETURN(geometry.out_features, fields.count("out_features"));
  PACELINE_ASSIGN_OR_RETURN(geometry.bias, fields.truth("bias"));
  return geometry;
}

Result<model::PoolingGeometry> read_pooling(const Json& json, const std::string& where) {
  PACELINE_ASSIGN_OR_RETURN(const Fields fields,
                            Fields::of(json, where, {"name", "kind", "kernel", "stride", "padding", "input", "output"}));
  model::PoolingGeometry geometry;
  PACELINE_ASSIGN_OR_RETURN(geometry.name, fields.text("name"));
  PACELINE_ASSIGN_OR_RETURN(const std::string kind, fields.text("kind"));
  if (kind != "max" && kind != "average") return wrong_at(fields.where("kind"), "is '{}'; legal are max and average", kind);
  geometry.kind = kind == "max" ? model::PoolingKind::kMax : model::PoolingKind::kAverage;
  PACELINE_ASSIGN_OR_RETURN(geometry.kernel, extent(fields, "kernel"));
  PACELINE_ASSIGN_OR_RETURN(geometry.stride, extent(fields, "stride"));
  PACELINE_ASSIGN_OR_RETURN(geometry.padding, extent(fields, "padding"));
  PACELINE_ASSIGN_OR_RETURN(geometry.input, map(fields, "input"));
  PACELINE_ASSIGN_OR_RETURN(geometry.output, map(fields, "output"));
  return geometry;
}

Result<model::LayerKind> read_kind(const Fields& fields) {
  using enum model::LayerKind;
  PACELINE_ASSIGN_OR_RETURN(const std::string text, fields.text("kind"));
  std::vector<std::string> legal;
  for (const model::LayerKind kind : {kConvolution, kBatchNorm, kLinear, kEmbedding, kLstm, kAttention}) {
    if (text == to_string(kind)) return kind;
    legal.emplace_back(to_string(kind));
  }
  return wrong_at(fields.where("kind"), "is '{}'{}; legal are {}", text, suggestion(text, legal), fmt::join(legal, ", "));
}

Status read_tensors(const Fields& fields, model::LayerDescription& layer) {
  PACELINE_ASSIGN_OR_RETURN(const Json* tensors, fields.value("tensors"));
  if (!tensors->is_array())
    return wrong_at(fields.where("tensors"), "is {} (a {}); it must be an array", brief(*tensors), tensors->type_name());
  for (std::size_t t = 0; t < tensors->size(); ++t) {
    PACELINE_ASSIGN_OR_RETURN(const Fields tensor,
                              Fields::of((*tensors)[t], fmt::format("{}: tensors[{}]", fields.where(), t), {"name", "shape"}));
    model::TensorDescription description;
    PACELINE_ASSIGN_OR_RETURN(description.name, tensor.text("name"));
    PACELINE_ASSIGN_OR_RETURN(description.shape, tensor.counts("shape", 0));
    layer.tensors.push_back(std::move(description));
  }
  return {};
}

Status read_poolings(const Fields& fields, model::LayerDescription& layer) {
  PACELINE_ASSIGN_OR_RETURN(const Json* poolings, fields.value("pooling"));
  if (!poolings->is_array())
    return wrong_at(fields.where("pooling"), "is {} (a {}); it must be an array", brief(*poolings), poolings->type_name());
  for (std::size_t i = 0; i < poolings->size(); ++i) {
    PACELINE_ASSIGN_OR_RETURN(auto pooling, read_pooling((*poolings)[i], fmt::format("{}: pooling[{}]", fields.where(), i)));
    layer.pooling.push_back(std::move(pooling));
  }
  return {};
}

// A geometry stands exactly where the kind has one.
Status check_geometry(const Fields& fields, model::LayerKind kind) {
  for (const auto& [key, owner] :
       {std::pair{"convolution", model::LayerKind::kConvolution}, {"linear", model::LayerKind::kLinear}}) {
    if (fields.has(key) && kind != owner) return wrong_at(fields.where(), "is of kind '{}' but has key '{}'", to_string(kind), key);
    if (!fields.has(key) && kind == owner)
      return wrong_at(fields.where(), "lacks key '{}', the shapes that the formula needs", key);
  }
  return {};
}

Result<model::LayerDescription> read_layer(const Json& json, std::size_t number) {
  std::string where = fmt::format("layer {}", number);
  if (json.is_object() && json.contains("name") && json["name"].is_string())
    where += fmt::format(" '{}'", json["name"].get<std::string>());
  PACELINE_ASSIGN_OR_RETURN(
      const Fields fields,
      Fields::of(json, where, {"name", "kind", "parameters", "macs", "tensors", "convolution", "linear", "pooling"}));
  model::LayerDescription layer;
  PACELINE_ASSIGN_OR_RETURN(layer.name, fields.text("name"));
  PACELINE_ASSIGN_OR_RETURN(layer.kind, read_kind(fields));
  PACELINE_RETURN_IF_ERROR(check_geometry(fields, layer.kind));
  if (fields.has("parameters")) {
    PACELINE_ASSIGN_OR_RETURN(layer.parameters, fields.count("parameters"));
  }
  if (fields.has("macs")) {
    PACELINE_ASSIGN_OR_RETURN(layer.macs, fields.count("macs"));
  }
  if (fields.has("tensors")) PACELINE_RETURN_IF_ERROR(read_tensors(fields, layer));
  if (fields.has("convolution")) {
    PACELINE_ASSIGN_OR_RETURN(const Json* geometry, fields.value("convolution"));
    PACELINE_ASSIGN_OR_RETURN(layer.convolution, read_convolution(*geometry, where + ": convolution"));
  }
  if (fields.has("linear")) {
    PACELINE_ASSIGN_OR_RETURN(const Json* geometry, fields.value("linear"));
    PACELINE_ASSIGN_OR_RETURN(layer.linear, read_linear(*geometry, where + ": linear"));
  }
  if (fields.has("pooling")) PACELINE_RETURN_IF_ERROR(read_poolings(fields, layer));
  return layer;
}

}  // namespace

Result<model::ModelDescription> read_layers(const Json& layers) {
  if (!layers.is_array())
    return error(ErrorKind::kBadRequest, "key 'layers' is {} (a {}); it must be an array of layers", brief(layers),
                 layers.type_name());
  model::ModelDescription model;
  for (std::size_t l = 0; l < layers.size(); ++l) {
    auto layer = read_layer(layers[l], l + 1);
    if (!layer.ok()) return error(ErrorKind::kBadRequest, "key 'layers': {}", layer.status().message());
    model.layers.push_back(std::move(layer).value());
  }
  const Status chained = check_chain(model);
  if (!chained.ok()) return error(ErrorKind::kBadRequest, "key 'layers': {}", chained.message());
  return model;
}

}  // namespace paceline::planner

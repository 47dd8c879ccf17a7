#include "planner/questions/layer_reader.h"

#include <cmath>

#include <fmt/ranges.h>

#include "base/text.h"
#include "planner/sizing/layer_chain.h"

namespace paceline::planner {
namespace {

constexpr double kLargestSize = 9007199254740992.0;

template <typename... Args>
Status wrong_at(const std::string& where, fmt::format_string<Args...> format, Args&&... args) {
  return error(ErrorKind::kBadRequest, "{} {}", where, fmt::format(format, std::forward<Args>(args)...));
}

// One object of the list; remembers where it stands for messages.
class Fields {
 public:
  static Result<Fields> of(const Json& object, std::string where, const std::vector<std::string>& legal) {
    if (!object.is_object()) return wrong_at(where, "is {} (a {}); it must be an object", brief(object), object.type_name());
    for (const auto& [name, value] : object.items()) {
      if (std::find(legal.begin(), legal.end(), name) != legal.end()) continue;
      return wrong_at(where, "has an unknown key '{}'{}; the keys are {}", name, suggestion(name, legal), fmt::join(legal, ", "));
    }
    return Fields(object, std::move(where));
  }

  bool has(const std::string& key) const { return object_->contains(key); }
  const std::string& where() const { return where_; }
  std::string where(const std::string& key) const { return where_ + ": key '" + key + "'"; }

  Result<const Json*> value(const std::string& key) const {
    const auto found = object_->find(key);
    if (found == object_->end()) return wrong_at(where_, "lacks key '{}'", key);
    return &*found;
  }

  Result<std::string> text(const std::string& key) const {
    PACELINE_ASSIGN_OR_RETURN(const Json* json, value(key));
    if (!json->is_string()) return wrong_at(where(key), "is {} (a {}); it must be a string", brief(*json), json->type_name());
    return json->get<std::string>();
  }

  Result<bool> truth(const std::string& key) const {
    PACELINE_ASSIGN_OR_RETURN(const Json* json, value(key));
    if (!json->is_boolean()) return wrong_at(where(key), "is {} (a {}); it must be true or false", brief(*json), json->type_name());
    return json->get<bool>();
  }

  Result<std::int64_t> count(const std::string& key) const {
    PACELINE_ASSIGN_OR_RETURN(const Json* json, value(key));
    return count_of(*json, where(key));
  }

  // `size` counts; any number of them when it is 0.
  Result<std::vector<std::int64_t>> counts(const std::string& key, std::size_t size) const {
    PACELINE_ASSIGN_OR_RETURN(const Json* json, value(key));
    if (!json->is_array())
      return wrong_at(where(key), "is {} (a {}); it must be an array of whole numbers", brief(*json), json->type_name());
    if (size != 0 && json->size() != size) return wrong_at(where(key), "has {} numbers; it must have {}", json->size(), size);
    std::vector<std::int64_t> counts;
    for (const Json& element : *json) {
      PACELINE_ASSIGN_OR_RETURN(const std::int64_t number, count_of(element, where(key)));
      counts.push_back(number);
    }
    return counts;
  }

  Result<model::Extent> extent(const std::string& key) const {
    PACELINE_ASSIGN_OR_RETURN(const auto pair, counts(key, 2));
    return model::Extent{pair[0], pair[1]};
  }

  Result<model::FeatureMap> map(const std::string& key) const {
    PACELINE_ASSIGN_OR_RETURN(const auto triple, counts(key, 3));
    return model::FeatureMap{triple[0], triple[1], triple[2]};
  }

 private:
  Fields(const Json& object, std::string where) : object_(&object), where_(std::move(where)) {}

  static Result<std::int64_t> count_of(const Json& json, const std::string& where) {
    if (!json.is_number()) return wrong_at(where, "is {} (a {}); it must be a whole number", brief(json), json.type_name());
    const double number = json.get<double>();
    if (!(number >= 0 && number <= kLargestSize) || number != std::floor(number)) {
      return wrong_at(where, "is {}; it must be a whole number from 0 to 2^53", brief(json));
    }
    return static_cast<std::int64_t>(number);
  }

  const Json* object_;
  std::string where_;
};

Result<model::ConvolutionGeometry> read_convolution(const Json& json, const std::string& where) {
  PACELINE_ASSIGN_OR_RETURN(const Fields fields,
                            Fields::of(json, where, {"kernel", "stride", "padding", "groups", "bias", "input", "output"}));
  model::ConvolutionGeometry geometry;
  PACELINE_ASSIGN_OR_RETURN(geometry.kernel, fields.extent("kernel"));
  PACELINE_ASSIGN_OR_RETURN(geometry.stride, fields.extent("stride"));
  PACELINE_ASSIGN_OR_RETURN(geometry.padding, fields.extent("padding"));
  PACELINE_ASSIGN_OR_RETURN(geometry.groups, fields.count("groups"));
  PACELINE_ASSIGN_OR_RETURN(geometry.bias, fields.truth("bias"));
  PACELINE_ASSIGN_OR_RETURN(geometry.input, fields.map("input"));
  PACELINE_ASSIGN_OR_RETURN(geometry.output, fields.map("output"));
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
  PACELINE_ASSIGN_OR_RETURN(geometry.kernel, fields.extent("kernel"));
  PACELINE_ASSIGN_OR_RETURN(geometry.stride, fields.extent("stride"));
  PACELINE_ASSIGN_OR_RETURN(geometry.padding, fields.extent("padding"));
  PACELINE_ASSIGN_OR_RETURN(geometry.input, fields.map("input"));
  PACELINE_ASSIGN_OR_RETURN(geometry.output, fields.map("output"));
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

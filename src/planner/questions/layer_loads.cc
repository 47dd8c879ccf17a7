#include "planner/questions/layer_loads.h"

#include <algorithm>
#include <cmath>

#include <fmt/ranges.h>

#include "base/text.h"
#include "base/wrong.h"

namespace paceline::planner {
namespace {

// The one of two keys that a layer has, as a number that has been checked already for sign and finiteness.
Result<double> either(const Json& layer, const std::string& where, const std::string& first, const std::string& second) {
  const bool both = layer.contains(first) && layer.contains(second);
  if (both) return wrong("{} has both '{}' and '{}'; give one", where, first, second);
  if (!layer.contains(first) && !layer.contains(second)) return wrong("{} has neither '{}' nor '{}'", where, first, second);
  const std::string& name = layer.contains(first) ? first : second;
  if (!layer[name].is_number()) return wrong("{}.{} is a {}; it must be a number", where, name, layer[name].type_name());
  return layer[name].get<double>();
}

Result<cost::LayerLoad> layer_load(const Json& layer, const std::string& where) {
  static const std::vector<std::string> kLegal = {"bytes",    "parameters", "forward", "forward_s",
                                                  "backward", "backward_s", "name",    "macs"};
  if (!layer.is_object()) return wrong("{} is a {}; it must be an object", where, layer.type_name());
  for (const auto& [name, value] : layer.items()) {
    if (std::find(kLegal.begin(), kLegal.end(), name) == kLegal.end()) {
      return wrong("{} has the unknown key '{}'{}; the keys are {}", where, name, suggestion(name, kLegal),
                   fmt::join(kLegal, ", "));
    }
  }
  constexpr double kMost = 2251799813685248;  // 2^51: four times as many bytes are still exact
  cost::LayerLoad load;
  PACELINE_ASSIGN_OR_RETURN(const double size, either(layer, where, "bytes", "parameters"));
  if (size != std::floor(size) || size > kMost) {
    return wrong("{}.{} is {}; it must be a whole number of at most 2^51", where, layer.contains("bytes") ? "bytes" : "parameters",
                 size);
  }
  load.size = Bytes{static_cast<std::int64_t>(size) * (layer.contains("bytes") ? 1 : 4)};
  PACELINE_ASSIGN_OR_RETURN(load.forward, either(layer, where, "forward", "forward_s"));
  PACELINE_ASSIGN_OR_RETURN(load.backward, either(layer, where, "backward", "backward_s"));
  return load;
}

}  // namespace

Key layers_key() {
  return {"layers", KeyType::kJson,
          "array, forward order: bytes (or parameters of 4 bytes), forward and backward (or forward_s and backward_s) in seconds; "
          "name"};
}

Result<std::vector<cost::LayerLoad>> layer_loads(const Json& input) {
  const Json& listed = input["layers"];
  if (!listed.is_array()) return wrong_key("layers", " is a {}; it must be an array of objects", listed.type_name());
  if (listed.empty()) return wrong_key("layers", " is empty; at least one layer is needed");
  std::vector<cost::LayerLoad> layers;
  for (std::size_t i = 0; i < listed.size(); ++i) {
    PACELINE_ASSIGN_OR_RETURN(const auto load, layer_load(listed[i], fmt::format("key 'layers'[{}]", i)));
    layers.push_back(load);
  }
  return layers;
}

std::vector<std::string> of_profile(std::vector<std::string> more) {
  const std::vector<std::string> always = {"model",     "source", "mini_batch", "rounds",   "warm_up", "parameters",
                                           "compute_s", "step_s", "bytes",      "residual", "spread",  "link"};
  more.insert(more.end(), always.begin(), always.end());
  return more;
}

}  // namespace paceline::planner

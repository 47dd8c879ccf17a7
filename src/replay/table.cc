#include "replay/table.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/ranges.h>

#include "base/files.h"
#include "base/text.h"
#include "base/wrong.h"
#include "report/json_text.h"

namespace paceline::replay {
namespace {

constexpr double kLongest = 3600;
constexpr double kMostParameters = 9007199254740992.0;  // 2^53
constexpr Bytes kLargestTable{std::int64_t{256} << 20};
constexpr int kArrays = 3;  // of floats: parameters, gradients, values on their way

const std::vector<std::string> kTableKeys = {"layers", "model", "source", "parameters", "compute_s"};
const std::vector<std::string> kLayerKeys = {"name", "parameters", "forward_s", "backward_s"};

template <typename... Args>
Status wrong(const std::string& where, fmt::format_string<Args...> format, Args&&... args) {
  return error(ErrorKind::kBadRequest, "{}: {}", where, fmt::format(format, std::forward<Args>(args)...));
}

Status check_keys(const Json& object, const std::vector<std::string>& legal, const std::string& where) {
  if (!object.is_object()) return wrong(where, "is {} (a {}); it must be an object", report::brief(object), object.type_name());
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(legal, key) != legal.end()) continue;
    return wrong(where, "unknown key '{}'{}; the keys are {}", key, suggestion(key, legal), fmt::join(legal, ", "));
  }
  return {};
}

Result<double> number(const Json& layer, const std::string& key, double most, const std::string& where) {
  const auto found = layer.find(key);
  if (found == layer.end()) return wrong(where, "key '{}' is missing", key);
  if (!found->is_number())
    return wrong(where, "key '{}' is {} (a {}); it must be a number", key, report::brief(*found), found->type_name());
  const auto value = found->get<double>();
  if (!(value >= 0 && value <= most)) return wrong(where, "key '{}' is {}; legal: 0 to {}", key, report::brief(*found), most);
  return value;
}

Result<LayerRow> read_layer(const Json& json, const std::string& place) {
  PACELINE_RETURN_IF_ERROR(check_keys(json, kLayerKeys, place));
  LayerRow row;
  const auto name = json.find("name");
  if (name == json.end()) return wrong(place, "key 'name' is missing");
  if (!name->is_string() || name->get_ref<const std::string&>().empty())
    return wrong(place, "key 'name' is {} (a {}); it must be a text that is not empty", report::brief(*name), name->type_name());
  row.name = *name;
  const std::string where = fmt::format("{} '{}'", place, row.name);
  PACELINE_ASSIGN_OR_RETURN(const double parameters, number(json, "parameters", kMostParameters, where));
  if (parameters != std::floor(parameters)) return wrong(where, "key 'parameters' is {}; it must be a whole number", parameters);
  row.parameters = static_cast<std::int64_t>(parameters);
  PACELINE_ASSIGN_OR_RETURN(row.forward, number(json, "forward_s", kLongest, where));
  PACELINE_ASSIGN_OR_RETURN(row.backward, number(json, "backward_s", kLongest, where));
  return row;
}

}  // namespace

Result<LayerTable> parse_table(const std::string& text, const std::string& source) {
  PACELINE_ASSIGN_OR_RETURN(const Json json, report::parse_json(text, source, report::CaseIndex::kNone));
  PACELINE_RETURN_IF_ERROR(check_keys(json, kTableKeys, source));
  if (!json.contains("layers")) return wrong(source, "key 'layers' is missing");
  const Json& layers = json["layers"];
  if (!layers.is_array() || layers.empty()) {
    return wrong(source, "key 'layers' is {} (a {}); it must be an array of at least one layer", report::brief(layers),
                 layers.type_name());
  }
  LayerTable table;
  for (const Json& layer : layers) {
    PACELINE_ASSIGN_OR_RETURN(LayerRow row, read_layer(layer, fmt::format("{}: layer {}", source, table.layers.size() + 1)));
    table.layers.push_back(std::move(row));
  }
  return table;
}

Result<LayerTable> read_table(const std::string& path) {
  if (path.empty())
    return error(ErrorKind::kBadRequest, "--model replay: names no file; write replay:FILE").because({"missing", "--model"});
  const auto text = read_text(system_files(), path, kLargestTable);
  if (!text.ok())
    return error(ErrorKind::kBadRequest, "the table cannot be read: {}; tables that come along have names, such as vgg19",
                 text.status().message())
        .because(cause_of(text.status()));
  return parse_table(*text, path);
}

std::string to_text(const LayerTable& table, const Json& notes) {
  std::string text = "{\n";
  for (const auto& [key, value] : notes.items()) text += fmt::format(" {}: {},\n", Json(key).dump(), value.dump());
  text += " \"layers\": [\n";
  for (const LayerRow& row : table.layers) {
    text += fmt::format(
        "  {}{}\n",
        Json{{"name", row.name}, {"parameters", row.parameters}, {"forward_s", row.forward}, {"backward_s", row.backward}}.dump(),
        &row == &table.layers.back() ? "" : ",");
  }
  return text + " ]\n}\n";
}

LayerTable scaled(LayerTable table, double scale) {
  for (LayerRow& row : table.layers)
    row.parameters = std::max<std::int64_t>(1, std::llround(static_cast<double>(row.parameters) / scale));
  return table;
}

wire::TensorTable tensors_of(const LayerTable& table) {
  wire::TensorTable tensors;
  std::set<std::string> names;
  for (const LayerRow& row : table.layers) {
    const auto index = static_cast<std::int32_t>(tensors.layers.size());
    std::string name = row.name;
    while (!names.insert(name).second) name += fmt::format(" ({})", index + 1);
    tensors.layers.push_back(row.name);
    tensors.tensors.push_back({name, "float32", {row.parameters}, Layer{index}, 0});
  }
  return tensors;
}

Status check_fits(const LayerTable& table, Bytes memory) {
  double parameters = 0;
  for (const LayerRow& row : table.layers) parameters += static_cast<double>(row.parameters);
  const double needed = parameters * kArrays * sizeof(float);
  if (needed <= static_cast<double>(memory.count)) return {};
  return error(ErrorKind::kBadRequest,
               "a worker needs {:.1f} GB for {:.0f} parameters, this machine has {:.1f} GB; divide them with --scale {:.0f}",
               needed * 1e-9, parameters, static_cast<double>(memory.count) * 1e-9,
               std::ceil(needed / static_cast<double>(memory.count)) + 1);
}

}  // namespace paceline::replay

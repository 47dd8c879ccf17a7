#include "replay/table.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/files.h"
#include "base/wrong.h"
#include "report/json_fields.h"
#include "report/json_text.h"

namespace paceline::replay {
namespace {

using report::JsonFields;

constexpr double kLongest = 3600;
constexpr Bytes kLargestTable{std::int64_t{256} << 20};
constexpr int kArrays = 3;  // of floats: parameters, gradients, values on their way

const std::vector<std::string> kTableKeys = {"layers", "model", "source", "parameters", "compute_s"};
const std::vector<std::string> kLayerKeys = {"name", "parameters", "forward_s", "backward_s"};

Result<LayerRow> read_layer(const Json& json, const std::string& place) {
  PACELINE_ASSIGN_OR_RETURN(const auto nameless, JsonFields::of(json, place, kLayerKeys));
  LayerRow row;
  PACELINE_ASSIGN_OR_RETURN(row.name, nameless.text("name"));
  if (row.name.empty()) return wrong("{} is \"\"; it must be a text that is not empty", nameless.where("name"));
  const JsonFields fields = nameless.called(fmt::format("{} '{}'", place, row.name));
  PACELINE_ASSIGN_OR_RETURN(row.parameters, fields.count("parameters"));
  PACELINE_ASSIGN_OR_RETURN(row.forward, fields.number("forward_s", 0, kLongest));
  PACELINE_ASSIGN_OR_RETURN(row.backward, fields.number("backward_s", 0, kLongest));
  return row;
}

}  // namespace

Result<LayerTable> parse_table(const std::string& text, const std::string& source) {
  PACELINE_ASSIGN_OR_RETURN(const Json json, report::parse_json(text, source, report::CaseIndex::kNone));
  PACELINE_ASSIGN_OR_RETURN(const auto fields, JsonFields::of(json, source, kTableKeys));
  PACELINE_ASSIGN_OR_RETURN(const Json* layers, fields.array("layers"));
  if (layers->empty()) return wrong("{} is []; it must be an array of at least one layer", fields.where("layers"));
  LayerTable table;
  for (const Json& layer : *layers) {
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

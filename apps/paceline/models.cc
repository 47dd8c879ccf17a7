// `paceline models [NAME]`: the networks that --model knows, from their descriptions; nothing is instantiated.
#include <algorithm>
#include <cstdio>
#include <memory>

#include <fmt/core.h>

#include "paceline/command.h"
#include "paceline/model_json.h"

namespace paceline::cli {
namespace {

using Row = std::vector<std::string>;

std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t end = digits.size(); end > 3; end -= 3) digits.insert(end - 3, ",");
  return digits;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

std::string shapes_text(const model::LayerDescription& layer) {
  std::string text;
  for (const auto& tensor : layer.tensors) text += (text.empty() ? "" : " + ") + shape_text(tensor.shape);
  return text;
}

// The first `left` columns are words and stand to the left, the others are numbers and stand to the right.
void print_table(const std::vector<Row>& rows, std::size_t left) {
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += i == 0 ? "" : "  ";
      line += i < left ? fmt::format("{:<{}}", row[i], widths[i]) : fmt::format("{:>{}}", row[i], widths[i]);
    }
    fmt::print("{}\n", line);
  }
}

void print_all(const std::vector<model::ModelDescription>& models) {
  std::vector<Row> rows = {{"model", "input", "layers", "parameters", "macs"}};
  for (const auto& model : models) {
    rows.push_back({model.name, shape_text(model.input), std::to_string(model.layers.size()), grouped(model.parameters()),
                    grouped(model.macs())});
  }
  print_table(rows, 2);
}

void print_one(const model::ModelDescription& model) {
  fmt::print("{}: input {}, {} classes\n\n", model.name, shape_text(model.input), grouped(model.classes));
  std::vector<Row> rows = {{"layer", "kind", "shapes", "parameters", "macs"}};
  for (const auto& layer : model.layers) {
    rows.push_back({layer.name, to_string(layer.kind), shapes_text(layer), grouped(layer.parameters), grouped(layer.macs)});
  }
  rows.push_back({"total", fmt::format("{} layers", model.layers.size()), "", grouped(model.parameters()), grouped(model.macs())});
  print_table(rows, 3);
}

struct Options {
  std::string name;
  bool named = false;
  bool json = false;
};

int run(const Options& options) {
  if (options.named) {
    const auto model = model::describe(options.name);
    if (!model.ok()) return report_error(model.status());
    if (options.json) {
      fmt::print("{}\n", to_json(*model).dump());
    } else {
      print_one(*model);
    }
    return kDone;
  }
  std::vector<model::ModelDescription> all;
  for (const std::string& name : model::names()) all.push_back(model::describe(name).value());
  if (options.json) {
    auto json = nlohmann::ordered_json::array();
    for (const auto& model : all) json.push_back(to_json(model));
    fmt::print("{}\n", json.dump());
  } else {
    print_all(all);
  }
  return kDone;
}

}  // namespace

void add_models(CLI::App& app, Chosen& chosen) {
  CLI::App* models = app.add_subcommand("models", "List the networks that can be trained, or the layers of one");
  const auto options = std::make_shared<Options>();
  CLI::Option* name =
      models->add_option("name", options->name, "the network to show, layer by layer in forward order; default: list all");
  models->add_flag(
      "--json", options->json,
      "one JSON document: an array of networks, or one object when NAME is given; macs = multiply-accumulates of one sample's "
      "forward pass; default: text");
  set_examples(*models,
               "  paceline models\n"
               "  paceline models resnet-20 --json");
  models->callback([options, name, &chosen] {
    options->named = name->count() > 0;
    chosen.run = [options] { return run(*options); };
  });
}

}  // namespace paceline::cli

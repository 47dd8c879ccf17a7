#include "paceline/profile/layer_table.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "base/amounts.h"
#include "base/text.h"

namespace paceline::cli {
namespace {

std::string cell(const Spread& spread) {
  return fmt::format("{:>9} {:>22}", in_time(spread.median), fmt::format("{} .. {}", in_time(spread.least), in_time(spread.most)));
}

double transfer_seconds(const LayerSpread& layer, const MeasuredLink& link) {
  return static_cast<double>(layer.size().count) / link.fit.bandwidth.value;
}

}  // namespace

double MeasuredLayers::compute_seconds() const {
  return std::accumulate(layers.begin(), layers.end(), 0.0,
                         [](double sum, const LayerSpread& layer) { return sum + layer.forward.median + layer.backward.median; });
}

std::int64_t MeasuredLayers::parameters() const {
  return std::accumulate(layers.begin(), layers.end(), std::int64_t{0},
                         [](std::int64_t sum, const LayerSpread& layer) { return sum + layer.parameters; });
}

Result<MeasuredLayers> read_layers_measurement(const Json& measurement) {
  MeasuredLayers measured;
  try {
    for (const Json& layer : measurement.at("layers")) {
      measured.layers.push_back({layer.at("name"), layer.at("parameters"),
                                 spread_of(layer.at("forward_s").get<std::vector<double>>()),
                                 spread_of(layer.at("backward_s").get<std::vector<double>>())});
    }
    const auto steps = measurement.at("step_s").get<std::vector<double>>();
    measured.step = spread_of(steps);
    measured.rounds = static_cast<std::int64_t>(steps.size());
    measured.warm_up = measurement.at("warm_up");
  } catch (const Json::exception& problem) {
    return error(ErrorKind::kCorrupt, "the trainer's measurement cannot be read: {}", problem.what());
  }
  return measured;
}

replay::LayerTable replay_table_of(const MeasuredLayers& measured) {
  replay::LayerTable table;
  for (const LayerSpread& layer : measured.layers)
    table.layers.push_back({layer.name, layer.parameters, layer.forward.median, layer.backward.median});
  return table;
}

std::string record_text(const MeasuredLayers& measured) {
  return replay::to_text(replay_table_of(measured), {{"model", measured.model},
                                                     {"source", measured.source},
                                                     {"parameters", measured.parameters()},
                                                     {"compute_s", measured.compute_seconds()}});
}

Json profile_json(const MeasuredLayers& measured, const MeasuredLink& link, std::int64_t nodes) {
  Json layers = Json::array(), transfer = Json::array(), forward = Json::array(), backward = Json::array(), bytes = Json::array();
  Json forward_spread = Json::array(), backward_spread = Json::array();
  for (const LayerSpread& layer : measured.layers) {
    layers.push_back({{"name", layer.name},
                      {"parameters", layer.parameters},
                      {"forward_s", layer.forward.median},
                      {"backward_s", layer.backward.median}});
    transfer.push_back(transfer_seconds(layer, link));
    forward.push_back(layer.forward.median);
    backward.push_back(layer.backward.median);
    bytes.push_back(layer.size().count);
    forward_spread.push_back(to_json(layer.forward));
    backward_spread.push_back(to_json(layer.backward));
  }
  return {{"model", measured.model},
          {"source", measured.source},
          {"mini_batch", measured.mini_batch},
          {"rounds", measured.rounds},
          {"warm_up", measured.warm_up},
          {"parameters", measured.parameters()},
          {"compute_s", measured.compute_seconds()},
          {"step_s", to_json(measured.step)},
          {"nodes", nodes},
          {"bandwidth", link.fit.bandwidth.value},
          {"start_up", link.fit.start_up},
          {"residual", link.fit.residual},
          {"transfer", transfer},
          {"forward", forward},
          {"backward", backward},
          {"bytes", bytes},
          {"layers", layers},
          {"spread", {{"forward", forward_spread}, {"backward", backward_spread}}},
          {"link", to_json(link)}};
}

std::string profile_text(const MeasuredLayers& measured, const MeasuredLink& link) {
  std::size_t width = 5;
  for (const LayerSpread& layer : measured.layers) width = std::max(width, layer.name.size());
  std::string text = fmt::format("{}, mini-batch {}: {} layers, {} parameters ({}); a step {} ({} .. {}), median of {}\n{}\n\n",
                                 measured.model, measured.mini_batch, measured.layers.size(), measured.parameters(),
                                 to_text(Bytes{measured.parameters() * 4}), in_time(measured.step.median),
                                 in_time(measured.step.least), in_time(measured.step.most), measured.rounds, link_text(link));
  text += fmt::format("{:<{}} {:>12} {:>10} {:>32} {:>32} {:>10}\n", "layer", width, "parameters", "bytes",
                      "forward (least .. most)", "backward (least .. most)", "transfer");
  for (const LayerSpread& layer : measured.layers) {
    text += fmt::format("{:<{}} {:>12} {:>10} {} {} {:>10}\n", layer.name, width, layer.parameters, to_text(layer.size()),
                        cell(layer.forward), cell(layer.backward), in_time(transfer_seconds(layer, link)));
  }
  return text;
}

}  // namespace paceline::cli

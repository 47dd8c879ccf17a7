#include "planner/questions/measurements.h"

#include <algorithm>
#include <cmath>

#include <fmt/ranges.h>

#include "base/wrong.h"
#include "report/json_fields.h"

namespace paceline::planner {
namespace {

using report::JsonFields;

const std::vector<std::string> kStepKeys = {
    "model",      "mini_batch", "step_s", "rest_s",       "tensors_peak_bytes", "process_peak_bytes", "process_before_bytes",
    "whole_gain", "layers",     "rounds", "chosen_step_s"};

Result<std::int64_t> count_or_nothing(const JsonFields& fields, const char* key) {
  if (!fields.has(key)) return std::int64_t{0};
  return fields.count(key);
}

Result<MeasuredAlgorithm> read_algorithm(const Json& json, const std::string& where) {
  PACELINE_ASSIGN_OR_RETURN(const auto fields,
                            JsonFields::of(json, where, {"algorithm", "forward_s", "backward_s", "workspace_bytes"}));
  MeasuredAlgorithm measured;
  PACELINE_ASSIGN_OR_RETURN(const std::string name, fields.text("algorithm"));
  const auto algorithm = model::parse_algorithm(name);
  if (!algorithm.ok()) return wrong("{}: key 'algorithm': {}", where, algorithm.status().message());
  measured.algorithm = *algorithm;
  PACELINE_ASSIGN_OR_RETURN(measured.forward_s, fields.number("forward_s", 0));
  PACELINE_ASSIGN_OR_RETURN(measured.backward_s, fields.number("backward_s", 0));
  PACELINE_ASSIGN_OR_RETURN(measured.workspace_bytes, fields.count("workspace_bytes"));
  return measured;
}

Result<MeasuredLayer> read_layer(const Json& json, const std::string& where) {
  PACELINE_ASSIGN_OR_RETURN(const auto fields, JsonFields::of(json, where, {"name", "algorithms"}));
  MeasuredLayer layer;
  PACELINE_ASSIGN_OR_RETURN(layer.name, fields.text("name"));
  const std::string place = fmt::format("{} '{}'", where, layer.name);
  PACELINE_ASSIGN_OR_RETURN(const Json* algorithms, fields.called(place).array("algorithms"));
  if (algorithms->empty()) return wrong("{}: key 'algorithms' is empty; give at least one", place);
  for (std::size_t i = 0; i < algorithms->size(); ++i) {
    PACELINE_ASSIGN_OR_RETURN(MeasuredAlgorithm measured,
                              read_algorithm((*algorithms)[i], fmt::format("{}, algorithm {}", place, i)));
    layer.algorithms.push_back(measured);
  }
  return layer;
}

// The layers are exactly the model's convolutions; the order does not matter.
Status check_layers(const MeasuredStep& step, const std::string& where) {
  const auto description = model::describe(step.model);
  if (!description.ok()) return wrong("{}: key 'model': {}", where, description.status().message());
  for (const MeasuredLayer& layer : step.layers) {
    for (const MeasuredAlgorithm& measured : layer.algorithms) {
      if (const Status status = check_convolutions({{layer.name, measured.algorithm}}, *description); !status.ok())
        return wrong("{}: {}", where, status.message());
    }
  }
  for (const auto& layer : description->layers) {
    if (!layer.convolution) continue;
    const auto times =
        std::count_if(step.layers.begin(), step.layers.end(), [&](const auto& measured) { return measured.name == layer.name; });
    if (times != 1) return wrong("{} has the convolution '{}' {} times, not once", where, layer.name, times);
  }
  return {};
}

Result<MeasuredOverhead> read_overhead(const Json& json, const std::string& where) {
  PACELINE_ASSIGN_OR_RETURN(const auto fields, JsonFields::of(json, where,
                                                              {"model", "dataset", "mini_batch", "overhead",
                                                               "overhead_without_pipelining", "prefetch", "loader_threads"}));
  MeasuredOverhead measured;
  PACELINE_ASSIGN_OR_RETURN(measured.model, fields.text("model"));
  PACELINE_ASSIGN_OR_RETURN(measured.dataset, fields.text("dataset"));
  PACELINE_ASSIGN_OR_RETURN(measured.mini_batch, fields.count("mini_batch", 1));
  PACELINE_ASSIGN_OR_RETURN(measured.overhead, fields.number("overhead", 0));
  PACELINE_ASSIGN_OR_RETURN(measured.overhead_without_pipelining, fields.number("overhead_without_pipelining", 0));
  for (const auto& [key, value] :
       {std::pair{"prefetch", &measured.prefetch}, std::pair{"loader_threads", &measured.loader_threads}}) {
    PACELINE_ASSIGN_OR_RETURN(const std::int64_t found, count_or_nothing(fields, key));
    if (found > 64) return wrong("{}: key '{}' is {}; legal: 0 to 64", where, key, found);
    *value = static_cast<std::int32_t>(found);
  }
  return measured;
}

}  // namespace

void Measurements::put(MeasuredStep step) {
  std::erase_if(steps, [&](const MeasuredStep& old) { return old.model == step.model && old.mini_batch == step.mini_batch; });
  steps.push_back(std::move(step));
}

void Measurements::put(MeasuredOverhead overhead) {
  std::erase_if(overheads, [&](const MeasuredOverhead& old) {
    return old.model == overhead.model && old.dataset == overhead.dataset && old.mini_batch == overhead.mini_batch;
  });
  overheads.push_back(std::move(overhead));
}

const MeasuredOverhead* Measurements::overhead_of(const std::string& model, const std::string& dataset,
                                                  std::int64_t mini_batch) const {
  const MeasuredOverhead* nearest = nullptr;
  for (const MeasuredOverhead& measured : overheads) {
    if (measured.model != model || (!dataset.empty() && measured.dataset != dataset)) continue;
    const auto distance = [mini_batch](const MeasuredOverhead& one) { return std::abs(one.mini_batch - mini_batch); };
    if (nearest == nullptr || distance(measured) < distance(*nearest)) nearest = &measured;
  }
  return nearest;
}

Json to_json(const MeasuredStep& step) {
  Json layers = Json::array();
  for (const MeasuredLayer& layer : step.layers) {
    Json algorithms = Json::array();
    for (const MeasuredAlgorithm& measured : layer.algorithms) {
      algorithms.push_back({{"algorithm", to_string(measured.algorithm)},
                            {"forward_s", measured.forward_s},
                            {"backward_s", measured.backward_s},
                            {"workspace_bytes", measured.workspace_bytes}});
    }
    layers.push_back({{"name", layer.name}, {"algorithms", algorithms}});
  }
  return {{"model", step.model},
          {"mini_batch", step.mini_batch},
          {"step_s", step.step_s},
          {"rest_s", step.rest_s},
          {"tensors_peak_bytes", step.tensors_peak_bytes},
          {"process_peak_bytes", step.process_peak_bytes},
          {"process_before_bytes", step.process_before_bytes},
          {"whole_gain", step.whole_gain},
          {"layers", layers}};
}

Json to_json(const Measurements& measurements, const Json& fingerprint) {
  Json json = {{"fingerprint", fingerprint}, {"measurements", Json::array()}, {"steps", Json::array()}};
  for (const MeasuredStep& step : measurements.steps) json["measurements"].push_back(to_json(step));
  for (const MeasuredOverhead& overhead : measurements.overheads) {
    json["steps"].push_back({{"model", overhead.model},
                             {"dataset", overhead.dataset},
                             {"mini_batch", overhead.mini_batch},
                             {"overhead", overhead.overhead},
                             {"overhead_without_pipelining", overhead.overhead_without_pipelining},
                             {"prefetch", overhead.prefetch},
                             {"loader_threads", overhead.loader_threads}});
  }
  return json;
}

Result<MeasuredStep> read_step(const Json& json, const std::string& where) {
  PACELINE_ASSIGN_OR_RETURN(const auto fields, JsonFields::of(json, where, kStepKeys));
  MeasuredStep step;
  PACELINE_ASSIGN_OR_RETURN(step.model, fields.text("model"));
  PACELINE_ASSIGN_OR_RETURN(step.mini_batch, fields.count("mini_batch", 1));
  PACELINE_ASSIGN_OR_RETURN(step.step_s, fields.number("step_s", 0));
  PACELINE_ASSIGN_OR_RETURN(step.rest_s, fields.number("rest_s", 0));
  PACELINE_ASSIGN_OR_RETURN(step.tensors_peak_bytes, count_or_nothing(fields, "tensors_peak_bytes"));
  PACELINE_ASSIGN_OR_RETURN(step.process_peak_bytes, count_or_nothing(fields, "process_peak_bytes"));
  PACELINE_ASSIGN_OR_RETURN(step.process_before_bytes, count_or_nothing(fields, "process_before_bytes"));
  if (fields.has("whole_gain")) {
    PACELINE_ASSIGN_OR_RETURN(step.whole_gain, fields.number("whole_gain", 0));
  }
  PACELINE_ASSIGN_OR_RETURN(const Json* layers, fields.array("layers"));
  for (std::size_t i = 0; i < layers->size(); ++i) {
    PACELINE_ASSIGN_OR_RETURN(MeasuredLayer layer, read_layer((*layers)[i], fmt::format("{}: layer {}", where, i + 1)));
    step.layers.push_back(std::move(layer));
  }
  PACELINE_RETURN_IF_ERROR(check_layers(step, where));
  return step;
}

Result<double> read_gain(const Json& json, const std::string& where) {
  PACELINE_ASSIGN_OR_RETURN(const auto fields, JsonFields::of(json, where, kStepKeys));
  PACELINE_ASSIGN_OR_RETURN(const double by_default, fields.number("step_s", 0));
  PACELINE_ASSIGN_OR_RETURN(const double chosen, fields.number("chosen_step_s", 0));
  if (chosen == 0) return wrong("{}: key 'chosen_step_s' is 0; a step takes time", where);
  return by_default / chosen;
}

Result<Measurements> read_measurements(const Json& json, const std::string& source) {
  PACELINE_ASSIGN_OR_RETURN(const auto fields, JsonFields::of(json, source, {"fingerprint", "measurements", "steps"}));
  Measurements measurements;
  PACELINE_ASSIGN_OR_RETURN(const Json* steps, fields.array("measurements"));
  for (std::size_t i = 0; i < steps->size(); ++i) {
    PACELINE_ASSIGN_OR_RETURN(MeasuredStep step, read_step((*steps)[i], fmt::format("{}: measurements[{}]", source, i)));
    measurements.put(std::move(step));
  }
  if (!fields.has("steps")) return measurements;
  PACELINE_ASSIGN_OR_RETURN(const Json* overheads, fields.array("steps"));
  for (std::size_t i = 0; i < overheads->size(); ++i) {
    PACELINE_ASSIGN_OR_RETURN(MeasuredOverhead overhead, read_overhead((*overheads)[i], fmt::format("{}: steps[{}]", source, i)));
    measurements.put(std::move(overhead));
  }
  return measurements;
}

}  // namespace paceline::planner

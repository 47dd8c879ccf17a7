#include "profile_mode.h"

#include <iostream>

#include "trainer/layer_profile.h"
#include "trainer/step_profile.h"

namespace paceline::trainer {
namespace {

using report::Json;

Json to_json(const StepProfileOptions& options, const StepProfile& profile) {
  Json layers = Json::array();
  for (const LayerMeasurement& layer : profile.layers) {
    Json algorithms = Json::array();
    for (const AlgorithmMeasurement& measured : layer.algorithms) {
      algorithms.push_back({{"algorithm", to_string(measured.algorithm)},
                            {"forward_s", measured.forward_seconds},
                            {"backward_s", measured.backward_seconds},
                            {"workspace_bytes", measured.workspace.count}});
    }
    layers.push_back({{"name", layer.name}, {"algorithms", algorithms}});
  }
  Json json = {{"model", options.model},
               {"mini_batch", options.mini_batch},
               {"rounds", options.rounds},
               {"step_s", profile.seconds},
               {"rest_s", profile.rest_seconds},
               {"tensors_peak_bytes", profile.tensors_peak.count},
               {"process_peak_bytes", profile.process_peak.count},
               {"process_before_bytes", profile.process_before.count},
               {"layers", layers}};
  if (!options.choice.empty()) json["chosen_step_s"] = profile.chosen_seconds;
  return json;
}

void tell_progress(std::int64_t done, std::int64_t total) { std::cout << Json{{"progress", {done, total}}}.dump() << std::endl; }

void tell(const Json& measurement) { std::cout << Json{{"measurement", measurement}}.dump() << std::endl; }

Status profile_layers_as_asked(const Json& request) {
  LayerProfileOptions options;
  options.model = request.at("model");
  options.mini_batch = request.at("mini_batch");
  options.rounds = request.at("rounds");
  options.warm_up = request.at("warm_up");
  options.limit = request.at("limit");
  PACELINE_ASSIGN_OR_RETURN(const LayerProfile profile, profile_layers(options, tell_progress));
  Json layers = Json::array();
  for (const LayerProfile::Layer& layer : profile.layers) {
    layers.push_back(
        {{"name", layer.name}, {"parameters", layer.parameters}, {"forward_s", layer.forward}, {"backward_s", layer.backward}});
  }
  tell({{"layers", layers}, {"step_s", profile.steps}, {"warm_up", profile.warm_up}});
  return {};
}

}  // namespace

Status run_profile_mode(const Json& request) {
  if (request.contains("warm_up")) return profile_layers_as_asked(request);
  StepProfileOptions options;
  options.model = request.at("model");
  options.mini_batch = request.at("mini_batch");
  options.rounds = request.at("rounds");
  options.memory = Bytes{request.value("memory", std::int64_t{0})};
  PACELINE_ASSIGN_OR_RETURN(options.choice, model::parse_convolutions(request.value("convolutions", std::string())));
  PACELINE_ASSIGN_OR_RETURN(const StepProfile profile, profile_step(options, tell_progress));
  tell(to_json(options, profile));
  return {};
}

}  // namespace paceline::trainer

#include "profile_mode.h"

#include <iostream>

#include "trainer/step_profile.h"

namespace paceline::trainer {
namespace {

using runtime::Json;

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

}  // namespace

Status run_profile_mode(const Json& request) {
  StepProfileOptions options;
  options.model = request.at("model");
  options.mini_batch = request.at("mini_batch");
  options.rounds = request.at("rounds");
  options.memory = Bytes{request.value("memory", std::int64_t{0})};
  PACELINE_ASSIGN_OR_RETURN(options.choice, model::parse_convolutions(request.value("convolutions", std::string())));
  const auto on_step = [](std::int64_t done, std::int64_t total) {
    std::cout << Json{{"progress", {done, total}}}.dump() << std::endl;
  };
  PACELINE_ASSIGN_OR_RETURN(const StepProfile profile, profile_step(options, on_step));
  std::cout << Json{{"measurement", to_json(options, profile)}}.dump() << std::endl;
  return {};
}

}  // namespace paceline::trainer

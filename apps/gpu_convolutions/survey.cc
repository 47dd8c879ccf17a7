#include "gpu_convolutions/survey.h"

#include <fmt/ranges.h>

#include "base/amounts.h"

namespace paceline::gpu_convolutions {
namespace {

Json json_of(const planner::CudnnCandidate& candidate) {
  Json passes = Json::object();
  for (const planner::CudnnPassChoice& pass : candidate.passes) {
    passes[to_string(pass.pass)] = {
        {"algorithm", to_string(pass.algorithm)}, {"time_s", pass.seconds}, {"workspace_bytes", pass.workspace_bytes}};
  }
  return {{"algorithm", candidate.family},
          {"time_s", candidate.seconds},
          {"workspace_bytes", candidate.workspace_bytes},
          {"difference", candidate.difference},
          {"passes", passes}};
}

Json json_of(const planner::CudnnLayerCandidates& layer) {
  Json algorithms = Json::array(), left_out = Json::array();
  for (const planner::CudnnCandidate& candidate : layer.candidates) algorithms.push_back(json_of(candidate));
  for (const auto& one : layer.left_out) left_out.push_back({{"algorithm", one.family}, {"reason", one.reason}});
  return {{"name", layer.name}, {"algorithms", algorithms}, {"left_out", left_out}};
}

std::string line_of(std::size_t index, const planner::CudnnCandidate& candidate) {
  std::vector<std::string> passes;
  for (const planner::CudnnPassChoice& pass : candidate.passes)
    passes.push_back(fmt::format("{} {} {}", to_string(pass.pass), to_string(pass.algorithm), in_time(pass.seconds)));
  return fmt::format("    {} {:<24}{:>12}{:>12}  differs by {:.1e}  ({})\n", index, candidate.family, in_time(candidate.seconds),
                     in_bytes(static_cast<double>(candidate.workspace_bytes)), candidate.difference, fmt::join(passes, ", "));
}

}  // namespace

Result<std::vector<SurveyedMiniBatch>> survey(const Work& work, const MeasureLayer& measure,
                                              const std::function<void(std::int64_t)>& on_done) {
  std::vector<SurveyedMiniBatch> surveyed;
  std::int64_t done = 0;
  for (const MiniBatch& mini_batch : work.mini_batches) {
    surveyed.push_back({.mini_batch = mini_batch});
    for (std::size_t i = 0; i < work.convolutions.size(); ++i) {
      const model::LayerDescription& layer = work.convolutions[i];
      PACELINE_ASSIGN_OR_RETURN(const planner::MeasuredCudnnLayer measured,
                                measure(layer, planner::passes_of_convolution(i), mini_batch.size));
      auto made = planner::candidates_of(measured);
      if (made.candidates.empty()) {
        return error(ErrorKind::kIo, "layer '{}' with mini-batch {}: none of cuDNN's algorithms computes it; {}: {}", layer.name,
                     mini_batch.size, made.left_out.front().family, made.left_out.front().reason);
      }
      surveyed.back().layers.push_back(std::move(made));
      on_done(++done);
    }
  }
  return surveyed;
}

Json case_of(const Survey& survey) {
  PACELINE_CHECK(survey.samples, "a case without samples");
  Json candidates = Json::array();
  for (const SurveyedMiniBatch& one : survey.mini_batches) {
    PACELINE_CHECK(one.mini_batch.bound, "a case without bounds");
    Json layers = Json::array();
    for (const auto& costs : planner::costs_of(one.layers)) {
      Json layer = Json::array();
      for (const planner::AlgorithmCost& cost : costs)
        layer.push_back({{"time", cost.time}, {"memory", static_cast<std::int64_t>(cost.memory)}});
      layers.push_back(std::move(layer));
    }
    candidates.push_back({{"mini_batch", one.mini_batch.size}, {"bound", one.mini_batch.bound->count}, {"layers", layers}});
  }
  return {{"samples", *survey.samples}, {"candidates", candidates}};
}

Json to_json(const Survey& survey) {
  Json mini_batches = Json::array();
  for (const SurveyedMiniBatch& one : survey.mini_batches) {
    Json json = {{"mini_batch", one.mini_batch.size}};
    if (one.mini_batch.bound) json["bound_bytes"] = one.mini_batch.bound->count;
    json["layers"] = Json::array();
    for (const planner::CudnnLayerCandidates& layer : one.layers) json["layers"].push_back(json_of(layer));
    mini_batches.push_back(std::move(json));
  }
  const planner::CudnnFingerprint& fingerprint = survey.fingerprint;
  Json json = {
      {"model", survey.model},
      {"fingerprint", {{"gpu", fingerprint.gpu}, {"cudnn", fingerprint.cudnn}, {"cuda_runtime", fingerprint.cuda_runtime}}},
      {"rounds", survey.rounds},
      {"mini_batches", mini_batches}};
  if (survey.samples) json["case"] = case_of(survey);
  return json;
}

std::string to_text(const Survey& survey) {
  std::string text;
  for (const SurveyedMiniBatch& one : survey.mini_batches) {
    text += fmt::format("{}, mini-batch {}, on {}, cuDNN {}, CUDA {}: forward + backward\n", survey.model, one.mini_batch.size,
                        survey.fingerprint.gpu, survey.fingerprint.cudnn, survey.fingerprint.cuda_runtime);
    for (const planner::CudnnLayerCandidates& layer : one.layers) {
      text += fmt::format("  {}\n", layer.name);
      for (std::size_t i = 0; i < layer.candidates.size(); ++i) text += line_of(i, layer.candidates[i]);
      for (const auto& left_out : layer.left_out) text += fmt::format("    - {:<24}{}\n", left_out.family, left_out.reason);
    }
  }
  return text;
}

}  // namespace paceline::gpu_convolutions

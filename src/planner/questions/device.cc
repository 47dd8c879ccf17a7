// `paceline plan memory | algorithms | mini-batch | fft-ratio`: questions about one device and what fits on it.
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/ranges.h>

#include "base/amounts.h"
#include "base/wrong.h"
#include "planner/questions/layer_reader.h"
#include "planner/questions/question.h"
#include "planner/sizing/algorithm_choice.h"
#include "planner/sizing/memory.h"
#include "planner/sizing/mini_batch.h"
#include "report/json_fields.h"

namespace paceline::planner {
namespace {

using report::JsonFields;

constexpr double kAny = -std::numeric_limits<double>::infinity();  // choose_algorithms says which numbers make no sense

// ---- plan memory

Result<model::ModelDescription> described(const Json& input) {
  if (input.contains("model") && input.contains("layers"))
    return wrong("keys 'model' and 'layers' contradict each other; give one of them");
  if (input.contains("layers")) return read_layers(input["layers"]);
  if (!input.contains("model"))
    return wrong_key("model", " is missing; give the name of a model, or its 'layers'").because({"missing", ""});
  auto model = model::describe(input["model"].get<std::string>());
  if (!model.ok()) return wrong_key("model", ": {}", model.status().message());
  return model;
}

Result<Json> answer_memory(const Json& input, const Json& /*choices*/) {
  PACELINE_RETURN_IF_ERROR(require_positive(input, {"mini_batch"}));
  PACELINE_ASSIGN_OR_RETURN(const model::ModelDescription model, described(input));
  const std::vector<std::string> keys = {"feature_maps_bits", "convolution_bits", "classifier_bits", "bound_bits", "bound", "fits"};
  if (const std::string reason = no_formula_reason(model); !reason.empty()) return infeasible(keys, reason);
  auto need = memory_need(model, input["mini_batch"], {input["memory"].get<std::int64_t>()});
  if (!need.ok()) return wrong_key("mini_batch", ": {}", need.status().message());
  const bool fits = need->bound_bits >= 0;
  Json answer = {{"feasible", true},
                 {"feature_maps_bits", need->feature_maps_bits},
                 {"convolution_bits", need->convolution_bits},
                 {"classifier_bits", need->classifier_bits},
                 {"bound_bits", need->bound_bits},
                 {"bound", need->bound_bits},  // the name that it had
                 {"fits", fits}};
  if (!fits)
    answer["reason"] = fmt::format("with mini-batch {} it needs {} more than there are", input["mini_batch"].get<std::int64_t>(),
                                   in_bytes(-static_cast<double>(need->bound_bits) / 8));
  return answer;
}

Question memory_question() {
  return {.name = "memory",
          .purpose =
              "What a training step of a convolutional network needs by formula (Eq 1-5), in bits, and what is left of the device",
          .keys = {{"model", KeyType::kText, "a network that 'paceline models' lists", false},
                   {"layers", KeyType::kJson, "in place of model: the \"layers\" that 'paceline models NAME --json' prints", false},
                   {"mini_batch", KeyType::kCount, "samples in an iteration, 1 or more"},
                   {"memory", KeyType::kBytes, "of the device", true, Beside::kNothing, kBareFrom}},
          .choices = {},
          .answer = answer_memory};
}

// ---- plan algorithms, plan mini-batch

Result<std::vector<std::vector<AlgorithmCost>>> costs_of(const Json& layers, const std::string& where) {
  if (!layers.is_array()) return wrong("{} is {} (a {}); it must be an array of layers", where, brief(layers), layers.type_name());
  std::vector<std::vector<AlgorithmCost>> costs;
  for (std::size_t k = 0; k < layers.size(); ++k) {
    const std::string layer = fmt::format("{}: layer {}", where, k + 1);
    if (!layers[k].is_array())
      return wrong("{} is {} (a {}); it must be an array of algorithms", layer, brief(layers[k]), layers[k].type_name());
    if (layers[k].empty()) return wrong("{} has no algorithms; give at least one", layer);
    costs.emplace_back();
    for (std::size_t l = 0; l < layers[k].size(); ++l) {
      const std::string algorithm = fmt::format("{}, algorithm {}", layer, l);
      PACELINE_ASSIGN_OR_RETURN(const auto fields, JsonFields::of(layers[k][l], algorithm, {"time", "memory"}));
      AlgorithmCost cost;
      PACELINE_ASSIGN_OR_RETURN(cost.time, fields.number("time", kAny));
      PACELINE_ASSIGN_OR_RETURN(cost.memory, fields.number("memory", kAny));
      costs.back().push_back(cost);
    }
  }
  return costs;
}

// Whole numbers without a decimal point, as they came.
Json number(double value) {
  const bool whole = value == std::floor(value) && std::abs(value) <= 9007199254740992.0;
  return whole ? Json(static_cast<std::int64_t>(value)) : Json(value);
}

Result<Json> answer_algorithms(const Json& input, const Json& /*choices*/) {
  PACELINE_ASSIGN_OR_RETURN(const auto layers, costs_of(input["layers"], "key 'layers'"));
  const auto choice = choose_algorithms(layers, input["bound"]);
  if (!choice.ok()) return choice.status();
  if (!choice->feasible) return infeasible({"choice", "time", "memory"}, choice->reason);
  Json answer = {{"feasible", true}, {"choice", choice->choice}, {"time", choice->time}, {"memory", number(choice->memory)}};
  if (choice->gap > 0) answer["gap"] = choice->gap;
  return answer;
}

Question algorithms_question() {
  return {.name = "algorithms",
          .purpose = "Which algorithm each layer should run so that the time is least and the memory within the bound (Eq 6)",
          .keys = {{"bound", KeyType::kNumber, "memory that all layers' algorithms share, in any unit"},
                   {"layers", KeyType::kJson, "for each layer what each algorithm costs: [[{\"time\", \"memory\"}, ...], ...]"}},
          .choices = {},
          .answer = answer_algorithms};
}

Result<std::vector<MiniBatchCandidate>> candidates_of(const Json& json) {
  if (!json.is_array()) return wrong_key("candidates", " is {} (a {}); it must be an array", brief(json), json.type_name());
  if (json.empty()) return wrong_key("candidates", " is empty; give at least one");
  std::vector<MiniBatchCandidate> candidates;
  for (std::size_t c = 0; c < json.size(); ++c) {
    const std::string where = fmt::format("key 'candidates[{}]'", c);
    PACELINE_ASSIGN_OR_RETURN(const auto fields, JsonFields::of(json[c], where, {"mini_batch", "bound", "layers"}));
    MiniBatchCandidate candidate;
    PACELINE_ASSIGN_OR_RETURN(candidate.mini_batch, fields.count("mini_batch", 1));
    PACELINE_ASSIGN_OR_RETURN(candidate.bound, fields.number("bound", kAny));
    PACELINE_ASSIGN_OR_RETURN(const Json* layers, fields.value("layers"));
    PACELINE_ASSIGN_OR_RETURN(candidate.layers, costs_of(*layers, fields.where("layers")));
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

Json plan_json(const MiniBatchCandidate& candidate, const MiniBatchPlan& plan) {
  Json json = {{"feasible", plan.algorithms.feasible}, {"mini_batch", candidate.mini_batch}, {"iterations", plan.iterations}};
  if (plan.algorithms.feasible) {
    json["time"] = plan.time;
    json["choice"] = plan.algorithms.choice;
    if (plan.algorithms.gap > 0) json["gap"] = plan.algorithms.gap;
  } else {
    json["time"] = nullptr;
    json["choice"] = nullptr;
    json["reason"] = plan.algorithms.reason;
  }
  return json;
}

Result<Json> answer_mini_batch(const Json& input, const Json& /*choices*/) {
  PACELINE_RETURN_IF_ERROR(require_positive(input, {"samples"}));
  PACELINE_ASSIGN_OR_RETURN(const auto candidates, candidates_of(input["candidates"]));
  PACELINE_ASSIGN_OR_RETURN(const MiniBatchChoice choice, choose_mini_batch(input["samples"], candidates));
  if (!choice.best) {
    const auto& last = choice.candidates.back().algorithms;
    return infeasible({"mini_batch", "iterations", "time", "choice", "candidates"},
                      fmt::format("none of the {} candidates fits; with mini-batch {}: {}", candidates.size(),
                                  candidates.back().mini_batch, last.reason));
  }
  Json answer = plan_json(candidates[*choice.best], choice.candidates[*choice.best]);
  answer["candidates"] = Json::array();
  for (std::size_t c = 0; c < candidates.size(); ++c)
    answer["candidates"].push_back(plan_json(candidates[c], choice.candidates[c]));
  return answer;
}

Question mini_batch_question() {
  return {.name = "mini-batch",
          .purpose = "The mini-batch whose data epoch is shortest, each layer running the fastest algorithm that fits beside it",
          .keys = {{"samples", KeyType::kCount, "of the data set, 1 or more"},
                   {"candidates", KeyType::kJson,
                    "mini-batches with what was measured: [{\"mini_batch\", \"bound\", \"layers\" as in plan algorithms}, ...]"}},
          .choices = {},
          .answer = answer_mini_batch};
}

// ---- plan fft-ratio

Result<Json> answer_fft_ratio(const Json& input, const Json& /*choices*/) {
  PACELINE_RETURN_IF_ERROR(require_positive(input, {"mini_batch", "depth", "filters"}));
  for (const char* key : {"input", "output"}) {
    const auto sides = input[key].get<std::vector<std::int64_t>>();
    if (sides.size() != 2) return wrong_key(key, " has {} numbers; it must have two, the width and the height", sides.size());
    if (sides[0] < 1 || sides[1] < 1) return wrong_key(key, " is [{}, {}]; both sides must be 1 or more", sides[0], sides[1]);
  }
  ConvolutionSize size;
  size.mini_batch = input["mini_batch"];
  size.input_width = input["input"][0];
  size.input_height = input["input"][1];
  size.output_width = input["output"][0];
  size.output_height = input["output"][1];
  size.depth = input["depth"];
  size.filters = input["filters"];
  return Json{{"ratio", fft_memory_ratio(size)}};
}

Question fft_ratio_question() {
  return {.name = "fft-ratio",
          .purpose = "Memory of a convolution by Fourier transform, relative to one by matrix multiplication (Table 2)",
          .keys = {{"mini_batch", KeyType::kCount, "samples, 1 or more"},
                   {"input", KeyType::kCounts, "width and height of the input"},
                   {"output", KeyType::kCounts, "width and height of the output"},
                   {"depth", KeyType::kCount, "channels of the input, 1 or more"},
                   {"filters", KeyType::kCount, "channels of the output, 1 or more"}},
          .choices = {},
          .answer = answer_fft_ratio};
}

}  // namespace

std::vector<Question> device_questions() {
  return {memory_question(), algorithms_question(), mini_batch_question(), fft_ratio_question()};
}

}  // namespace paceline::planner

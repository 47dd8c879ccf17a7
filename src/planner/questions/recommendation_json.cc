#include "planner/questions/recommendation.h"

namespace paceline::planner {
namespace {

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json count_or_null(std::int64_t count) { return count > 0 ? Json(count) : Json(nullptr); }

Json json_of(const model::ConvolutionChoice& choice) {
  Json json = Json::object();
  for (const auto& [layer, algorithm] : choice) json[layer] = to_string(algorithm);
  return json;
}

Json json_of(const Recommendation::Candidate& candidate) {
  const auto rate = [&candidate](double seconds) {
    return seconds > 0 ? Json(static_cast<double>(candidate.mini_batch) / seconds) : Json(nullptr);
  };
  const auto of_run = [&candidate](const auto& value) { return candidate.run ? Json(value(*candidate.run)) : Json(nullptr); };
  using Run = Recommendation::Run;
  return {{"mini_batch", candidate.mini_batch},
          {"feasible", candidate.run.has_value()},
          {"bound_bytes", candidate.bound_bytes},
          {"iteration_seconds", of_run([](const Run& run) { return run.iteration_seconds; })},
          {"iteration_by", of_run([](const Run& run) { return to_string(run.by); })},
          {"samples_per_second", candidate.run ? rate(candidate.run->iteration_seconds) : Json(nullptr)},
          {"default_samples_per_second", rate(candidate.default_step_seconds)},
          {"epoch_seconds", of_run([](const Run& run) { return run.epoch_seconds; })},
          {"workspace_bytes", of_run([](const Run& run) { return run.workspace_bytes; })},
          {"convolutions", of_run([](const Run& run) { return json_of(run.convolutions); })},
          {"reason", candidate.run ? Json(nullptr) : Json(candidate.reason)}};
}

Json memory_json(const Recommendation& r) {
  const auto& [formula, measured] = std::tie(r.chosen->formula_bytes, r.chosen->measured_bytes);
  return {{"by", measured ? "measured" : "formula"},
          {"bytes", measured ? *measured : *formula},
          {"formula_bytes", or_null(formula)},
          {"measured_bytes", or_null(measured)},
          {"ratio", formula && measured ? Json(*measured / *formula) : Json(nullptr)},
          {"workspace_bytes", r.run().workspace_bytes},
          {"bound_bytes", r.best().bound_bytes}};
}

void put_chosen(Json& json, const Recommendation& r) {
  json["mini_batch"] = r.best().mini_batch;
  json["iterations"] = r.chosen->iterations;
  json["iteration_seconds"] = r.run().iteration_seconds;
  json["iteration_by"] = to_string(r.run().by);
  json["default_iteration_seconds"] = r.best().default_step_seconds;
  json["epoch_seconds"] = r.run().epoch_seconds;
  json["convolutions"] = json_of(r.run().convolutions);
  json["memory_need"] = memory_json(r);
  json["prefetch"] = count_or_null(r.chosen->prefetch);
  json["loader_threads"] = count_or_null(r.chosen->loader_threads);
}

void put_scaling(Json& json, const Recommendation::Scaling& scaling) {
  json["overhead"] = scaling.overhead;
  json["efficiency"] = scaling.efficiency;
  json["speedup"] = scaling.speedup;
  json["speedups"] = Json::array();
  for (const Recommendation::Speedup& point : scaling.curve)
    json["speedups"].push_back({{"workers", point.workers}, {"speedup", point.speedup}});
  json["epoch_seconds_with_workers"] = scaling.epoch_seconds;
}

// What `train --plan` takes.
Json train_json(const Recommendation& r) {
  if (!r.no_answer.empty() || !r.chosen) return nullptr;
  Json train{{"model", r.model}, {"mini-batch", r.best().mini_batch}, {"convolutions", json_of(r.run().convolutions)}};
  if (!r.dataset.empty()) train["dataset"] = r.dataset;
  if (r.chosen->prefetch > 0) {
    train["prefetch"] = r.chosen->prefetch;
    train["loader-threads"] = r.chosen->loader_threads;
  }
  if (r.workers) train["workers"] = *r.workers;
  if (r.servers) train["servers"] = r.servers->servers;
  return train;
}

}  // namespace

Json to_json(const Recommendation& r) {
  Json json{{"feasible", r.no_answer.empty()},
            {"reason", text_or_null(r.no_answer)},
            {"model", r.model},
            {"dataset_size", r.samples},
            {"memory", r.memory.count}};
  for (const char* key : {"mini_batch",
                          "iterations",
                          "iteration_seconds",
                          "iteration_by",
                          "default_iteration_seconds",
                          "epoch_seconds",
                          "convolutions",
                          "memory_need",
                          "workers",
                          "prefetch",
                          "loader_threads",
                          "overhead",
                          "efficiency",
                          "speedup",
                          "limit",
                          "speedups",
                          "epoch_seconds_with_workers",
                          "servers",
                          "worker_link_ok",
                          "worker_link_shortfall",
                          "missing_bytes",
                          "layer_to_shrink"})
    json[key] = nullptr;
  if (r.chosen) put_chosen(json, r);
  json["workers"] = or_null(r.workers);
  json["limit"] = or_null(r.limit);
  if (r.scaling) put_scaling(json, *r.scaling);
  if (r.servers) {
    json["servers"] = r.servers->servers;
    json["worker_link_ok"] = r.servers->worker_link_shortfall.value == 0;
    json["worker_link_shortfall"] = r.servers->worker_link_shortfall.value;
  }
  if (!r.layer_to_shrink.empty()) {
    json["missing_bytes"] = r.missing_bytes;
    json["layer_to_shrink"] = r.layer_to_shrink;
  }
  json["candidates"] = Json::array();
  for (const Recommendation::Candidate& candidate : r.candidates) json["candidates"].push_back(json_of(candidate));
  json["checks"] = Json::array();
  for (const Recommendation::Check& check : r.checks)
    json["checks"].push_back({{"check", check.check}, {"ok", check.well}, {"text", check.text}});
  json["reasons"] = r.reasons;
  json["train"] = train_json(r);
  return json;
}

}  // namespace paceline::planner

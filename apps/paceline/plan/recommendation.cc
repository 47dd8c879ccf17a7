#include "paceline/plan/recommendation.h"

#include <algorithm>
#include <cmath>

#include <fmt/ranges.h>

#include "base/text.h"
#include "paceline/in_time.h"
#include "paceline/wrong.h"
#include "planner/gpus.h"
#include "planner/memory.h"
#include "planner/mini_batch.h"

namespace paceline::cli {
namespace {

std::string in_bytes(double count) { return to_text(Bytes{static_cast<std::int64_t>(std::ceil(count))}); }
// What a step needs beside the workspaces of its convolutions.
struct Need {
  double formula = -1, measured = -1;  // bytes; -1: nothing is known
  // A measured need counts more than a formula's.
  double bytes() const { return measured >= 0 ? measured : formula; }
};

struct Candidate {
  const MeasuredStep* step = nullptr;
  Need need;
};

class Recommendation {
 public:
  Recommendation(const JobQuestion& question, const Measurements& measurements, model::ModelDescription description)
      : question_(question), measurements_(measurements), model_(std::move(description)) {}

  Result<Json> run() {
    answer_ = {{"feasible", true},
               {"reason", nullptr},
               {"model", model_.name},
               {"dataset_size", question_.samples},
               {"memory", question_.memory.count}};
    for (const char* key : {"mini_batch",
                            "iterations",
                            "iteration_seconds",
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
                            "epoch_seconds_with_workers",
                            "servers",
                            "worker_link_ok",
                            "worker_link_shortfall",
                            "missing_bytes",
                            "layer_to_shrink"})
      answer_[key] = nullptr;
    answer_["candidates"] = Json::array();
    if (const auto missing = missing_at_one(); missing > 0) {
      return nothing_fits(1, missing,
                          fmt::format("{} does not fit: with mini-batch 1 it needs {} more than the {} that there are", model_.name,
                                      in_bytes(missing), to_text(question_.memory)));
    }
    PACELINE_RETURN_IF_ERROR(collect_candidates());
    PACELINE_RETURN_IF_ERROR(choose());
    if (!best_) return none_of_the_candidates();
    tell_mini_batch();
    tell_loading();
    PACELINE_RETURN_IF_ERROR(tell_workers());
    PACELINE_RETURN_IF_ERROR(tell_servers());
    tell_checks();
    answer_["reasons"] = reasons_;
    answer_["train"] = answer_["feasible"] == true ? train_ : Json(nullptr);
    return answer_;
  }

 private:
  // By the formula alone, bytes that a single sample lacks.
  double missing_at_one() const {
    if (!planner::no_formula_reason(model_).empty()) return 0;
    const auto need = planner::memory_need(model_, 1, question_.memory);
    return need.ok() && need->bound_bits < 0 ? -static_cast<double>(need->bound_bits) / 8 : 0;
  }

  std::string how_to_measure() const {
    std::vector<std::int64_t> sizes = question_.mini_batches;
    if (sizes.empty()) sizes = {8, 16, 32, 64};
    return fmt::format("paceline profile --convolutions --model {} --mini-batches {}", model_.name, fmt::join(sizes, ","));
  }

  Status collect_candidates() {
    for (const MeasuredStep& step : measurements_.steps) {
      const auto& wanted = question_.mini_batches;
      if (step.model != model_.name) continue;
      if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), step.mini_batch) == wanted.end()) continue;
      PACELINE_ASSIGN_OR_RETURN(const Need need, need_of(step));
      candidates_.push_back({&step, need});
    }
    std::sort(candidates_.begin(), candidates_.end(),
              [](const Candidate& a, const Candidate& b) { return a.step->mini_batch < b.step->mini_batch; });
    for (const std::int64_t mini_batch : question_.mini_batches) {
      const auto measured = [&](const Candidate& candidate) { return candidate.step->mini_batch == mini_batch; };
      if (std::none_of(candidates_.begin(), candidates_.end(), measured))
        return wrong("mini-batch {} of {} has not been measured on this machine; measure with: {}", mini_batch, model_.name,
                     how_to_measure());
    }
    if (candidates_.empty())
      return wrong("{} has not been measured on this machine; measure with: {}", model_.name, how_to_measure());
    return {};
  }

  Result<Need> need_of(const MeasuredStep& step) const {
    Need need;
    if (planner::no_formula_reason(model_).empty()) {
      PACELINE_ASSIGN_OR_RETURN(const planner::MemoryNeed formula, planner::memory_need(model_, step.mini_batch, Bytes{0}));
      need.formula = -static_cast<double>(formula.bound_bits) / 8;
    }
    if (step.process_peak_bytes > 0) {
      std::int64_t workspace = 0;  // the step was measured with the default's
      for (const MeasuredLayer& layer : step.layers) {
        for (const MeasuredAlgorithm& measured : layer.algorithms) {
          if (measured.algorithm == model::ConvolutionAlgorithm::kDefault)
            workspace = std::max(workspace, measured.workspace_bytes);
        }
      }
      need.measured = static_cast<double>(std::max<std::int64_t>(0, step.process_peak_bytes - workspace));
    }
    if (need.bytes() < 0)
      return wrong("the measurement of {} with mini-batch {} lacks 'process_peak_bytes', and {}; measure with: {}", model_.name,
                   step.mini_batch, planner::no_formula_reason(model_), how_to_measure());
    return need;
  }

  double bound_of(const Candidate& candidate) const { return static_cast<double>(question_.memory.count) - candidate.need.bytes(); }

  // Eq 6 for every candidate. What is no convolution is one more layer, which has no choice.
  Status choose() {
    std::vector<planner::MiniBatchCandidate> questions;
    for (const Candidate& candidate : candidates_) {
      planner::MiniBatchCandidate one{candidate.step->mini_batch, std::max(0.0, bound_of(candidate)), {}};
      for (const MeasuredLayer& layer : candidate.step->layers) {
        auto& costs = one.layers.emplace_back();
        for (const MeasuredAlgorithm& measured : layer.algorithms)
          costs.push_back({measured.seconds(), static_cast<double>(measured.workspace_bytes)});
      }
      one.layers.push_back({{candidate.step->rest_s, 0}});
      questions.push_back(std::move(one));
    }
    PACELINE_ASSIGN_OR_RETURN(plans_, planner::choose_mini_batch(question_.samples, questions));
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      auto& plan = plans_.candidates[i];
      if (bound_of(candidates_[i]) >= 0) continue;
      plan.algorithms.feasible = false;
      plan.algorithms.reason = fmt::format("it needs {} more, without any workspace", in_bytes(-bound_of(candidates_[i])));
    }
    const auto better = [&](std::size_t i) {
      const auto& plan = plans_.candidates[i];
      return plan.algorithms.feasible && (!best_ || plan.time <= plans_.candidates[*best_].time);
    };
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      if (better(i)) best_ = i;
    }
    for (std::size_t i = 0; i < candidates_.size(); ++i) tell_candidate(i);
    return {};
  }

  void tell_candidate(std::size_t i) {
    const planner::MiniBatchPlan& plan = plans_.candidates[i];
    const Candidate& candidate = candidates_[i];
    const auto x = static_cast<double>(candidate.step->mini_batch);
    Json one = {{"mini_batch", candidate.step->mini_batch},
                {"feasible", plan.algorithms.feasible},
                {"bound_bytes", bound_of(candidate)},
                {"iteration_seconds", nullptr},
                {"samples_per_second", nullptr},
                {"default_samples_per_second", candidate.step->step_s > 0 ? Json(x / candidate.step->step_s) : Json(nullptr)},
                {"epoch_seconds", nullptr},
                {"workspace_bytes", nullptr},
                {"convolutions", nullptr},
                {"reason", nullptr}};
    if (plan.algorithms.feasible) {
      one["iteration_seconds"] = plan.algorithms.time;
      if (plan.algorithms.time > 0) one["samples_per_second"] = x / plan.algorithms.time;
      one["epoch_seconds"] = plan.time;
      one["workspace_bytes"] = plan.algorithms.memory;
      one["convolutions"] = choice_json(i);
    } else {
      one["reason"] = plan.algorithms.reason;
    }
    answer_["candidates"].push_back(one);
  }

  const MeasuredAlgorithm& chosen(std::size_t candidate, std::size_t layer) const {
    const auto index = static_cast<std::size_t>(plans_.candidates[candidate].algorithms.choice[layer]);
    return candidates_[candidate].step->layers[layer].algorithms[index];
  }

  Json choice_json(std::size_t candidate) const {
    Json choice = Json::object();
    const auto& layers = candidates_[candidate].step->layers;
    for (std::size_t k = 0; k < layers.size(); ++k) choice[layers[k].name] = to_string(chosen(candidate, k).algorithm);
    return choice;
  }

  void tell_mini_batch() {
    const Candidate& candidate = candidates_[*best_];
    const planner::MiniBatchPlan& plan = plans_.candidates[*best_];
    const MeasuredStep& step = *candidate.step;
    answer_["mini_batch"] = step.mini_batch;
    answer_["iterations"] = plan.iterations;
    answer_["iteration_seconds"] = plan.algorithms.time;
    answer_["epoch_seconds"] = plan.time;
    answer_["convolutions"] = choice_json(*best_);
    answer_["default_iteration_seconds"] = step.step_s;
    answer_["memory_need"] = {{"by", candidate.need.measured >= 0 ? "measured" : "formula"},
                              {"bytes", candidate.need.bytes()},
                              {"formula_bytes", candidate.need.formula >= 0 ? Json(candidate.need.formula) : Json(nullptr)},
                              {"measured_bytes", candidate.need.measured >= 0 ? Json(candidate.need.measured) : Json(nullptr)},
                              {"ratio", candidate.need.formula > 0 && candidate.need.measured >= 0
                                            ? Json(candidate.need.measured / candidate.need.formula)
                                            : Json(nullptr)},
                              {"workspace_bytes", plan.algorithms.memory},
                              {"bound_bytes", bound_of(candidate)}};
    train_ = {{"model", model_.name}, {"mini-batch", step.mini_batch}, {"convolutions", choice_json(*best_)}};
    reasons_.push_back(
        fmt::format("mini-batch {}: a data epoch of {} samples takes {} iterations of {}, {} in all, the least of {} candidates",
                    step.mini_batch, question_.samples, plan.iterations, in_time(plan.algorithms.time), in_time(plan.time),
                    candidates_.size()));
    const double gain = plan.algorithms.time > 0 ? step.step_s / plan.algorithms.time : 1;
    reasons_.push_back(fmt::format("convolutions: LibTorch's choice takes {} an iteration, these {} ({:.2f} times as fast)",
                                   in_time(step.step_s), in_time(plan.algorithms.time), gain));
    reasons_.push_back(fmt::format("memory: a step needs {} ({}), the convolutions' workspaces {} of the {} that are left",
                                   in_bytes(candidate.need.bytes()), candidate.need.measured >= 0 ? "measured" : "by formula",
                                   in_bytes(plan.algorithms.memory), in_bytes(bound_of(candidate))));
    tell_what_memory_prevents();
  }

  // The paper's advice to adjust the model: where a faster algorithm did not fit.
  void tell_what_memory_prevents() {
    const MeasuredStep& step = *candidates_[*best_].step;
    for (std::size_t k = 0; k < step.layers.size(); ++k) {
      const MeasuredAlgorithm& used = chosen(*best_, k);
      for (const MeasuredAlgorithm& other : step.layers[k].algorithms) {
        if (other.seconds() >= used.seconds()) continue;
        reasons_.push_back(fmt::format(
            "layer '{}': {} would save {} an iteration, but its workspace of {} does not fit beside the others; less memory "
            "(a larger stride, fewer filters) in this or other layers would make room",
            step.layers[k].name, to_string(other.algorithm), in_time(used.seconds() - other.seconds()),
            in_bytes(static_cast<double>(other.workspace_bytes))));
        break;
      }
    }
  }

  Result<double> overhead() const {
    if (question_.overhead) return *question_.overhead;
    return wrong(
        "the overhead R_O of {} is not known on this machine; measure it with: paceline profile --steps --model {} --mini-batch "
        "{}, or give --overhead",
        model_.name, model_.name, candidates_[*best_].step->mini_batch);
  }

  void tell_loading() {
    if (question_.prefetch == 0 || question_.loader_threads == 0) return;
    answer_["prefetch"] = train_["prefetch"] = question_.prefetch;
    answer_["loader_threads"] = train_["loader-threads"] = question_.loader_threads;
    reasons_.push_back(fmt::format("loading: {} mini-batches ahead by {} thread{}, as 'paceline profile --steps' chose them",
                                   question_.prefetch, question_.loader_threads, question_.loader_threads == 1 ? "" : "s"));
  }

  // Lemma 3.1.
  Status tell_workers() {
    std::int64_t workers = question_.workers.value_or(1);
    if (question_.speedup || (question_.efficiency && !question_.workers)) {
      PACELINE_ASSIGN_OR_RETURN(const double r, overhead());
      PACELINE_ASSIGN_OR_RETURN(const std::optional<std::int64_t> found, wanted_workers(r));
      if (!found) return {};
      workers = *found;
    }
    answer_["workers"] = workers;
    train_["workers"] = workers;
    if (workers > 100'000) cannot(fmt::format("{} workers are more than a job can have, 100000", workers));
    answer_["overhead"] = question_.overhead ? Json(*question_.overhead) : Json(nullptr);
    if (!question_.overhead) {
      reasons_.push_back(fmt::format(
          "workers: {}, as asked for; what speed-up they reach is not known without R_O ('paceline profile --steps')", workers));
      return {};
    }
    const double r = *question_.overhead;
    const double efficiency = planner::efficiency(r, workers), speedup = planner::speedup(r, workers);
    answer_["efficiency"] = efficiency;
    answer_["speedup"] = speedup;
    answer_["limit"] = r > 0 ? Json((1 + r) / r) : Json(nullptr);
    answer_["epoch_seconds_with_workers"] = answer_["epoch_seconds"].get<double>() * (1 + r) / speedup;
    reasons_.push_back(fmt::format(
        "workers: {} with an overhead R_O of {:.4f} make it {:.2f} times as fast as one, at an efficiency of {:.1f} % (Lemma 3.1)",
        workers, r, speedup, 100 * efficiency));
    if (question_.efficiency && efficiency < *question_.efficiency * (1 - 1e-12))
      cannot(fmt::format("{} workers reach an efficiency of {:.4f}, not the {} that is wanted", workers, efficiency,
                         *question_.efficiency));
    return {};
  }

  Result<std::optional<std::int64_t>> wanted_workers(double r) {
    if (!question_.speedup) {
      PACELINE_ASSIGN_OR_RETURN(const auto most, planner::most_gpus(r, *question_.efficiency));
      if (most) return most;
      cannot("without overhead every number of workers has the efficiency that is wanted; give --workers or --speedup");
      return most;
    }
    PACELINE_ASSIGN_OR_RETURN(const planner::GpuCount count, planner::fewest_gpus(r, *question_.speedup));
    if (count.limit) answer_["limit"] = *count.limit;
    if (!count.gpus)
      cannot(count.limit ? fmt::format("with an overhead R_O of {} the speed-up stays below {:.4f}, however many workers there are",
                                       r, *count.limit)
                         : fmt::format("a speed-up of {} needs more than 2^53 workers", *question_.speedup));
    return count.gpus;
  }

  // Lemma 3.2.
  Status tell_servers() {
    if (!question_.bandwidth) {
      reasons_.emplace_back("servers: not asked for; give --bandwidth");
      return {};
    }
    if (answer_["workers"].is_null()) return {};
    planner::ServerQuestion question;
    question.parameters = Bytes{model_.parameters() * 4};
    question.workers = answer_["workers"];
    question.server_bandwidth = *question_.bandwidth;
    question.worker_bandwidth = question_.worker_bandwidth.value_or(*question_.bandwidth);
    question.compute_seconds = answer_["iteration_seconds"];
    question.duplex = question_.duplex;
    if (!(question.compute_seconds > 0))
      return wrong("the measured iteration takes no time; measure again with: {}", how_to_measure());
    PACELINE_ASSIGN_OR_RETURN(const planner::ServerAnswer servers, planner::servers_needed(question));
    const double shortfall = servers.worker_link_shortfall.value;
    answer_["servers"] = servers.servers;
    answer_["worker_link_ok"] = shortfall == 0;
    answer_["worker_link_shortfall"] = shortfall;
    if (servers.servers <= 100'000) train_["servers"] = servers.servers;
    if (shortfall > 0) {
      reasons_.push_back(
          fmt::format("servers: no number hides the traffic of {} an iteration behind {} of computing: each worker's own link "
                      "lacks {}; {} make sure "
                      "that the servers are not the narrower place",
                      to_text(question.parameters), in_time(question.compute_seconds), to_text(servers.worker_link_shortfall),
                      servers.servers));
    } else {
      reasons_.push_back(fmt::format("servers: {} hide the traffic of {} and {} workers behind {} of computing (Lemma 3.2)",
                                     servers.servers, to_text(question.parameters), question.workers,
                                     in_time(question.compute_seconds)));
    }
    return {};
  }

  void tell_checks() {
    const std::int64_t x = candidates_[*best_].step->mini_batch;
    const bool enough = x >= model_.classes;
    answer_["checks"] = Json::array();
    answer_["checks"].push_back(
        {{"check", "mini-batch not below the number of classes"},
         {"ok", enough},
         {"text",
          enough
              ? fmt::format("mini-batch {} and {} classes", x, model_.classes)
              : fmt::format("mini-batch {} is below the {} classes: not every class can be in one, which may slow convergence down",
                            x, model_.classes)}});
    const bool data = question_.samples >= x * (answer_["workers"].is_null() ? 1 : answer_["workers"].get<std::int64_t>());
    answer_["checks"].push_back({{"check", "a mini-batch for every worker"},
                                 {"ok", data},
                                 {"text", data ? "the data set has a mini-batch for every worker"
                                               : "the data set has fewer samples than one mini-batch for every worker"}});
    if (!data) cannot("the data set has fewer samples than one mini-batch for every worker");
  }

  void cannot(const std::string& reason) {
    if (answer_["feasible"] == false) return;
    answer_["feasible"] = false;
    answer_["reason"] = reason;
  }

  Result<Json> none_of_the_candidates() {
    const auto least = std::max_element(candidates_.begin(), candidates_.end(),
                                        [&](const Candidate& a, const Candidate& b) { return bound_of(a) < bound_of(b); });
    const auto index = static_cast<std::size_t>(least - candidates_.begin());
    return nothing_fits(least->step->mini_batch, std::max(0.0, -bound_of(*least)),
                        fmt::format("none of the {} measured mini-batches of {} fits into {}; with {}: {}; smaller ones: {}",
                                    candidates_.size(), model_.name, to_text(question_.memory), least->step->mini_batch,
                                    plans_.candidates[index].algorithms.reason, how_to_measure()));
  }

  // The layer to shrink is the one whose feature maps and parameters take most.
  Result<Json> nothing_fits(std::int64_t mini_batch, double missing, const std::string& reason) {
    std::string largest;
    double most = -1;
    for (const auto& layer : model_.layers) {
      double values = 3.0 * static_cast<double>(layer.parameters);
      if (layer.convolution) values += static_cast<double>(layer.convolution->output.elements() * mini_batch);
      for (const auto& pooling : layer.pooling) values += static_cast<double>(pooling.output.elements() * mini_batch);
      if (values <= most) continue;
      most = values;
      largest = layer.name;
    }
    answer_["feasible"] = false;
    answer_["reason"] = fmt::format("{}; the layer to shrink first is '{}', whose feature maps and parameters take {}", reason,
                                    largest, in_bytes(4 * most));
    answer_["missing_bytes"] = std::ceil(missing);
    answer_["layer_to_shrink"] = largest;
    answer_["checks"] = Json::array();
    answer_["reasons"] = Json::array();
    answer_["train"] = nullptr;
    return answer_;
  }

  const JobQuestion& question_;
  const Measurements& measurements_;
  const model::ModelDescription model_;
  std::vector<Candidate> candidates_;
  planner::MiniBatchChoice plans_;
  std::optional<std::size_t> best_;
  Json answer_, train_;
  std::vector<std::string> reasons_;
};

}  // namespace

Result<Json> recommend(const JobQuestion& question, const Measurements& measurements) {
  PACELINE_ASSIGN_OR_RETURN(model::ModelDescription description, model::describe(question.model));
  return Recommendation(question, measurements, std::move(description)).run();
}

std::string recommendation_text(const Json& answer) {
  std::string text;
  const auto line = [&text](const char* name, const std::string& value) { text += fmt::format("{:<14} {}\n", name, value); };
  const auto number = [&](const char* key) {
    return answer.contains(key) && answer[key].is_number() ? answer[key].dump() : std::string("-");
  };
  line("model", answer["model"]);
  if (answer["feasible"] == false) line("no answer", answer["reason"]);
  if (answer["mini_batch"].is_number()) {
    line("mini-batch", number("mini_batch"));
    for (const auto& [layer, algorithm] : answer["convolutions"].items())
      line("", fmt::format("{:<20} {}", layer, algorithm.get<std::string>()));
    line("workers", number("workers"));
    line("servers", number("servers"));
  }
  if (!answer["reasons"].empty()) {
    text += "\nwhy\n";
    for (const Json& reason : answer["reasons"]) text += "  " + reason.get<std::string>() + "\n";
  }
  if (!answer["checks"].empty()) {
    text += "\nchecks\n";
    for (const Json& check : answer["checks"])
      text += fmt::format("  {:<5} {}\n", check["ok"] == true ? "well" : "look", check["text"].get<std::string>());
  }
  if (answer["candidates"].empty()) return text;
  text += fmt::format("\n{:>10} {:>12} {:>12} {:>14} {:>14} {:>12}\n", "mini-batch", "iteration", "data epoch", "samples/s",
                      "default's", "workspaces");
  for (const Json& one : answer["candidates"]) {
    const std::string beginning = fmt::format("{:>10}", one["mini_batch"].get<std::int64_t>());
    if (one["feasible"] == false) {
      text += beginning + "  " + one["reason"].get<std::string>() + "\n";
      continue;
    }
    const auto rate = [&one](const char* key) {
      return one[key].is_number() ? fmt::format("{:.1f}", one[key].get<double>()) : std::string("-");
    };
    text += fmt::format("{} {:>12} {:>12} {:>14} {:>14} {:>12}\n", beginning, in_time(one["iteration_seconds"]),
                        in_time(one["epoch_seconds"]), rate("samples_per_second"), rate("default_samples_per_second"),
                        in_bytes(one["workspace_bytes"]));
  }
  return text;
}

}  // namespace paceline::cli

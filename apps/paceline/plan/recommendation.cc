#include "paceline/plan/recommendation.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/text.h"
#include "paceline/amounts.h"
#include "paceline/plan/job_candidates.h"
#include "paceline/profile/prediction.h"
#include "paceline/wrong.h"
#include "planner/gpus.h"
#include "planner/memory.h"

namespace paceline::cli {
namespace {

constexpr std::int64_t kMostProcesses = 100'000;  // of one kind in a job, as `train` allows

Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

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
      answer_[key] = nullptr;
    answer_["candidates"] = Json::array();
    auto candidates = candidates_for(question_, measurements_, model_);
    const bool known = candidates.ok() && (candidates->best || candidates->all.front().step->mini_batch == 1);
    // What was measured to fit, or not to fit with a single sample, counts more than the formula.
    if (const auto missing = missing_at_one(); !known && missing > 0) {
      return nothing_fits(1, missing,
                          fmt::format("{} does not fit: with mini-batch 1 it needs {} more than the {} that there are", model_.name,
                                      in_bytes(missing), to_text(question_.memory)));
    }
    PACELINE_RETURN_IF_ERROR(candidates.status());
    candidates_ = std::move(candidates).value();
    for (const Candidate& candidate : candidates_.all) tell_candidate(candidate);
    if (!candidates_.best) return none_of_the_candidates();
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

  void tell_candidate(const Candidate& candidate) {
    const planner::MiniBatchPlan& plan = candidate.plan;
    const auto x = static_cast<double>(candidate.step->mini_batch);
    Json one = {{"mini_batch", candidate.step->mini_batch},
                {"feasible", plan.algorithms.feasible},
                {"bound_bytes", candidate.bound},
                {"iteration_seconds", nullptr},
                {"iteration_by", nullptr},
                {"samples_per_second", nullptr},
                {"default_samples_per_second", candidate.step->step_s > 0 ? Json(x / candidate.step->step_s) : Json(nullptr)},
                {"epoch_seconds", nullptr},
                {"workspace_bytes", nullptr},
                {"convolutions", nullptr},
                {"reason", nullptr}};
    if (plan.algorithms.feasible) {
      one["iteration_seconds"] = plan.algorithms.time;
      one["iteration_by"] = to_string(candidate.by);
      if (plan.algorithms.time > 0) one["samples_per_second"] = x / plan.algorithms.time;
      one["epoch_seconds"] = plan.time;
      one["workspace_bytes"] = plan.algorithms.memory;
      one["convolutions"] = choice_json(candidate);
    } else {
      one["reason"] = plan.algorithms.reason;
    }
    answer_["candidates"].push_back(one);
  }

  static Json choice_json(const Candidate& candidate) {
    Json choice = Json::object();
    for (const auto& [layer, algorithm] : candidate.choice()) choice[layer] = to_string(algorithm);
    return choice;
  }

  const Candidate& best() const { return candidates_.all[*candidates_.best]; }

  void tell_mini_batch() {
    const Candidate& candidate = best();
    const planner::MiniBatchPlan& plan = candidate.plan;
    const MeasuredStep& step = *candidate.step;
    answer_["mini_batch"] = step.mini_batch;
    answer_["iterations"] = plan.iterations;
    answer_["iteration_seconds"] = plan.algorithms.time;
    answer_["iteration_by"] = to_string(candidate.by);
    answer_["epoch_seconds"] = plan.time;
    answer_["convolutions"] = choice_json(candidate);
    answer_["default_iteration_seconds"] = step.step_s;
    answer_["memory_need"] = {
        {"by", candidate.need.measured ? "measured" : "formula"},
        {"bytes", candidate.need.bytes()},
        {"formula_bytes", or_null(candidate.need.formula)},
        {"measured_bytes", or_null(candidate.need.measured)},
        {"ratio", candidate.need.formula && candidate.need.measured ? Json(*candidate.need.measured / *candidate.need.formula)
                                                                    : Json(nullptr)},
        {"workspace_bytes", plan.algorithms.memory},
        {"bound_bytes", candidate.bound}};
    train_ = {{"model", model_.name}, {"mini-batch", step.mini_batch}, {"convolutions", choice_json(candidate)}};
    if (!question_.dataset.empty()) train_["dataset"] = question_.dataset;
    reasons_.push_back(
        fmt::format("mini-batch {}: a data epoch of {} samples takes {} iterations of {}, {} in all, the least of {} candidates",
                    step.mini_batch, question_.samples, plan.iterations, in_time(plan.algorithms.time), in_time(plan.time),
                    candidates_.all.size()));
    const double gain = plan.algorithms.time > 0 ? step.step_s / plan.algorithms.time : 1;
    reasons_.push_back(fmt::format("convolutions: LibTorch's choice takes {} an iteration, these {} ({:.2f} times as fast), {}",
                                   in_time(step.step_s), in_time(plan.algorithms.time), gain, told_by(candidate)));
    if (step.whole_gain > 0) {
      reasons_.push_back(
          fmt::format("whole steps with each layer's fastest algorithm were {:.2f} times as fast as with LibTorch's choice, "
                      "measured in turns: {}",
                      step.whole_gain, worth_a_choice(step.whole_gain) ? "worth it" : "not worth leaving that for"));
    }
    reasons_.push_back(fmt::format("memory: a step needs {} ({}), the convolutions' workspaces {} of the {} that are left",
                                   in_bytes(candidate.need.bytes()), candidate.need.measured ? "measured" : "by formula",
                                   in_bytes(plan.algorithms.memory), in_bytes(candidate.bound)));
    tell_what_memory_prevents();
  }

  static std::string told_by(const Candidate& candidate) {
    switch (candidate.by) {
      case StepTime::By::kLayers:
        return "which the layers' times add up to; whole steps were not measured";
      case StepTime::By::kWholeSteps:
        return fmt::format("as whole steps took; the layers' times add up to {}", in_time(candidate.summed));
      case StepTime::By::kBoth:
        return fmt::format("where layers save as much of their own times as whole steps with the fastest did; those add up to {}",
                           in_time(candidate.summed));
    }
    return {};
  }

  // The paper's advice to adjust the model: where a faster algorithm did not fit.
  void tell_what_memory_prevents() {
    for (std::size_t k = 0; k < best().layers.size(); ++k) {
      const MeasuredLayer& layer = best().layers[k];
      const MeasuredAlgorithm& used = best().chosen(k);
      for (const MeasuredAlgorithm& other : layer.algorithms) {
        if (other.seconds() >= used.seconds()) continue;
        reasons_.push_back(fmt::format(
            "layer '{}': {} would save {} an iteration, but its workspace of {} does not fit beside the others; less memory "
            "(a larger stride, fewer filters) in this or other layers would make room",
            layer.name, to_string(other.algorithm), in_time(used.seconds() - other.seconds()),
            in_bytes(static_cast<double>(other.workspace_bytes))));
        break;
      }
    }
  }

  Result<double> overhead() const {
    if (question_.overhead) return *question_.overhead;
    return wrong(
        "the overhead R_O of {} is not known on this machine; measure it with: paceline profile --steps --model {}{}{} "
        "--mini-batch {}, or give --overhead",
        model_.name, model_.name, question_.dataset.empty() ? "" : " --dataset ", question_.dataset, best().step->mini_batch);
  }

  void tell_loading() {
    if (question_.prefetch == 0 || question_.loader_threads == 0) return;
    answer_["prefetch"] = train_["prefetch"] = question_.prefetch;
    answer_["loader_threads"] = train_["loader-threads"] = question_.loader_threads;
    reasons_.push_back(fmt::format("loading: {} mini-batches ahead by {} thread{}, as 'paceline profile --steps' chose them",
                                   question_.prefetch, question_.loader_threads, question_.loader_threads == 1 ? "" : "s"));
  }

  // The lemma's curve up to twice the workers, in at most 16 points.
  static Json speedups(double overhead, std::int64_t workers) {
    const std::int64_t most = std::max<std::int64_t>(8, 2 * workers), step = (most + 15) / 16;
    Json curve = Json::array();
    for (std::int64_t count = 1; count <= most; count = step == 1 ? count + 1 : (count / step + 1) * step)
      curve.push_back({{"workers", count}, {"speedup", planner::speedup(overhead, count)}});
    return curve;
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
    if (workers > kMostProcesses) cannot(fmt::format("{} workers are more than a job can have, {}", workers, kMostProcesses));
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
    answer_["speedups"] = speedups(r, workers);
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
      return wrong("the measured iteration takes no time; measure again with: {}", how_to_measure(question_, model_));
    PACELINE_ASSIGN_OR_RETURN(const planner::ServerAnswer servers, planner::servers_needed(question));
    const double shortfall = servers.worker_link_shortfall.value;
    answer_["servers"] = servers.servers;
    answer_["worker_link_ok"] = shortfall == 0;
    answer_["worker_link_shortfall"] = shortfall;
    train_["servers"] = servers.servers;
    if (servers.servers > kMostProcesses)
      cannot(fmt::format("{} servers are more than a job can have, {}", servers.servers, kMostProcesses));
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
    const std::int64_t x = best().step->mini_batch;
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
    const auto least = std::max_element(candidates_.all.begin(), candidates_.all.end(),
                                        [](const Candidate& a, const Candidate& b) { return a.bound < b.bound; });
    JobQuestion smaller = question_;
    smaller.mini_batches.clear();
    for (std::int64_t size = candidates_.all.front().step->mini_batch / 2; size > 0; size /= 2)
      smaller.mini_batches.insert(smaller.mini_batches.begin(), size);
    return nothing_fits(
        least->step->mini_batch, std::max(0.0, -least->bound),
        fmt::format("none of the {} measured mini-batches of {} fits into {}; with {}: {}{}", candidates_.all.size(), model_.name,
                    to_text(question_.memory), least->step->mini_batch, least->plan.algorithms.reason,
                    smaller.mini_batches.empty() ? "" : "; smaller ones: " + how_to_measure(smaller, model_)));
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
  Candidates candidates_;
  Json answer_, train_;
  std::vector<std::string> reasons_;
};

}  // namespace

Result<Json> recommend(const JobQuestion& question, const Measurements& measurements) {
  PACELINE_ASSIGN_OR_RETURN(model::ModelDescription description, model::describe(question.model));
  return Recommendation(question, measurements, std::move(description)).run();
}

}  // namespace paceline::cli

#include "planner/questions/recommendation.h"

#include <algorithm>
#include <cmath>

#include "base/amounts.h"
#include "base/wrong.h"
#include "planner/questions/job_candidates.h"
#include "planner/sizing/gpus.h"
#include "planner/sizing/memory.h"

namespace paceline::planner {
namespace {

// The lemma's curve up to twice the workers, in at most 16 points.
std::vector<Recommendation::Speedup> curve_of(double overhead, std::int64_t workers) {
  const std::int64_t most = std::max<std::int64_t>(8, 2 * workers), step = (most + 15) / 16;
  std::vector<Recommendation::Speedup> curve;
  for (std::int64_t count = 1; count <= most; count = step == 1 ? count + 1 : (count / step + 1) * step)
    curve.push_back({count, speedup(overhead, count)});
  return curve;
}

Recommendation::Candidate told(const Candidate& candidate) {
  const MiniBatchPlan& plan = candidate.plan;
  Recommendation::Candidate one{.mini_batch = candidate.step->mini_batch,
                                .bound_bytes = candidate.bound,
                                .default_step_seconds = candidate.step->step_s,
                                .run = {},
                                .reason = plan.algorithms.reason};
  if (!plan.algorithms.feasible) return one;
  one.run = {.iteration_seconds = plan.algorithms.time,
             .by = candidate.by,
             .epoch_seconds = plan.time,
             .workspace_bytes = plan.algorithms.memory,
             .convolutions = candidate.choice()};
  return one;
}

class Builder {
 public:
  Builder(const JobQuestion& question, const Measurements& measurements, model::ModelDescription description)
      : question_(question), measurements_(measurements), model_(std::move(description)) {}

  Result<Recommendation> run() {
    answer_ = {.model = model_.name, .dataset = question_.dataset, .samples = question_.samples, .memory = question_.memory};
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
    for (const Candidate& candidate : candidates_.all) answer_.candidates.push_back(told(candidate));
    if (!candidates_.best) return none_of_the_candidates();
    choose_mini_batch();
    choose_loading();
    PACELINE_RETURN_IF_ERROR(choose_workers());
    PACELINE_RETURN_IF_ERROR(choose_servers());
    check();
    return std::move(answer_);
  }

 private:
  // By the formula alone, bytes that a single sample lacks.
  double missing_at_one() const {
    if (!no_formula_reason(model_).empty()) return 0;
    const auto need = memory_need(model_, 1, question_.memory);
    return need.ok() && need->bound_bits < 0 ? -static_cast<double>(need->bound_bits) / 8 : 0;
  }

  const Candidate& best() const { return candidates_.all[*candidates_.best]; }

  template <typename... Args>
  void say(fmt::format_string<Args...> format, Args&&... args) {
    answer_.reasons.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  void choose_mini_batch() {
    const Candidate& candidate = best();
    const MiniBatchPlan& plan = candidate.plan;
    const MeasuredStep& step = *candidate.step;
    answer_.chosen = {.candidate = *candidates_.best,
                      .iterations = plan.iterations,
                      .formula_bytes = candidate.need.formula,
                      .measured_bytes = candidate.need.measured};
    say("mini-batch {}: a data epoch of {} samples takes {} iterations of {}, {} in all, the least of {} candidates",
        step.mini_batch, question_.samples, plan.iterations, in_time(plan.algorithms.time), in_time(plan.time),
        candidates_.all.size());
    const double gain = plan.algorithms.time > 0 ? step.step_s / plan.algorithms.time : 1;
    say("convolutions: LibTorch's choice takes {} an iteration, these {} ({:.2f} times as fast), {}", in_time(step.step_s),
        in_time(plan.algorithms.time), gain, candidate.told_by());
    if (step.whole_gain > 0) {
      say("whole steps with each layer's fastest algorithm were {:.2f} times as fast as with LibTorch's choice, measured in turns: "
          "{}",
          step.whole_gain, worth_a_choice(step.whole_gain) ? "worth it" : "not worth leaving that for");
    }
    say("memory: a step needs {} ({}), the convolutions' workspaces {} of the {} that are left", in_bytes(candidate.need.bytes()),
        candidate.need.measured ? "measured" : "by formula", in_bytes(plan.algorithms.memory), in_bytes(candidate.bound));
    say_what_memory_prevents();
  }

  // The paper's advice to adjust the model: where a faster algorithm did not fit.
  void say_what_memory_prevents() {
    for (std::size_t k = 0; k < best().layers.size(); ++k) {
      const MeasuredLayer& layer = best().layers[k];
      const MeasuredAlgorithm& used = best().chosen(k);
      for (const MeasuredAlgorithm& other : layer.algorithms) {
        if (other.seconds() >= used.seconds()) continue;
        say("layer '{}': {} would save {} an iteration, but its workspace of {} does not fit beside the others; less memory (a "
            "larger stride, fewer filters) in this or other layers would make room",
            layer.name, to_string(other.algorithm), in_time(used.seconds() - other.seconds()),
            in_bytes(static_cast<double>(other.workspace_bytes)));
        break;
      }
    }
  }

  void choose_loading() {
    const MeasuredOverhead* measured = measurements_.overhead_of(question_.model, question_.dataset, best().step->mini_batch);
    overhead_ = question_.overhead;
    if (measured == nullptr) return;
    if (!overhead_) overhead_ = measured->overhead;
    if (measured->prefetch == 0 || measured->loader_threads == 0) return;
    answer_.chosen->prefetch = measured->prefetch;
    answer_.chosen->loader_threads = measured->loader_threads;
    say("loading: {} mini-batches ahead by {} thread{}, as 'paceline profile --steps' chose them", measured->prefetch,
        measured->loader_threads, measured->loader_threads == 1 ? "" : "s");
  }

  Result<double> overhead() const {
    if (overhead_) return *overhead_;
    return wrong(
               "the overhead R_O of {} is not known on this machine; measure it with: paceline profile --steps --model {}{}{} "
               "--mini-batch {}, or give --overhead",
               model_.name, model_.name, question_.dataset.empty() ? "" : " --dataset ", question_.dataset, best().step->mini_batch)
        .because({"missing", "overhead"});
  }

  // Lemma 3.1.
  Status choose_workers() {
    std::int64_t workers = question_.workers.value_or(1);
    if (question_.speedup || (question_.efficiency && !question_.workers)) {
      PACELINE_ASSIGN_OR_RETURN(const double r, overhead());
      PACELINE_ASSIGN_OR_RETURN(const std::optional<std::int64_t> found, wanted_workers(r));
      if (!found) return {};
      workers = *found;
    }
    answer_.workers = workers;
    if (workers > kMostProcesses) cannot(fmt::format("{} workers are more than a job can have, {}", workers, kMostProcesses));
    if (!overhead_) {
      say("workers: {}, as asked for; what speed-up they reach is not known without R_O ('paceline profile --steps')", workers);
      return {};
    }
    const double r = *overhead_;
    const Recommendation::Scaling scaling{.overhead = r,
                                          .efficiency = efficiency(r, workers),
                                          .speedup = speedup(r, workers),
                                          .epoch_seconds = answer_.run().epoch_seconds * (1 + r) / speedup(r, workers),
                                          .curve = curve_of(r, workers)};
    answer_.scaling = scaling;
    answer_.limit = r > 0 ? std::optional((1 + r) / r) : std::nullopt;
    say("workers: {} with an overhead R_O of {:.4f} make it {:.2f} times as fast as one, at an efficiency of {:.1f} % (Lemma 3.1)",
        workers, r, scaling.speedup, 100 * scaling.efficiency);
    if (question_.efficiency && scaling.efficiency < *question_.efficiency * (1 - 1e-12))
      cannot(fmt::format("{} workers reach an efficiency of {:.4f}, not the {} that is wanted", workers, scaling.efficiency,
                         *question_.efficiency));
    return {};
  }

  Result<std::optional<std::int64_t>> wanted_workers(double r) {
    if (!question_.speedup) {
      PACELINE_ASSIGN_OR_RETURN(const auto most, most_gpus(r, *question_.efficiency));
      if (most) return most;
      cannot("without overhead every number of workers has the efficiency that is wanted; give --workers or --speedup");
      return most;
    }
    PACELINE_ASSIGN_OR_RETURN(const GpuCount count, fewest_gpus(r, *question_.speedup));
    answer_.limit = count.limit;
    if (!count.gpus)
      cannot(count.limit ? fmt::format("with an overhead R_O of {} the speed-up stays below {:.4f}, however many workers there are",
                                       r, *count.limit)
                         : fmt::format("a speed-up of {} needs more than 2^53 workers", *question_.speedup));
    return count.gpus;
  }

  // Lemma 3.2.
  Status choose_servers() {
    if (!question_.bandwidth) {
      say("servers: not asked for; give --bandwidth");
      return {};
    }
    if (!answer_.workers) return {};
    const ServerQuestion question{.parameters = Bytes{model_.parameters() * 4},
                                  .workers = *answer_.workers,
                                  .server_bandwidth = *question_.bandwidth,
                                  .worker_bandwidth = question_.worker_bandwidth.value_or(*question_.bandwidth),
                                  .compute_seconds = answer_.run().iteration_seconds,
                                  .duplex = question_.duplex};
    if (!(question.compute_seconds > 0))
      return wrong("the measured iteration takes no time; measure again with: {}", how_to_measure(question_, model_));
    PACELINE_ASSIGN_OR_RETURN(const ServerAnswer needed, servers_needed(question));
    answer_.servers = {.servers = needed.servers, .worker_link_shortfall = needed.worker_link_shortfall};
    if (needed.servers > kMostProcesses)
      cannot(fmt::format("{} servers are more than a job can have, {}", needed.servers, kMostProcesses));
    if (needed.worker_link_shortfall.value > 0) {
      say("servers: no number hides the traffic of {} an iteration behind {} of computing: each worker's own link lacks {}; {} "
          "make sure that the servers are not the narrower place",
          to_text(question.parameters), in_time(question.compute_seconds), to_text(needed.worker_link_shortfall), needed.servers);
    } else {
      say("servers: {} hide the traffic of {} and {} workers behind {} of computing (Lemma 3.2)", needed.servers,
          to_text(question.parameters), question.workers, in_time(question.compute_seconds));
    }
    return {};
  }

  void check() {
    const std::int64_t x = best().step->mini_batch;
    const bool enough = x >= model_.classes;
    answer_.checks.push_back(
        {"mini-batch not below the number of classes", enough,
         enough
             ? fmt::format("mini-batch {} and {} classes", x, model_.classes)
             : fmt::format("mini-batch {} is below the {} classes: not every class can be in one, which may slow convergence down",
                           x, model_.classes)});
    const bool data = question_.samples >= x * answer_.workers.value_or(1);
    const std::string fewer = "the data set has fewer samples than one mini-batch for every worker";
    answer_.checks.push_back(
        {"a mini-batch for every worker", data, data ? "the data set has a mini-batch for every worker" : fewer});
    if (!data) cannot(fewer);
  }

  // The first reason counts.
  void cannot(const std::string& reason) {
    if (answer_.no_answer.empty()) answer_.no_answer = reason;
  }

  Recommendation none_of_the_candidates() {
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
  Recommendation nothing_fits(std::int64_t mini_batch, double missing, const std::string& reason) {
    double most = -1;
    for (const auto& layer : model_.layers) {
      double values = 3.0 * static_cast<double>(layer.parameters);
      if (layer.convolution) values += static_cast<double>(layer.convolution->output.elements() * mini_batch);
      for (const auto& pooling : layer.pooling) values += static_cast<double>(pooling.output.elements() * mini_batch);
      if (values <= most) continue;
      most = values;
      answer_.layer_to_shrink = layer.name;
    }
    answer_.no_answer = fmt::format("{}; the layer to shrink first is '{}', whose feature maps and parameters take {}", reason,
                                    answer_.layer_to_shrink, in_bytes(4 * most));
    answer_.missing_bytes = std::ceil(missing);
    return std::move(answer_);
  }

  const JobQuestion& question_;
  const Measurements& measurements_;
  const model::ModelDescription model_;
  Candidates candidates_;
  std::optional<double> overhead_;  // as given, else as measured
  Recommendation answer_;
};

}  // namespace

Result<Recommendation> recommend(const JobQuestion& question, const Measurements& measurements) {
  PACELINE_ASSIGN_OR_RETURN(model::ModelDescription description, model::describe(question.model));
  return Builder(question, measurements, std::move(description)).run();
}

}  // namespace paceline::planner

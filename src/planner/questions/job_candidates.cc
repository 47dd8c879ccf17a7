#include "planner/questions/job_candidates.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/ranges.h>

#include "base/amounts.h"
#include "base/text.h"
#include "base/wrong.h"
#include "planner/sizing/memory.h"

namespace paceline::planner {
namespace {

// The largest workspace of the default, with which the step's memory was measured.
std::int64_t default_workspace(const MeasuredStep& step) {
  std::int64_t workspace = 0;
  for (const MeasuredLayer& layer : step.layers) {
    for (const MeasuredAlgorithm& measured : layer.algorithms) {
      if (measured.algorithm == model::ConvolutionAlgorithm::kDefault) workspace = std::max(workspace, measured.workspace_bytes);
    }
  }
  return workspace;
}

Result<Need> need_of(const MeasuredStep& step, const model::ModelDescription& model, const std::string& how) {
  Need need;
  const std::string no_formula = no_formula_reason(model);
  if (no_formula.empty()) {
    PACELINE_ASSIGN_OR_RETURN(const MemoryNeed formula, memory_need(model, step.mini_batch, Bytes{0}));
    need.formula = -static_cast<double>(formula.bound_bits) / 8;
  }
  if (step.process_peak_bytes > 0)
    need.measured = static_cast<double>(std::max<std::int64_t>(0, step.process_peak_bytes - default_workspace(step)));
  if (need.formula || need.measured) return need;
  return wrong("the measurement of {} with mini-batch {} lacks 'process_peak_bytes', and {}; measure with: {}", model.name,
               step.mini_batch, no_formula, how);
}

// What is no convolution is one more layer, which has no choice.
MiniBatchCandidate eq6_of(const Candidate& candidate) {
  MiniBatchCandidate one{candidate.step->mini_batch, std::max(0.0, candidate.bound), {}};
  for (const MeasuredLayer& layer : candidate.layers) {
    auto& costs = one.layers.emplace_back();
    for (const MeasuredAlgorithm& measured : layer.algorithms)
      costs.push_back({measured.seconds(), static_cast<double>(measured.workspace_bytes)});
  }
  one.layers.push_back({{candidate.step->rest_s, 0}});
  return one;
}

// Eq 6 adds up layers. That orders the choices, whose saving counts alike; how long one takes whole steps say better.
void take_whole_steps(Candidate& candidate) {
  MeasuredStep step = *candidate.step;
  step.layers = candidate.layers;
  const StepTime time = step_time(step, candidate.choice());
  candidate.summed = candidate.plan.algorithms.time;
  candidate.by = time.by;
  if (time.by == StepTime::By::kLayers) return;
  candidate.plan.algorithms.time = time.seconds;
  candidate.plan.time = static_cast<double>(candidate.plan.iterations) * time.seconds;
}

Status choose(Candidates& candidates, std::int64_t samples) {
  std::vector<MiniBatchCandidate> questions;
  for (const Candidate& candidate : candidates.all) questions.push_back(eq6_of(candidate));
  PACELINE_ASSIGN_OR_RETURN(const MiniBatchChoice choice, choose_mini_batch(samples, questions));
  for (std::size_t i = 0; i < candidates.all.size(); ++i) {
    Candidate& candidate = candidates.all[i];
    candidate.plan = choice.candidates[i];
    if (candidate.bound < 0) {
      candidate.plan.algorithms.feasible = false;
      candidate.plan.algorithms.reason = fmt::format("it needs {} more, without any workspace",
                                                     to_text(Bytes{static_cast<std::int64_t>(std::ceil(-candidate.bound))}));
    }
    if (!candidate.plan.algorithms.feasible) continue;
    take_whole_steps(candidate);
    const Candidate* best = candidates.best ? &candidates.all[*candidates.best] : nullptr;
    if (best == nullptr || better(candidate.plan.time, candidate.step->mini_batch, best->plan.time, best->step->mini_batch))
      candidates.best = i;
  }
  return {};
}

}  // namespace

const MeasuredAlgorithm& Candidate::chosen(std::size_t layer) const {
  return layers[layer].algorithms[static_cast<std::size_t>(plan.algorithms.choice[layer])];
}

model::ConvolutionChoice Candidate::choice() const {
  model::ConvolutionChoice choice;
  for (std::size_t layer = 0; layer < layers.size(); ++layer) choice[layers[layer].name] = chosen(layer).algorithm;
  return choice;
}

std::string Candidate::told_by() const {
  switch (by) {
    case StepTime::By::kLayers:
      return "which the layers' times add up to; whole steps were not measured";
    case StepTime::By::kWholeSteps:
      return fmt::format("as whole steps took; the layers' times add up to {}", in_time(summed));
    case StepTime::By::kBoth:
      return fmt::format("where layers save as much of their own times as whole steps with the fastest did; those add up to {}",
                         in_time(summed));
  }
  return {};
}

double expected_step(const model::ModelDescription& model, std::int64_t mini_batch) {
  constexpr double kOperations = 6, kOperationsPerSecond = 4e10;  // backward computes twice what forward does
  return kOperations * static_cast<double>(model.macs()) * static_cast<double>(mini_batch) / kOperationsPerSecond;
}

double seconds_to_measure(const model::ModelDescription& model, const std::vector<std::int64_t>& mini_batches,
                          std::int64_t rounds) {
  constexpr double kContestants = 5;  // four algorithms, and whole steps
  const auto samples = std::accumulate(mini_batches.begin(), mini_batches.end(), std::int64_t{0});
  return kContestants * static_cast<double>(rounds + 1) * expected_step(model, samples);
}

std::string how_to_measure(const JobQuestion& question, const model::ModelDescription& model) {
  std::vector<std::int64_t> sizes = question.mini_batches;
  if (sizes.empty()) sizes = {8, 16, 32, 64};
  const std::string command =
      fmt::format("paceline profile --convolutions --model {} --mini-batches {}", model.name, fmt::join(sizes, ","));
  const double minutes = seconds_to_measure(model, sizes, kUsualRounds) / 60;
  if (minutes < 2) return command;
  return fmt::format("{} (about {:.0f} min; each mini-batch is kept once it is measured)", command, minutes);
}

Result<Candidates> candidates_for(const JobQuestion& question, const Measurements& measurements,
                                  const model::ModelDescription& model) {
  const std::string how = how_to_measure(question, model);
  const auto& wanted = question.mini_batches;
  Candidates candidates;
  for (const MeasuredStep& step : measurements.steps) {
    if (step.model != model.name) continue;
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), step.mini_batch) == wanted.end()) continue;
    Candidate& candidate = candidates.all.emplace_back(Candidate{.step = &step, .layers = {}, .need = {}, .plan = {}});
    candidate.layers = worthwhile(step).layers;
    PACELINE_ASSIGN_OR_RETURN(candidate.need, need_of(step, model, how));
    candidate.bound = static_cast<double>(question.memory.count) - candidate.need.bytes();
  }
  for (const std::int64_t mini_batch : wanted) {
    const auto measured = [&](const Candidate& candidate) { return candidate.step->mini_batch == mini_batch; };
    if (std::none_of(candidates.all.begin(), candidates.all.end(), measured))
      return wrong("mini-batch {} of {} has not been measured on this machine; measure with: {}", mini_batch, model.name, how);
  }
  if (candidates.all.empty()) return wrong("{} has not been measured on this machine; measure with: {}", model.name, how);
  std::sort(candidates.all.begin(), candidates.all.end(),
            [](const Candidate& a, const Candidate& b) { return a.step->mini_batch < b.step->mini_batch; });
  PACELINE_RETURN_IF_ERROR(choose(candidates, question.samples));
  return candidates;
}

}  // namespace paceline::planner

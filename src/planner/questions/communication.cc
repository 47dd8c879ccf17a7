// `paceline plan batches | iteration | slice`: questions about moving bytes.
#include <algorithm>
#include <cmath>

#include <fmt/ranges.h>

#include "base/text.h"
#include "base/wrong.h"
#include "cost/lower_bound.h"
#include "planner/questions/layer_loads.h"
#include "planner/questions/question.h"
#include "scheduling/batching.h"
#include "scheduling/slice_size.h"

namespace paceline::planner {
namespace {

// ---- plan batches

Result<scheduling::BatchingProblem> batching_problem(const Json& input, const std::string& side) {
  const std::string compute = side == "pull" ? "forward" : "backward";
  if (!input.contains(compute))
    return wrong_key(compute, " is missing; --side {} batches under the {} pass", side, compute).because({"missing", ""});
  scheduling::BatchingProblem problem;
  problem.start_up = input["start_up"].get<double>();
  problem.transfer = input["transfer"].get<std::vector<double>>();
  problem.compute = input[compute].get<std::vector<double>>();
  if (problem.transfer.empty()) return wrong_key("transfer", " is empty; at least one layer is needed");
  if (problem.transfer.size() != problem.compute.size()) {
    return wrong_key("transfer", " has {} layers and key '{}' has {}; each layer needs both", problem.transfer.size(), compute,
                     problem.compute.size());
  }
  PACELINE_RETURN_IF_ERROR(scheduling::validate(problem));
  return problem;
}

Result<scheduling::Bounds> given_bounds(const Json& input, const scheduling::BatchingProblem& problem) {
  if (!input.contains("bounds"))
    return wrong_key("bounds", " is missing; --algorithm given judges the batching that it lists").because({"missing", ""});
  const auto listed = input["bounds"].get<std::vector<std::int64_t>>();
  scheduling::Bounds bounds;
  for (const std::int64_t bound : listed) {
    bounds.push_back(
        static_cast<int>(std::min<std::int64_t>(bound, std::int64_t{1} << 30)));  // more than there can be layers stays so
  }
  const Status status = scheduling::validate(bounds, problem);
  if (!status.ok()) return wrong_key("bounds", ": {}", status.message());
  return bounds;
}

const std::vector<std::string> kBatchesKeys = {"algorithm", "chosen", "bounds", "execution_time", "makespan", "overlapped"};

Result<Json> answer_batches(const Json& input, const Json& choices) {
  const std::string algorithm = choices["algorithm"];
  PACELINE_ASSIGN_OR_RETURN(const auto problem, batching_problem(input, choices["side"]));
  if (algorithm != "given" && input.contains("bounds"))
    return wrong_key("bounds", " is only for --algorithm given, not for {}", algorithm);

  scheduling::Bounds bounds;
  Json chosen = nullptr;
  if (algorithm == "ibatch") {
    auto found = scheduling::ibatch(problem);
    bounds = std::move(found.bounds);
    chosen = found.chosen == scheduling::Greedy::kForward ? "forward-greedy" : "backward-greedy";
  } else if (algorithm == "backward-greedy") {
    auto found = scheduling::backward_greedy(problem);
    if (!found)
      return infeasible(
          kBatchesKeys,
          "backward greedy gets stuck: before the batches fixed so far, no batch's computation hides behind the next transfer");
    bounds = std::move(*found);
  } else if (algorithm == "given") {
    PACELINE_ASSIGN_OR_RETURN(bounds, given_bounds(input, problem));
  } else if (algorithm == "forward-greedy") {
    bounds = scheduling::forward_greedy(problem);
  } else if (algorithm == "exact") {
    bounds = scheduling::exact_batching(problem);
  } else if (algorithm == "layer-wise") {
    bounds = scheduling::layer_wise_batching(problem);
  } else {
    bounds = scheduling::default_batching(problem);
  }
  return Json{{"algorithm", algorithm},
              {"chosen", chosen},
              {"feasible", true},
              {"bounds", bounds},
              {"execution_time", scheduling::execution_time(problem, bounds)},
              {"makespan", scheduling::makespan(problem, bounds)},
              {"overlapped", scheduling::is_overlapped(problem, bounds)}};
}

Question batches() {
  Question question;
  question.name = "batches";
  question.purpose =
      "Which layers to pull (or push) together so that the transfer hides behind the forward (or backward) pass. Exact: the least "
      "makespan, which training uses. Ibatch: the better of forward-greedy and backward-greedy. Default: all in one batch. "
      "Layer-wise: each alone. Given: judge the batching in 'bounds', the last layer of each batch, ascending. Layers are "
      "numbered from 1 in forward order. With --side push the last batch has the last layers, which are computed and pushed "
      "first.";
  question.keys = {
      {"start_up", KeyType::kSeconds, "start-up time of one pull or push"},
      {"transfer", KeyType::kNumbers, "transfer time of each layer, seconds, forward order"},
      {"forward", KeyType::kNumbers, "forward time of each layer, seconds, forward order; needed with --side pull", false},
      {"backward", KeyType::kNumbers, "backward time of each layer, seconds, forward order; needed with --side push", false},
      {"bounds", KeyType::kCounts, "last layer of each batch, from 1; needed with --algorithm given, and only there", false},
  };
  question.choices = {
      {"algorithm",
       {"ibatch", "forward-greedy", "backward-greedy", "exact", "default", "layer-wise", "given"},
       "How the batches are found"},
      {"side", {"pull", "push"}, "What is batched: pulls under the forward pass or pushes under the backward pass"},
  };
  question.answer = answer_batches;
  question.ignored = of_profile({"nodes", "bandwidth", "layers"});
  question.units = {{"execution_time", KeyType::kSeconds}, {"makespan", KeyType::kSeconds}};
  return question;
}

// ---- plan iteration

Result<Json> answer_iteration(const Json& input, const Json&) {
  PACELINE_RETURN_IF_ERROR(require_one(input, "nodes"));
  PACELINE_ASSIGN_OR_RETURN(const auto layers, layer_loads(input));
  const auto bound = cost::iteration_lower_bound(layers, input["nodes"].get<std::int64_t>(), {input["bandwidth"].get<double>()});
  return Json{
      {"lower_bound", bound.lower_bound}, {"computation", bound.computation}, {"transfer", bound.transfer}, {"tail", bound.tail}};
}

Question iteration() {
  Question question;
  question.name = "iteration";
  question.purpose =
      "The least time of one iteration that any schedule can reach: N nodes, each a worker and a server on one full-duplex link. "
      "It is the largest of computation, transfer (the model over one link) and tail (the first layers' gradients come last and "
      "are needed first). A replay table fits with --nodes and --bandwidth beside it.";
  question.keys = {
      {"nodes", KeyType::kCount, "number of nodes", true, Beside::kInput},
      {"bandwidth", KeyType::kRate, "rate of a node's link in each direction", true, Beside::kInput},
      layers_key(),
  };
  question.answer = answer_iteration;
  question.ignored = of_profile({"start_up", "transfer", "forward", "backward"});
  for (const char* key : {"lower_bound", "computation", "transfer", "tail"}) question.units[key] = KeyType::kSeconds;
  return question;
}

// ---- plan slice

Result<Json> answer_slice(const Json& input, const Json&) {
  PACELINE_RETURN_IF_ERROR(require_one(input, "nodes"));
  const Bytes slice = scheduling::best_slice({input["nodes"].get<std::int64_t>(),
                                              Bytes{input["bytes"].get<std::int64_t>()},
                                              input["alpha"].get<double>(),
                                              {input["bandwidth"].get<double>()}});
  return Json{{"slice_bytes", slice.count}};
}

Question slice() {
  Question question;
  question.name = "slice";
  question.purpose =
      "The slice size that balances start-up costs against the wait for a slice under way. It is "
      "sqrt(2(N-1)/N * bytes * alpha * bandwidth / 4), first clamped to 200000..8000000 bytes, then rounded to the nearest whole "
      "parameter (a multiple of 4). One node needs no slices: the upper limit.";
  question.keys = {
      {"nodes", KeyType::kCount, "number of nodes, each a worker and a server"},
      {"bytes", KeyType::kBytes, "size of the model"},
      {"alpha", KeyType::kSeconds, "start-up time of one message"},
      {"bandwidth", KeyType::kRate, "rate of a node's link"},
  };
  question.answer = answer_slice;
  return question;
}

}  // namespace

std::vector<Question> communication_questions() {
  return {batches(), iteration(), speedup_question(), slice(), collective_question()};
}

}  // namespace paceline::planner

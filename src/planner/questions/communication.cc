// `paceline plan batches | iteration | slice | collective`: questions about moving bytes.
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/ranges.h>

#include "base/text.h"
#include "base/wrong.h"
#include "collectives/plan/chain_order.h"
#include "collectives/plan/cost.h"
#include "collectives/plan/route.h"
#include "cost/lower_bound.h"
#include "planner/questions/question.h"
#include "scheduling/batching.h"
#include "scheduling/slice_size.h"

namespace paceline::planner {
namespace {

// What a profile or a replay table says beside what a question asks; `more`: what it says to other questions.
std::vector<std::string> of_profile(std::vector<std::string> more) {
  const std::vector<std::string> always = {"model",     "source", "mini_batch", "rounds",   "warm_up", "parameters",
                                           "compute_s", "step_s", "bytes",      "residual", "spread",  "link"};
  more.insert(more.end(), always.begin(), always.end());
  return more;
}

// ---- plan batches

Result<scheduling::BatchingProblem> batching_problem(const Json& input, const std::string& side) {
  const std::string compute = side == "pull" ? "forward" : "backward";
  if (!input.contains(compute)) return wrong_key(compute, " is missing; --side {} batches under the {} pass", side, compute);
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
  if (!input.contains("bounds")) return wrong_key("bounds", " is missing; --algorithm given judges the batching that it lists");
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
      "Which layers to pull (or push) together so that the transfer hides behind the forward (or backward) pass.\n"
      "ibatch: the better of forward-greedy and backward-greedy; exact: the least makespan, which training uses;\n"
      "default: all in one batch; layer-wise: each alone; given: judge the batching in 'bounds'.\n"
      "bounds: the last layer of each batch, ascending, layers numbered from 1 in forward order. With --side push the same:\n"
      "the last batch listed holds the last layers, is computed first by the backward pass and pushed first.";
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
  return question;
}

// ---- plan iteration

// The one of two keys that a layer has, as a number that has been checked already for sign and finiteness.
Result<double> either(const Json& layer, const std::string& where, const std::string& first, const std::string& second) {
  const bool both = layer.contains(first) && layer.contains(second);
  if (both) return wrong("{} has both '{}' and '{}'; give one", where, first, second);
  if (!layer.contains(first) && !layer.contains(second)) return wrong("{} has neither '{}' nor '{}'", where, first, second);
  const std::string& name = layer.contains(first) ? first : second;
  if (!layer[name].is_number()) return wrong("{}.{} is a {}; it must be a number", where, name, layer[name].type_name());
  return layer[name].get<double>();
}

Result<cost::LayerLoad> layer_load(const Json& layer, const std::string& where) {
  static const std::vector<std::string> kLegal = {"bytes",    "parameters", "forward", "forward_s",
                                                  "backward", "backward_s", "name",    "macs"};
  if (!layer.is_object()) return wrong("{} is a {}; it must be an object", where, layer.type_name());
  for (const auto& [name, value] : layer.items()) {
    if (std::find(kLegal.begin(), kLegal.end(), name) == kLegal.end()) {
      return wrong("{} has the unknown key '{}'{}; the keys are {}", where, name, suggestion(name, kLegal),
                   fmt::join(kLegal, ", "));
    }
  }
  constexpr double kMost = 2251799813685248;  // 2^51: four times as many bytes are still exact
  cost::LayerLoad load;
  PACELINE_ASSIGN_OR_RETURN(const double size, either(layer, where, "bytes", "parameters"));
  if (size != std::floor(size) || size > kMost) {
    return wrong("{}.{} is {}; it must be a whole number of at most 2^51", where, layer.contains("bytes") ? "bytes" : "parameters",
                 size);
  }
  load.size = Bytes{static_cast<std::int64_t>(size) * (layer.contains("bytes") ? 1 : 4)};
  PACELINE_ASSIGN_OR_RETURN(load.forward, either(layer, where, "forward", "forward_s"));
  PACELINE_ASSIGN_OR_RETURN(load.backward, either(layer, where, "backward", "backward_s"));
  return load;
}

Status require_nodes(const Json& input, const char* key) {
  if (input[key].get<std::int64_t>() >= 1) return {};
  return wrong_key(key, " is 0; at least 1 is needed");
}

Result<Json> answer_iteration(const Json& input, const Json&) {
  PACELINE_RETURN_IF_ERROR(require_nodes(input, "nodes"));
  const Json& listed = input["layers"];
  if (!listed.is_array()) return wrong_key("layers", " is a {}; it must be an array of objects", listed.type_name());
  if (listed.empty()) return wrong_key("layers", " is empty; at least one layer is needed");
  std::vector<cost::LayerLoad> layers;
  for (std::size_t i = 0; i < listed.size(); ++i) {
    PACELINE_ASSIGN_OR_RETURN(const auto load, layer_load(listed[i], fmt::format("key 'layers'[{}]", i)));
    layers.push_back(load);
  }
  const auto bound = cost::iteration_lower_bound(layers, input["nodes"].get<std::int64_t>(), {input["bandwidth"].get<double>()});
  return Json{
      {"lower_bound", bound.lower_bound}, {"computation", bound.computation}, {"transfer", bound.transfer}, {"tail", bound.tail}};
}

Question iteration() {
  Question question;
  question.name = "iteration";
  question.purpose =
      "The least time of one iteration that any schedule can reach: N nodes, each a worker and a server on one full-duplex link.\n"
      "lower_bound is the largest of computation, transfer (the model over one link) and tail (the first layers' gradients come\n"
      "last and are needed first). A replay table fits with --nodes and --bandwidth beside it.";
  question.keys = {
      {"nodes", KeyType::kCount, "number of nodes", true, Beside::kInput},
      {"bandwidth", KeyType::kRate, "rate of a node's link in each direction", true, Beside::kInput},
      {"layers", KeyType::kJson,
       "array, forward order: bytes (or parameters of 4 bytes), forward and backward (or forward_s and backward_s) in seconds; "
       "name"},
  };
  question.answer = answer_iteration;
  question.ignored = of_profile({"start_up", "transfer", "forward", "backward"});
  return question;
}

// ---- plan slice

Result<Json> answer_slice(const Json& input, const Json&) {
  PACELINE_RETURN_IF_ERROR(require_nodes(input, "nodes"));
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
      "The slice size that balances start-up costs against the wait for a slice under way:\n"
      "sqrt(2(N-1)/N * bytes * alpha * bandwidth / 4), first clamped to 200000..8000000 bytes, then rounded to the nearest whole\n"
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

// ---- plan collective

// More would take long to order, and no communicator measures the links of more (collectives/exec/link_measurement.h).
constexpr std::size_t kMostRatedRanks = 64;

// A link is as fast as the slower of its ends, in steps as measured links are (link_rates.h).
Result<collectives::LinkRates> link_rates(const Json& input, std::int64_t ranks) {
  const auto rates = input["rates"].get<std::vector<double>>();
  if (rates.size() > kMostRatedRanks)
    return wrong_key("rates", " has {} ranks; at most {} are legal", rates.size(), kMostRatedRanks);
  if (std::ssize(rates) != ranks)
    return wrong_key("rates", " has {} ranks and key 'ranks' is {}; give the rate of each rank", rates.size(), ranks);
  std::vector<double> times;
  for (const double from : rates) {
    for (const double to : rates) times.push_back(1 / std::min(from, to));
  }
  auto links = collectives::LinkRates::make(static_cast<int>(ranks), times);
  if (!links.ok()) return wrong_key("rates", ": {}", links.status().message());
  return links;
}

Result<double> seconds_per_byte(const Json& input) {
  if (input.contains("beta") == input.contains("rates"))
    return wrong_key("beta", " {}; give either the time of a byte or the 'rates' of all ranks",
                     input.contains("beta") ? "stands beside 'rates'" : "is missing");
  if (input.contains("beta")) return input["beta"].get<double>();
  const auto rates = input["rates"].get<std::vector<double>>();
  return rates.empty() ? 0 : 1 / *std::ranges::min_element(rates);
}

Result<int> root_of(const Json& input, collectives::Operation operation) {
  if (!input.contains("root")) return 0;
  if (operation == collectives::Operation::kAllreduce)
    return wrong_key("root", " is for broadcast and reduce; an allreduce has none");
  const auto root = input["root"].get<std::int64_t>(), ranks = input["ranks"].get<std::int64_t>();
  if (root >= ranks) return wrong_key("root", " is {}; legal: 0 to {}", root, ranks - 1);
  return static_cast<int>(std::min<std::int64_t>(root, std::numeric_limits<int>::max()));
}

Result<Json> answer_collective(const Json& input, const Json& choices) {
  using collectives::Operation;
  PACELINE_RETURN_IF_ERROR(require_nodes(input, "ranks"));
  collectives::CollectiveProblem problem;
  const std::string operation = choices["operation"];
  problem.operation = operation == "broadcast" ? Operation::kBroadcast
                      : operation == "reduce"  ? Operation::kReduce
                                               : Operation::kAllreduce;
  problem.ranks = input["ranks"].get<std::int64_t>();
  problem.size = Bytes{input["bytes"].get<std::int64_t>()};
  PACELINE_ASSIGN_OR_RETURN(const double beta, seconds_per_byte(input));
  problem.link = {input["alpha"].get<double>(), beta, input["gamma"].get<double>()};
  PACELINE_ASSIGN_OR_RETURN(const int root, root_of(input, problem.operation));
  std::optional<collectives::Route> route;
  if (input.contains("rates")) {
    PACELINE_ASSIGN_OR_RETURN(const auto links, link_rates(input, problem.ranks));
    if (links.differ()) route = collectives::route_of(problem.operation, root, links);
    if (route) problem.prices = &route->prices;
  }
  std::optional<Bytes> block;
  if (input.contains("block")) {
    block = Bytes{input["block"].get<std::int64_t>()};
    if (block->count == 0) return wrong_key("block", " is 0; at least 1 byte is needed");
  }

  const std::string wanted = choices["algorithm"];
  auto cost = collectives::cheapest(problem, block);
  for (const auto algorithm :
       {collectives::Algorithm::kLinearPipeline, collectives::Algorithm::kMinimumSpanningTree,
        collectives::Algorithm::kBidirectionalExchange, collectives::Algorithm::kRing, collectives::Algorithm::kDirect}) {
    if (wanted == collectives::to_string(algorithm)) cost = collectives::cost_of(problem, algorithm, block);
  }
  if (!cost.ok()) return cost.status();
  Json answer{{"algorithm", collectives::to_string(cost->algorithm)},
              {"block", cost->block ? Json(cost->block->count) : Json(nullptr)},
              {"seconds", cost->seconds},
              {"steps", cost->steps}};
  if (!input.contains("rates")) return answer;
  answer["order"] = nullptr;
  if (collectives::has_blocks(cost->algorithm)) {
    const bool own = !route || route->order.empty();
    answer["order"] = own ? collectives::own_order(problem.operation, static_cast<int>(problem.ranks), root) : route->order;
  }
  return answer;
}

Question collective() {
  Question question;
  question.name = "collective";
  question.purpose =
      "What a broadcast, reduce or allreduce costs when a message of n bytes takes alpha + beta*n seconds and reducing them\n"
      "gamma*n more, and which algorithm is cheapest. lp: linear pipeline; mst: minimum spanning tree; be: bidirectional "
      "exchange;\n"
      "ring and direct: allreduce only; best: the cheapest, the first in this order on ties.\n"
      "block is lp's; absent, the best one is taken, rounded to whole bytes. seconds: closed form with n/b; steps: with whole "
      "blocks.\n"
      "Where links differ, rates in place of beta says how fast each rank's is; then order is the chain of lp, which puts slow\n"
      "ranks where they delay the others least; a broadcast's begins and a reduce's ends with root. Rates are rounded to the\n"
      "fastest over a power of 1.25, as measured ones are, and differ when one is two steps below it.";
  question.keys = {
      {"ranks", KeyType::kCount, "number of ranks"},
      {"bytes", KeyType::kBytes, "size of the message"},
      {"alpha", KeyType::kSeconds, "start-up time of one message"},
      {"beta", KeyType::kSeconds, "time to send one byte; or give rates", false},
      {"rates", KeyType::kRates, "in place of beta: rate of each rank's link, at most 64", false},
      {"root", KeyType::kCount, "of broadcast and reduce, for the order of a chain; absent: 0", false},
      {"gamma", KeyType::kSeconds, "time to reduce one byte"},
      {"block", KeyType::kBytes, "block of the linear pipeline; absent: the best", false},
  };
  question.choices = {
      {"operation", {"broadcast", "reduce", "allreduce"}, "What is done"},
      {"algorithm", {"best", "lp", "mst", "be", "ring", "direct"}, "How"},
  };
  question.answer = answer_collective;
  return question;
}

}  // namespace

std::vector<Question> communication_questions() { return {batches(), iteration(), slice(), collective()}; }

}  // namespace paceline::planner

// `paceline plan collective`: what a broadcast, reduce or allreduce costs, and which algorithm is cheapest.
#include <algorithm>
#include <limits>

#include "base/wrong.h"
#include "collectives/plan/chain_order.h"
#include "collectives/plan/cost.h"
#include "collectives/plan/route.h"
#include "planner/questions/question.h"

namespace paceline::planner {
namespace {

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
  if (!input.contains("rates")) return wrong_key("root", " is for 'rates', which give an order; leave it out");
  const auto root = input["root"].get<std::int64_t>(), ranks = input["ranks"].get<std::int64_t>();
  if (root >= ranks) return wrong_key("root", " is {}; legal: 0 to {}", root, ranks - 1);
  return static_cast<int>(std::min<std::int64_t>(root, std::numeric_limits<int>::max()));
}

Result<Json> answer_collective(const Json& input, const Json& choices) {
  using collectives::Operation;
  PACELINE_RETURN_IF_ERROR(require_one(input, "ranks"));
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

}  // namespace

Question collective_question() {
  Question question;
  question.name = "collective";
  question.units = {{"block", KeyType::kBytes}, {"seconds", KeyType::kSeconds}};
  question.purpose =
      "What a broadcast, reduce or allreduce costs, and which algorithm is cheapest. A message of n bytes takes alpha + beta*n "
      "seconds, and reducing them gamma*n more. Lp: linear pipeline. Mst: minimum spanning tree. Be: bidirectional exchange. "
      "Ring and direct: allreduce only. Best: the cheapest, the first in this order on ties. Block is lp's. Absent, the best one "
      "is taken, rounded to whole bytes. Seconds: closed form with n/b. Steps: with whole blocks. "
      "Where links differ, rates in place of beta says how fast each rank's is. Then order is the chain of lp, which puts slow "
      "ranks where they delay the others least. A broadcast's begins and a reduce's ends with root. Rates are rounded to the "
      "fastest over a power of 1.25, as measured ones are. They differ when one is two steps below it.";
  question.keys = {
      {"ranks", KeyType::kCount, "number of ranks"},
      {"bytes", KeyType::kBytes, "size of the message"},
      {"alpha", KeyType::kSeconds, "start-up time of one message"},
      {"beta", KeyType::kSeconds, "time to send one byte; or give rates", false},
      {"rates", KeyType::kRates, "in place of beta: rate of each rank's link, at most 64", false},
      {"root", KeyType::kCount, "with rates, of broadcast and reduce: for the order of a chain; absent: 0", false},
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

}  // namespace paceline::planner

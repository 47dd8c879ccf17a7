#include "collectives/plan/cost.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <string>

namespace paceline::collectives {
namespace {

constexpr std::array<Algorithm, 5> kAll = {Algorithm::kLinearPipeline, Algorithm::kMinimumSpanningTree,
                                           Algorithm::kBidirectionalExchange, Algorithm::kRing, Algorithm::kDirect};

// Ranks, bytes and logarithm as the formulas use them.
struct Terms {
  explicit Terms(const CollectiveProblem& problem)
      : p(static_cast<double>(problem.ranks)),
        n(static_cast<double>(problem.size.count)),
        lg(static_cast<double>(doubling_rounds(problem.ranks))),
        alpha(problem.link.alpha),
        beta(problem.prices == nullptr ? problem.link.beta : 0),  // prices are added to a form that charges no bytes
        gamma(problem.link.gamma),
        filling(problem.fill * (p - 1)) {}
  double p, n, lg, alpha, beta, gamma;
  double filling;  // steps until a pipeline is full

  // Every byte but a rank's own part once: a reduce-scatter, a scatter, a gather or an allgather.
  double parts() const { return (p - 1) / p * n; }
};

double pipeline_seconds(Operation operation, const Terms& t, double block) {
  const double start_ups = t.filling + t.n / block;
  const double bytes = block * t.filling + t.n;
  switch (operation) {
    case Operation::kBroadcast:
      return start_ups * t.alpha + bytes * t.beta;
    case Operation::kReduce:
      return start_ups * t.alpha + bytes * (t.beta + t.gamma);
    case Operation::kAllreduce:
      return 2 * start_ups * t.alpha + bytes * (2 * t.beta + t.gamma);
    default:
      break;
  }
  PACELINE_CHECK(false, "unknown operation");
}

double tree_seconds(Operation operation, const Terms& t) {
  switch (operation) {
    case Operation::kBroadcast:
      return t.lg * (t.alpha + t.n * t.beta);
    case Operation::kReduce:
      return t.lg * (t.alpha + t.n * t.beta + t.n * t.gamma);
    case Operation::kAllreduce:
      return t.lg * (2 * t.alpha + 2 * t.n * t.beta + t.n * t.gamma);
    default:
      break;
  }
  PACELINE_CHECK(false, "unknown operation");
}

// Two phases that each move every part once, with so many messages in all; the reduction happens in the first.
double two_phases(const Terms& t, double messages, double gamma) {
  return messages * t.alpha + 2 * t.parts() * t.beta + t.parts() * gamma;
}

// One such phase.
double one_phase(Operation operation, const Terms& t, double messages) {
  return messages * t.alpha + t.parts() * (t.beta + (operation == Operation::kReduceScatter ? t.gamma : 0));
}

bool has_one_phase(Operation operation) { return operation == Operation::kReduceScatter || operation == Operation::kAllgather; }

double exchange_seconds(Operation operation, const Terms& t) {
  if (has_one_phase(operation)) return one_phase(operation, t, t.lg);
  if (operation == Operation::kBroadcast) return two_phases(t, t.lg + t.p - 1, 0);
  return two_phases(t, 2 * t.lg, t.gamma);
}

double seconds_of(Operation operation, Algorithm algorithm, const Terms& t, double block) {
  switch (algorithm) {
    case Algorithm::kLinearPipeline:
      return pipeline_seconds(operation, t, block);
    case Algorithm::kMinimumSpanningTree:
      return tree_seconds(operation, t);
    case Algorithm::kBidirectionalExchange:
      return exchange_seconds(operation, t);
    case Algorithm::kRing:
    case Algorithm::kDirect:
      return has_one_phase(operation) ? one_phase(operation, t, t.p - 1) : two_phases(t, 2 * (t.p - 1), t.gamma);
  }
  PACELINE_CHECK(false, "unknown algorithm");
}

// What the bytes cost where links differ.
double priced_seconds(const LinkPrices& prices, Algorithm algorithm, const Terms& t, double block, double fill) {
  if (has_blocks(algorithm)) return fill * block * prices.fill + t.n * prices.flow;
  return t.n * prices.per_byte[static_cast<std::size_t>(algorithm)];
}

std::int64_t steps_of(Operation operation, Algorithm algorithm, std::int64_t ranks, std::int64_t blocks) {
  const std::int64_t lg = doubling_rounds(ranks);
  switch (algorithm) {
    case Algorithm::kLinearPipeline:
      return pipeline_steps(operation, ranks, blocks);
    case Algorithm::kMinimumSpanningTree:
      return operation == Operation::kAllreduce ? 2 * lg : lg;
    case Algorithm::kBidirectionalExchange:
      if (operation == Operation::kBroadcast) return lg + ranks - 1;
      return has_one_phase(operation) ? lg : 2 * lg;
    case Algorithm::kRing:
    case Algorithm::kDirect:
      return has_one_phase(operation) ? ranks - 1 : 2 * (ranks - 1);
  }
  PACELINE_CHECK(false, "unknown algorithm");
}

}  // namespace

const char* to_string(Operation operation) {
  switch (operation) {
    case Operation::kBroadcast:
      return "broadcast";
    case Operation::kReduce:
      return "reduce";
    case Operation::kAllreduce:
      return "allreduce";
    case Operation::kReduceScatter:
      return "reduce-scatter";
    case Operation::kAllgather:
      return "allgather";
  }
  return "unknown";
}

const char* to_string(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kLinearPipeline:
      return "lp";
    case Algorithm::kMinimumSpanningTree:
      return "mst";
    case Algorithm::kBidirectionalExchange:
      return "be";
    case Algorithm::kRing:
      return "ring";
    case Algorithm::kDirect:
      return "direct";
  }
  return "unknown";
}

std::span<const Algorithm> algorithms_for(Operation operation) {
  const std::span<const Algorithm> all(kAll);
  switch (operation) {
    case Operation::kBroadcast:
    case Operation::kReduce:
      return all.first(3);
    case Operation::kAllreduce:
      return all;
    case Operation::kReduceScatter:
      return all.subspan(2);
    case Operation::kAllgather:
      return all.subspan(2, 2);
  }
  return {};
}

bool has_blocks(Algorithm algorithm) { return algorithm == Algorithm::kLinearPipeline; }

std::int64_t doubling_rounds(std::int64_t ranks) { return ranks <= 1 ? 0 : std::bit_width(static_cast<std::uint64_t>(ranks - 1)); }

std::int64_t pipeline_steps(Operation operation, std::int64_t ranks, std::int64_t blocks) {
  if (ranks <= 1 || blocks == 0) return 0;
  if (operation != Operation::kAllreduce) return blocks + ranks - 2;
  if (blocks == 1) return 2 * (ranks - 1);
  return ranks == 2 ? blocks + 1 : 2 * blocks + 2 * ranks - 5;
}

std::int64_t hops(Operation operation, Algorithm algorithm, std::int64_t ranks) {
  return ranks <= 1 ? 0 : steps_of(operation, algorithm, ranks, 1);
}

std::int64_t crowded_hops(Operation operation, Algorithm algorithm, std::int64_t ranks) {
  if (algorithm == Algorithm::kLinearPipeline || algorithm == Algorithm::kMinimumSpanningTree) return 0;
  // With a root an exchange is half a tree.
  const bool rooted = operation == Operation::kBroadcast || operation == Operation::kReduce;
  return hops(operation, algorithm, ranks) - (rooted ? doubling_rounds(ranks) : 0);
}

std::optional<Bytes> best_block(const CollectiveProblem& problem) {
  if (problem.size.count == 0) return std::nullopt;
  const Terms t(problem);
  double start_ups = t.alpha;
  double per_byte = t.beta;
  if (problem.operation == Operation::kReduce) per_byte = t.beta + t.gamma;
  if (problem.operation == Operation::kAllreduce) {
    start_ups = 2 * t.alpha;
    per_byte = 2 * t.beta + t.gamma;
  }
  double rest = t.filling * per_byte;  // what a byte of block costs
  if (problem.prices != nullptr) rest += problem.fill * problem.prices->fill;
  if (rest == 0) return problem.size;
  const double block = std::sqrt(t.n * start_ups / rest);
  return Bytes{std::llround(std::clamp(std::round(block), 1.0, t.n))};
}

Result<CollectiveCost> cost_of(const CollectiveProblem& problem, Algorithm algorithm, std::optional<Bytes> block) {
  if (problem.ranks < 1) return error(ErrorKind::kBadRequest, "ranks is {}; at least 1 is needed", problem.ranks);
  if (block && block->count < 1) return error(ErrorKind::kBadRequest, "block is {} bytes; at least 1 is needed", block->count);
  const auto legal = algorithms_for(problem.operation);
  if (std::find(legal.begin(), legal.end(), algorithm) == legal.end()) {
    std::string names;
    for (const Algorithm each : legal) names += std::string(names.empty() ? "" : ", ") + to_string(each);
    return error(ErrorKind::kBadRequest, "algorithm {} cannot {}; legal are {}", to_string(algorithm), to_string(problem.operation),
                 names);
  }
  CollectiveCost cost;
  cost.algorithm = algorithm;
  if (has_blocks(algorithm)) cost.block = block ? block : best_block(problem);
  if (problem.ranks == 1 || problem.size.count == 0) return cost;
  const std::int64_t size = problem.size.count;
  const std::int64_t blocks = cost.block ? size / cost.block->count + (size % cost.block->count > 0 ? 1 : 0) : 1;
  const Terms terms(problem);
  const double taken = cost.block ? static_cast<double>(cost.block->count) : 1;
  cost.seconds = seconds_of(problem.operation, algorithm, terms, taken);
  if (problem.prices != nullptr) cost.seconds += priced_seconds(*problem.prices, algorithm, terms, taken, problem.fill);
  const double waits = has_blocks(algorithm) ? problem.fill : 1;
  cost.seconds += problem.latency * waits * static_cast<double>(hops(problem.operation, algorithm, problem.ranks)) +
                  problem.crowding * static_cast<double>(crowded_hops(problem.operation, algorithm, problem.ranks));
  cost.steps = steps_of(problem.operation, algorithm, problem.ranks, blocks);
  return cost;
}

Result<CollectiveCost> cheapest(const CollectiveProblem& problem, std::optional<Bytes> block) {
  std::optional<CollectiveCost> best;
  for (const Algorithm algorithm : algorithms_for(problem.operation)) {
    PACELINE_ASSIGN_OR_RETURN(const CollectiveCost cost, cost_of(problem, algorithm, block));
    if (!best || cost.seconds < best->seconds) best = cost;
  }
  return *best;
}

}  // namespace paceline::collectives

#include "collectives/plan/plan.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "collectives/plan/rank_builder.h"

namespace paceline::collectives {
namespace {

// Where position 0 is. The linear pipeline's reduce ends at its last position, all others are rooted at the first.
Circle circle_of(const PlanRequest& request) {
  if (!request.order.empty()) return {request.ranks, 0, request.order};
  if (request.operation != Operation::kBroadcast && request.operation != Operation::kReduce) return {request.ranks, 0, {}};
  const bool root_is_last = request.algorithm == Algorithm::kLinearPipeline && request.operation == Operation::kReduce;
  return {request.ranks, root_is_last ? (request.root + 1) % request.ranks : request.root, {}};
}

void add_pipeline(RankBuilder& builder, const PlanRequest& request) {
  switch (request.operation) {
    case Operation::kBroadcast:
      pipeline_broadcast(builder, request, 0);
      break;
    case Operation::kReduce:
      pipeline_reduce(builder, request, 0);
      break;
    case Operation::kAllreduce:
      pipeline_allreduce(builder, request, 0);
      break;
    default:
      break;
  }
}

void add_trees(RankBuilder& builder, Operation operation) {
  std::int64_t round = 0;
  if (operation != Operation::kBroadcast) round = tree_reduce(builder, round);
  if (operation != Operation::kReduce) tree_broadcast(builder, round);
}

void add_exchange(RankBuilder& builder, Operation operation) {
  switch (operation) {
    case Operation::kBroadcast:
      ring_allgather(builder, tree_scatter(builder, 0));
      break;
    case Operation::kReduce:
      tree_gather(builder, circulant_reduce_scatter(builder, 0));
      break;
    case Operation::kAllreduce:
      circulant_allgather(builder, circulant_reduce_scatter(builder, 0));
      break;
    case Operation::kReduceScatter:
      circulant_reduce_scatter(builder, 0);
      break;
    case Operation::kAllgather:
      circulant_allgather(builder, 0);
      break;
  }
}

// Ring and direct differ only in how the parts are summed.
void add_ring(RankBuilder& builder, const PlanRequest& request) {
  std::int64_t round = 0;
  if (request.operation != Operation::kAllgather) {
    round = request.algorithm == Algorithm::kRing ? ring_reduce_scatter(builder, 0) : direct_reduce_scatter(builder, 0);
  }
  if (request.operation != Operation::kReduceScatter) ring_allgather(builder, round);
}

Status validate_order(const PlanRequest& request) {
  if (request.order.empty()) return {};
  if (!has_blocks(request.algorithm))
    return error(ErrorKind::kBadRequest, "{} has no chain; leave the order of ranks out", to_string(request.algorithm));
  std::vector<int> sorted = request.order;
  std::sort(sorted.begin(), sorted.end());
  bool all = sorted.size() == static_cast<std::size_t>(request.ranks);
  for (std::size_t i = 0; all && i < sorted.size(); ++i) all = sorted[i] == static_cast<int>(i);
  if (!all)
    return error(ErrorKind::kBadRequest, "the order {} does not name each of {} ranks once", fmt::join(request.order, " "),
                 request.ranks);
  const bool from = request.operation == Operation::kBroadcast, to = request.operation == Operation::kReduce;
  if ((from && request.order.front() != request.root) || (to && request.order.back() != request.root)) {
    return error(ErrorKind::kBadRequest, "the order {} does not {} with the root, {}", fmt::join(request.order, " "),
                 from ? "begin" : "end", request.root);
  }
  return {};
}

}  // namespace

Range part_of(std::int64_t elements, int ranks, int rank) {
  const std::int64_t size = elements / ranks;
  const std::int64_t larger = elements % ranks;
  return {rank * size + std::min<std::int64_t>(rank, larger), size + (rank < larger ? 1 : 0)};
}

bool overlap(const Range& a, const Range& b) {
  return a.count > 0 && b.count > 0 && a.first < b.first + b.count && b.first < a.first + a.count;
}

bool overlap(const Place& a, const Place& b) {
  if (a.memory != b.memory) return false;
  return overlap(a.range, b.range) || overlap(a.range, b.wrapped) || overlap(a.wrapped, b.range) || overlap(a.wrapped, b.wrapped);
}

Status validate(const PlanRequest& request) {
  if (request.elements < 0) return error(ErrorKind::kBadRequest, "elements is {}; it must not be negative", request.elements);
  if (request.block < 1) return error(ErrorKind::kBadRequest, "block is {}; at least 1 element is needed", request.block);
  // Whether the operation has the algorithm, and the number of ranks, is the cost model's to say.
  PACELINE_RETURN_IF_ERROR(cost_of({request.operation, request.ranks, Bytes{request.elements}, {}}, request.algorithm).status());
  if (request.root < 0 || request.root >= request.ranks) {
    return error(ErrorKind::kBadRequest, "root is {}; it must be a rank from 0 to {}", request.root, request.ranks - 1);
  }
  return validate_order(request);
}

std::int64_t rounds_of(const PlanRequest& request) {
  const auto cost =
      cost_of({request.operation, request.ranks, Bytes{request.elements}, {}}, request.algorithm, Bytes{request.block});
  return cost.value().steps;
}

bool waits_for_all(const PlanRequest& request) {
  if (request.operation == Operation::kBroadcast || request.operation == Operation::kReduce) return false;
  // These move the message as a whole, down from where all of it has been.
  const bool whole = request.algorithm == Algorithm::kLinearPipeline || request.algorithm == Algorithm::kMinimumSpanningTree;
  return request.elements >= (whole ? 1 : request.ranks);
}

RankPlan plan_of_rank(const PlanRequest& request, int rank) {
  PACELINE_CHECK(validate(request).ok(), "{}", validate(request).message());
  PACELINE_CHECK(rank >= 0 && rank < request.ranks, "rank {} of {}", rank, request.ranks);
  RankBuilder builder(request, circle_of(request), rank);
  if (request.ranks == 1 || request.elements == 0) return builder.take();
  switch (request.algorithm) {
    case Algorithm::kLinearPipeline:
      add_pipeline(builder, request);
      break;
    case Algorithm::kMinimumSpanningTree:
      add_trees(builder, request.operation);
      break;
    case Algorithm::kBidirectionalExchange:
      add_exchange(builder, request.operation);
      break;
    case Algorithm::kRing:
    case Algorithm::kDirect:
      add_ring(builder, request);
      break;
  }
  return builder.take();
}

Result<CollectivePlan> make_plan(const PlanRequest& request) {
  PACELINE_RETURN_IF_ERROR(validate(request));
  CollectivePlan plan{request, rounds_of(request), {}};
  for (int rank = 0; rank < request.ranks; ++rank) plan.ranks.push_back(plan_of_rank(request, rank));
  return plan;
}

}  // namespace paceline::collectives

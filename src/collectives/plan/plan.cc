#include "collectives/plan/plan.h"

#include "collectives/plan/rank_builder.h"

namespace paceline::collectives {
namespace {

// Where position 0 is. The linear pipeline's reduce ends at its last position, all others are rooted at the first.
Circle circle_of(const PlanRequest& request) {
  if (request.operation == Operation::kAllreduce) return {request.ranks, 0};
  const bool root_is_last = request.algorithm == Algorithm::kLinearPipeline && request.operation == Operation::kReduce;
  return {request.ranks, root_is_last ? (request.root + 1) % request.ranks : request.root};
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
  }
}

}  // namespace

Status validate(const PlanRequest& request) {
  if (request.elements < 0) return error(ErrorKind::kBadRequest, "elements is {}; it must not be negative", request.elements);
  if (request.block < 1) return error(ErrorKind::kBadRequest, "block is {}; at least 1 element is needed", request.block);
  // Whether the operation has the algorithm, and the number of ranks, is the cost model's to say.
  PACELINE_RETURN_IF_ERROR(cost_of({request.operation, request.ranks, Bytes{request.elements}, {}}, request.algorithm).status());
  if (request.root < 0 || request.root >= request.ranks) {
    return error(ErrorKind::kBadRequest, "root is {}; it must be a rank from 0 to {}", request.root, request.ranks - 1);
  }
  return {};
}

std::int64_t rounds_of(const PlanRequest& request) {
  const auto cost =
      cost_of({request.operation, request.ranks, Bytes{request.elements}, {}}, request.algorithm, Bytes{request.block});
  return cost.value().steps;
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
      ring_allgather(builder, ring_reduce_scatter(builder, 0));
      break;
    case Algorithm::kDirect:
      ring_allgather(builder, direct_reduce_scatter(builder, 0));
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

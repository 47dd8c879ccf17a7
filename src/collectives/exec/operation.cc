#include "collectives/exec/operation.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include <fmt/ranges.h>

namespace paceline::collectives {

namespace {

bool begins_at_root(CollectiveKind kind) { return kind == CollectiveKind::kBroadcast || kind == CollectiveKind::kScatter; }

std::int64_t sum_of(const std::vector<std::int64_t>& lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
}

std::vector<std::int64_t> lengths(const Group& group, std::int64_t each) {
  return std::vector<std::int64_t>(static_cast<std::size_t>(group.size()), each);
}

// What goes from whom to whom.
ExchangeRequest exchange_of(const Group& group, const Call& call, Agreement agreement) {
  ExchangeRequest request{.rank = group.self, .gives = call.gives, .takes = call.takes, .agreement = agreement};
  if (call.kind == CollectiveKind::kAlltoall) return request;
  const auto root = static_cast<std::size_t>(call.root);
  const bool is_root = call.root == group.self;
  auto& of_root = call.kind == CollectiveKind::kGather ? request.takes : request.gives;
  auto& to_root = call.kind == CollectiveKind::kGather ? request.gives : request.takes;
  of_root = lengths(group, is_root ? call.count : 0);
  to_root = lengths(group, 0);
  to_root[root] = call.count;
  request.among = ExchangeRequest::Among::kSome;
  return request;
}

CollectiveProblem problem_of(const Group& group, const Call& call, const Rules& rules, const Route* route) {
  return {operation_of(call.kind),
          group.size(),
          Bytes{call.count * static_cast<std::int64_t>(moved(call.dtype).size)},
          rules.link,
          route == nullptr ? nullptr : &route->prices,
          rules.latency,
          rules.crowding};
}

// Seconds of the closed form that ring and direct do not take, because they are cut into segments: all but the last segment of each
// part is added while the next one arrives. The exchange adds a whole part only when it is there.
double hidden_seconds(const CollectiveProblem& problem, Algorithm algorithm, Bytes segment) {
  const bool adds = problem.operation == Operation::kAllreduce || problem.operation == Operation::kReduceScatter;
  const bool cut = algorithm == Algorithm::kRing || algorithm == Algorithm::kDirect;
  if (!adds || !cut || problem.link.gamma > problem.link.beta) return 0;
  const double part = static_cast<double>(problem.size.count) / static_cast<double>(problem.ranks);
  const double exposed = std::min(part, static_cast<double>(segment.count));
  return static_cast<double>(problem.ranks - 1) * (part - exposed) * problem.link.gamma;
}

std::int64_t elements_in(Bytes bytes, tensor::DType dtype) {
  return std::max<std::int64_t>(1, bytes.count / static_cast<std::int64_t>(moved(dtype).size));
}

}  // namespace

const char* to_string(ReductionKind reduction) {
  switch (reduction) {
    case ReductionKind::kSum:
      return "sum";
    case ReductionKind::kMax:
      return "max";
    case ReductionKind::kMin:
      return "min";
    case ReductionKind::kMean:
      return "mean";
  }
  return "unknown";
}

const char* to_string(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kBarrier:
      return "barrier";
    case CollectiveKind::kAlltoall:
      return "all-to-all";
    case CollectiveKind::kGather:
      return "gather";
    case CollectiveKind::kScatter:
      return "scatter";
    default:
      return to_string(operation_of(kind));
  }
}

std::string Choice::text() const {
  if (!algorithm) return why.empty() ? "nothing to move" : why;
  std::string text = to_string(*algorithm);
  if (block) text += fmt::format(" with blocks of {} bytes", block->count);
  if (!order.empty()) text += fmt::format(" along ranks {} ({})", fmt::join(order, " "), why);
  if (clipped) text += " (all of the message; the block that was asked for is larger)";
  if (raised) text += fmt::format(" (smaller ones would be more than {})", kMostBlocks);
  return text;
}

std::vector<Algorithm> legal_algorithms(Operation operation, SumOrder order, std::int32_t ranks, int root,
                                        ReductionKind reduction) {
  std::vector<Algorithm> legal;
  for (const Algorithm algorithm : algorithms_for(operation)) {
    const bool adds = operation != Operation::kBroadcast && operation != Operation::kAllgather &&
                      (reduction == ReductionKind::kSum || reduction == ReductionKind::kMean);
    bool in_rank_order = algorithm == Algorithm::kDirect || algorithm == Algorithm::kLinearPipeline;
    if (operation == Operation::kReduce) in_rank_order = in_rank_order && root == ranks - 1;
    if (order == SumOrder::kAny || !adds || ranks <= 2 || in_rank_order) legal.push_back(algorithm);
  }
  return legal;
}

bool reduces(CollectiveKind kind) {
  return kind == CollectiveKind::kReduce || kind == CollectiveKind::kAllreduce || kind == CollectiveKind::kReduceScatter;
}

Operation operation_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kBroadcast:
      return Operation::kBroadcast;
    case CollectiveKind::kReduce:
      return Operation::kReduce;
    case CollectiveKind::kReduceScatter:
      return Operation::kReduceScatter;
    case CollectiveKind::kAllgather:
      return Operation::kAllgather;
    case CollectiveKind::kAllreduce:
    case CollectiveKind::kBarrier:
    case CollectiveKind::kAlltoall:
    case CollectiveKind::kGather:
    case CollectiveKind::kScatter:
      break;
  }
  return Operation::kAllreduce;
}

bool is_exchange(CollectiveKind kind) {
  return kind == CollectiveKind::kAlltoall || kind == CollectiveKind::kGather || kind == CollectiveKind::kScatter;
}

bool is_rooted(CollectiveKind kind) {
  return kind == CollectiveKind::kBroadcast || kind == CollectiveKind::kReduce || kind == CollectiveKind::kGather ||
         kind == CollectiveKind::kScatter;
}

Extents extents_of(const Group& group, const Call& call) {
  const std::int64_t part = part_of(call.count, group.size(), group.self).count;
  const bool is_root = call.root == group.self;
  switch (call.kind) {
    case CollectiveKind::kBroadcast:
      return {0, call.count};
    case CollectiveKind::kReduce:
      return {call.count, is_root ? call.count : 0};
    case CollectiveKind::kAllreduce:
      return {call.count, call.count};
    case CollectiveKind::kReduceScatter:
      return {call.count, part};
    case CollectiveKind::kAllgather:
      return {part, call.count};
    case CollectiveKind::kAlltoall:
      return {sum_of(call.gives), sum_of(call.takes)};
    case CollectiveKind::kGather:
      return {call.count, is_root ? call.count * group.size() : 0};
    case CollectiveKind::kScatter:
      return {is_root ? call.count * group.size() : 0, call.count};
    case CollectiveKind::kBarrier:
      break;
  }
  return {};
}

// Where one buffer stands in the other when the call is in place.
static std::int64_t in_place_offset(const Group& group, const Call& call) {
  return part_of(call.count, group.size(), group.self).first * static_cast<std::int64_t>(moved(call.dtype).size);
}

bool is_in_place(const Group& group, const Call& call) {
  const auto* input = static_cast<const std::byte*>(call.input);
  const auto* output = static_cast<const std::byte*>(call.output);
  if (input == nullptr || output == nullptr || is_exchange(call.kind)) return false;
  if (call.kind == CollectiveKind::kReduceScatter) return output == input + in_place_offset(group, call);
  if (call.kind == CollectiveKind::kAllgather) return input == output + in_place_offset(group, call);
  return input == output;
}

int Group::place_of(Rank rank) const {
  const auto found = std::ranges::lower_bound(ranks, rank);
  return found != ranks.end() && *found == rank ? static_cast<int>(found - ranks.begin()) : -1;
}

Choice choose(const Group& group, const Call& call, const Rules& rules, const Route* route) {
  if (is_exchange(call.kind)) return {.why = "every part straight to who takes it, all at once"};
  if (group.size() == 1 || call.count == 0) return {};
  const CollectiveProblem problem = problem_of(group, call, rules, route);
  std::optional<Bytes> block = call.block;
  Choice choice;
  if (block && *block > problem.size) {
    block = problem.size;
    choice.clipped = true;
  }
  std::optional<CollectiveCost> best;
  for (const Algorithm algorithm : legal_algorithms(problem.operation, rules.order, group.size(), call.root, call.reduction)) {
    if (call.algorithm && *call.algorithm != algorithm) continue;
    CollectiveCost cost = cost_of(problem, algorithm, block).value();
    cost.seconds -= hidden_seconds(problem, algorithm, rules.segment);
    if (!best || cost.seconds < best->seconds) best = cost;
  }
  choice.algorithm = best->algorithm;
  choice.block = best->block;
  const Bytes least{(problem.size.count + kMostBlocks - 1) / kMostBlocks};
  if (choice.block && *choice.block < least) {
    choice.block = least;
    choice.raised = true;
  }
  choice.clipped = choice.clipped && has_blocks(best->algorithm);
  choice.seconds = best->seconds;
  if (rules.expected) {
    CollectiveProblem expected = problem;
    expected.link = rules.expected->link;
    expected.fill = rules.expected->fill;
    choice.seconds =
        cost_of(expected, best->algorithm, choice.block).value().seconds - hidden_seconds(expected, best->algorithm, rules.segment);
  }
  if (route != nullptr && has_blocks(best->algorithm) && !route->order.empty()) {
    choice.order = route->order;
    choice.why = route->why;
  }
  return choice;
}

wire::CollectiveHead head_of(const Group& group, const Call& call, const Choice& choice, std::uint32_t number) {
  wire::CollectiveHead head;
  head.kind = call.kind;
  head.group = group.id;
  head.number = number;
  if (call.kind == CollectiveKind::kBarrier) return head;
  head.dtype = static_cast<std::uint8_t>(call.dtype);
  head.count = call.count;
  if (!is_exchange(call.kind)) head.algorithm = static_cast<std::uint8_t>(choice.algorithm.value_or(Algorithm::kLinearPipeline));
  if (reduces(call.kind)) head.reduction = static_cast<std::uint8_t>(call.reduction);
  if (is_rooted(call.kind)) head.root = call.root;
  return head;
}

std::string describe(const wire::CollectiveHead& head) {
  if (head.kind == CollectiveKind::kBarrier) return "barrier";
  std::string text = to_string(head.kind);
  if (reduces(head.kind)) text += fmt::format(" ({})", to_string(static_cast<ReductionKind>(head.reduction)));
  const char* const elements = moved(static_cast<tensor::DType>(head.dtype)).name;
  if (head.kind == CollectiveKind::kAlltoall) return text + fmt::format(" of {}", elements);
  text += fmt::format(" of {} {}", head.count, elements);
  if (is_rooted(head.kind)) text += fmt::format(" {} rank {}", begins_at_root(head.kind) ? "from" : "to", head.root);
  if (head.count > 0 && !is_exchange(head.kind)) text += fmt::format(" by {}", to_string(static_cast<Algorithm>(head.algorithm)));
  return text;
}

// --- CallPlanner ---

// Null where links are alike or sums are taken in rank order.
const Route* CallPlanner::route_of(const Call& call) {
  if (rules_.links == nullptr || rules_.order == SumOrder::kRank || call.kind == CollectiveKind::kBarrier || is_exchange(call.kind))
    return nullptr;
  const Operation operation = operation_of(call.kind);
  const int root = is_rooted(call.kind) ? call.root : 0;
  const auto found = routes_.find({operation, root});
  if (found != routes_.end()) return &found->second;
  std::vector<int> ranks;
  for (const Rank rank : group_->ranks) ranks.push_back(rank.value);
  Route route = collectives::route_of(operation, root, rules_.links->between(ranks));
  return &routes_.emplace(std::pair(operation, root), std::move(route)).first->second;
}

std::shared_ptr<const Program> CallPlanner::program_of(const Call& call, const Choice& choice) {
  if (is_exchange(call.kind)) return std::make_shared<const Program>(compile(exchange_of(*group_, call, rules_.agreement)));
  ProgramRequest request;
  request.rank = group_->self;
  request.agreement = call.kind == CollectiveKind::kBarrier ? Agreement::kBeforeCompletion : rules_.agreement;
  request.segment = elements_in(rules_.segment, call.dtype);
  const Algorithm algorithm = choice.algorithm.value_or(algorithms_for(operation_of(call.kind)).front());
  const std::int64_t count = call.kind == CollectiveKind::kBarrier ? 0 : call.count;
  request.plan = {operation_of(call.kind),
                  algorithm,
                  group_->size(),
                  count,
                  choice.block ? elements_in(*choice.block, call.dtype) : 1,
                  is_rooted(call.kind) ? call.root : 0,
                  choice.order};
  const Key key{call.kind, algorithm, call.dtype, count, request.plan.block, request.plan.root};
  if (const auto found = programs_.find(key); found != programs_.end()) return found->second;
  if (programs_.size() >= kMostPrograms) programs_.clear();
  return programs_.emplace(key, std::make_shared<const Program>(compile(request))).first->second;
}

Job CallPlanner::prepare(const Call& call, const Choice& choice, std::uint32_t number) {
  Job job;
  job.head = head_of(*group_, call, choice, number);
  job.group = group_;
  job.program = program_of(call, choice);
  job.priority = call.priority;
  job.dtype = call.dtype;
  if (call.reduction == ReductionKind::kMax) job.reduction = tensor::Reduction::kMax;
  if (call.reduction == ReductionKind::kMin) job.reduction = tensor::Reduction::kMin;
  const Extents extents = extents_of(*group_, call);
  const auto size = static_cast<std::int64_t>(moved(call.dtype).size);
  const bool in_place = is_in_place(*group_, call) || call.kind == CollectiveKind::kBroadcast;
  const Range part = part_of(call.count, group_->size(), group_->self);
  const auto input_bytes = static_cast<std::size_t>(extents.input * size);
  auto* const output = static_cast<std::byte*>(call.output);
  job.result = {0, extents.output};
  if (is_exchange(call.kind)) {
    job.buffer = output;
    job.input = static_cast<const std::byte*>(call.input);
    return job;
  }

  if (call.kind == CollectiveKind::kReduceScatter) {
    job.result = part;
    if (in_place) {
      job.buffer = output - part.first * size;
    } else {
      job.own.reset(new std::byte[input_bytes]);
      job.copy_to = output;
    }
  } else if (call.kind == CollectiveKind::kReduce && extents.output == 0 && !in_place) {
    job.own.reset(new std::byte[input_bytes]);
  } else {
    job.buffer = output;
  }
  if (job.own != nullptr) job.buffer = job.own.get();
  if (!in_place && input_bytes > 0) {
    const std::int64_t offset = call.kind == CollectiveKind::kAllgather ? part.first * size : 0;
    std::memcpy(job.buffer + offset, call.input, input_bytes);
  }
  if (reduces(call.kind) && call.reduction == ReductionKind::kMean) job.scale = 1.0 / static_cast<double>(group_->size());
  return job;
}

}  // namespace paceline::collectives

// What a collective costs in the linear model of a link (Linear Pipeline, section 3.2), and which
// algorithm is the cheapest. Pure; free to call from anywhere.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/quantity.h"
#include "base/status.h"
#include "cost/link_cost.h"

namespace paceline::collectives {

// Until links are measured: 1 Gb/s.
inline constexpr cost::LinkCost kUnmeasuredLink{50e-6, 8.5e-9, 1e-10};

// Reduce-scatter and allgather: part i of the message (plan.h, part_of) ends at, or comes from, rank i.
enum class Operation { kBroadcast, kReduce, kAllreduce, kReduceScatter, kAllgather };

// In the order in which ties are decided.
enum class Algorithm {
  kLinearPipeline,         // blocks along a chain of ranks; allreduce reduces up the chain and sends results back down meanwhile
  kMinimumSpanningTree,    // binomial tree
  kBidirectionalExchange,  // recursive halving and doubling
  kRing,                   // reduce-scatter, allgather around a ring; allreduce: one after the other
  kDirect,                 // reduce-scatter in which each rank sums its part in rank order; allreduce: then an allgather
};

const char* to_string(Operation operation);  // "broadcast"
const char* to_string(Algorithm algorithm);  // "lp"

// The algorithms that an operation can run with, in the order above.
std::span<const Algorithm> algorithms_for(Operation operation);
bool has_blocks(Algorithm algorithm);  // the linear pipeline

// What bytes cost where the links between ranks differ, instead of the closed forms' terms with beta; start-ups and reductions stay
// (route.h works it out). With links that are alike: fill = (p-1) beta and flow = beta, twice that for an allreduce.
struct LinkPrices {
  double flow = 0;                   // linear pipeline: seconds for each byte of the message,
  double fill = 0;                   // and for each byte of a block
  std::array<double, 5> per_byte{};  // the others, by Algorithm: seconds for each byte of the message
};

struct CollectiveProblem {
  Operation operation = Operation::kAllreduce;
  std::int64_t ranks = 1;  // >= 1
  Bytes size;              // of the whole message
  cost::LinkCost link;
  const LinkPrices* prices = nullptr;  // where links differ; link.beta does not count then
  // Seconds by which a message takes longer than alpha to set off the next one: a receiver that sleeps is woken. Counts once for
  // each of `hops`, whereas the blocks of a pipeline come while their receivers are awake.
  double latency = 0;
  // What it takes on top when every rank sends and receives at the same time, as the ranks of an exchange do: each then has two
  // messages to see to, and ranks that share processors wait for each other. Counts once for each of `crowded_hops`.
  double crowding = 0;
  // The share of what it takes until a pipeline's first block has come to the end of the chain that makes the operation longer;
  // 0..1. Less than 1 where links may catch up after they were idle, as behind a token bucket: while a rank waits for the first
  // block, its link saves what it needs to send the others faster.
  double fill = 1;
};

struct CollectiveCost {
  Algorithm algorithm = Algorithm::kLinearPipeline;
  std::optional<Bytes> block;  // nothing where the algorithm has none, or the message no bytes and no block was asked for
  double seconds = 0;          // closed form, with n/b blocks; the logarithm is rounded up for ranks that are no power of two
  std::int64_t steps = 0;      // messages one after another on the longest path, with whole blocks
};

// The block that makes the linear pipeline fastest, rounded to whole bytes within 1..size. Where it makes no difference, the whole
// message. Nothing for an empty message.
std::optional<Bytes> best_block(const CollectiveProblem& problem);

// With `block` absent the best one is taken. A given block enters the closed form as it is, also where it exceeds the message.
// kBadRequest: the algorithm is not one of algorithms_for(operation); no rank; a block of no bytes.
Result<CollectiveCost> cost_of(const CollectiveProblem& problem, Algorithm algorithm, std::optional<Bytes> block = std::nullopt);

// The cheapest; the first in the order of Algorithm on ties.
Result<CollectiveCost> cheapest(const CollectiveProblem& problem, std::optional<Bytes> block = std::nullopt);

// Block steps of the linear pipeline.
std::int64_t pipeline_steps(Operation operation, std::int64_t ranks, std::int64_t blocks);

// Messages of which each is sent because the one before has arrived: those of a pipeline's first block, one for each round of the
// others.
std::int64_t hops(Operation operation, Algorithm algorithm, std::int64_t ranks);

// Those of them in rounds in which every rank sends and receives.
std::int64_t crowded_hops(Operation operation, Algorithm algorithm, std::int64_t ranks);

// The number of rounds in which a message doubles its way to all ranks: log2(ranks), rounded up.
std::int64_t doubling_rounds(std::int64_t ranks);

}  // namespace paceline::collectives

// How long an iteration takes with other ways to train in parallel, for comparison: simple models of published systems, without
// the time of their own processors, so that they look better rather than worse than they are. Pure; free to call from anywhere.
#pragma once

#include <cstdint>
#include <span>

#include "base/quantity.h"
#include "cost/lower_bound.h"

namespace paceline::cost {

struct RivalLink {
  BytesPerSecond rate;  // of each node's full-duplex link, each way; above zero
  double start_up = 0;  // seconds for each message, not negative
};

// Allreduce of buckets under backward, as PyTorch's DistributedDataParallel: layers fill buckets from the last one down, a bucket
// leaves when its last gradient is there and the one before it is through, around a ring; the forward pass begins when all are
// through (Li et al., VLDB 2020, section 3.2). Seconds; `nodes` >= 1.
inline constexpr Bytes kBucket{25 << 20}, kFirstBucket{1 << 20};
double bucketed_allreduce(std::span<const LayerLoad> layers, std::int64_t nodes, const RivalLink& link);

// Reduce-scatter under backward and all-gather under forward, whole layers, as the best sharded trainers do (FSDP, Megatron): a
// layer's shards are reduced when its gradient is there and the one before it is through; when all are, values are gathered in the
// forward pass's order, and a layer computes when its own are there. Seconds in the steady state; `nodes` >= 1.
double split_allreduce(std::span<const LayerLoad> layers, std::int64_t nodes, const RivalLink& link);

}  // namespace paceline::cost

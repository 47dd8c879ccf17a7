// The bound that every schedule is judged by: no schedule that moves the full gradients through N nodes, each a worker and a
// server, finishes an iteration earlier. Pure; free to call from anywhere.
#pragma once

#include <cstdint>
#include <span>

#include "base/quantity.h"

namespace paceline::cost {

// One layer of the forward order. Times in seconds, not negative.
struct LayerLoad {
  Bytes size;
  double forward = 0;
  double backward = 0;
};

// All in seconds.
struct LowerBound {
  double lower_bound = 0;  // the largest of the three below
  double computation = 0;  // sum of all forward and backward times
  double transfer = 0;     // 2(N-1)/N of the model over one node's link
  double tail = 0;         // the first layers' gradients come last and are needed first: max over l of the computation of
                           // layers l..L plus the transfer of layers 1..l
};

// `nodes` >= 1; `link` above zero, in each direction of a node's full-duplex link. No layers: all zero. O(layers).
LowerBound iteration_lower_bound(std::span<const LayerLoad> layers, std::int64_t nodes, BytesPerSecond link);

// The share of the model's bytes that one node sends (and receives) per iteration when gradients are pushed and values come back:
// 2(N-1)/N; a node's own shard needs no link.
double traffic_share(std::int64_t nodes);

}  // namespace paceline::cost

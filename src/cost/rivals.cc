#include "cost/rivals.h"

#include <algorithm>
#include <ranges>

namespace paceline::cost {
namespace {

double sum(std::span<const LayerLoad> layers, double LayerLoad::*field) {
  double total = 0;
  for (const LayerLoad& layer : layers) total += layer.*field;
  return total;
}

// One way around the ring: every node sends all but its own part.
double around(Bytes size, std::int64_t nodes, const RivalLink& link) {
  const auto others = static_cast<double>(nodes - 1);
  return others / static_cast<double>(nodes) * static_cast<double>(size.count) / link.rate.value + others * link.start_up;
}

}  // namespace

double bucketed_allreduce(std::span<const LayerLoad> layers, std::int64_t nodes, const RivalLink& link) {
  double computed = sum(layers, &LayerLoad::forward), through = 0;
  Bytes filled, limit = kFirstBucket;
  const auto send = [&] {
    if (filled.count == 0 || nodes < 2) return;
    through = std::max(through, computed) + 2 * around(filled, nodes, link);
    filled = Bytes{};
    limit = kBucket;
  };
  for (const LayerLoad& layer : layers | std::views::reverse) {
    computed += layer.backward;
    filled += layer.size;
    if (filled >= limit) send();
  }
  send();
  return std::max(computed, through);
}

double split_allreduce(std::span<const LayerLoad> layers, std::int64_t nodes, const RivalLink& link) {
  const auto move = [&](const LayerLoad& layer) {
    return nodes < 2 || layer.size.count == 0 ? 0 : around(layer.size, nodes, link);
  };
  double backward = 0, through = 0;
  for (const LayerLoad& layer : layers | std::views::reverse) {
    backward += layer.backward;
    if (const double time = move(layer); time > 0) through = std::max(through, backward) + time;
  }
  const double reduced = std::max(backward, through);
  double gathered = reduced, forward = reduced;
  for (const LayerLoad& layer : layers) {
    gathered += move(layer);
    forward = std::max(forward, gathered) + layer.forward;
  }
  return forward;
}

}  // namespace paceline::cost

#include "cost/lower_bound.h"

#include <algorithm>

#include "base/check.h"

namespace paceline::cost {

double traffic_share(std::int64_t nodes) {
  PACELINE_CHECK(nodes >= 1, "{} nodes", nodes);
  return 2.0 * static_cast<double>(nodes - 1) / static_cast<double>(nodes);
}

LowerBound iteration_lower_bound(std::span<const LayerLoad> layers, std::int64_t nodes, BytesPerSecond link) {
  PACELINE_CHECK(link.value > 0, "a link of {} bytes/s", link.value);
  const double share = traffic_share(nodes);
  const auto transfer_of = [&](double bytes) { return share * bytes / link.value; };

  LowerBound bound;
  double total = 0;
  for (const LayerLoad& layer : layers) total += static_cast<double>(layer.size.count);
  bound.transfer = transfer_of(total);
  // From the last layer down, so that the computation of layers l..L is a running sum; the bytes of layers 1..l are what is left.
  double left = total;
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    bound.computation += layer->forward + layer->backward;
    bound.tail = std::max(bound.tail, bound.computation + transfer_of(left));
    left -= static_cast<double>(layer->size.count);
  }
  bound.lower_bound = std::max({bound.computation, bound.transfer, bound.tail});
  return bound;
}

}  // namespace paceline::cost

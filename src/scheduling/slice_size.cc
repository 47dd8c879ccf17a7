#include "scheduling/slice_size.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "cost/lower_bound.h"

namespace paceline::scheduling {

Bytes best_slice(const SliceCosts& costs, const SliceLimits& limits) {
  PACELINE_CHECK(costs.nodes >= 1 && costs.start_up >= 0 && costs.link.value > 0, "{} nodes, start-up {} s, link {} bytes/s",
                 costs.nodes, costs.start_up, costs.link.value);
  double bytes = static_cast<double>(limits.largest.count);
  if (costs.nodes > 1) {
    // Two roots and a limit, because the products of a large model, a long start-up and a fast link may exceed a double's range.
    const double model = cost::traffic_share(costs.nodes) * static_cast<double>(costs.model.count);
    const double reached = std::min(costs.start_up * costs.link.value, std::numeric_limits<double>::max());
    bytes = std::sqrt(model) * std::sqrt(reached) / 2;
  }
  bytes = std::clamp(bytes, static_cast<double>(limits.smallest.count), static_cast<double>(limits.largest.count));
  return Bytes{std::max<std::int64_t>(1, std::llround(bytes / 4)) * 4};
}

}  // namespace paceline::scheduling

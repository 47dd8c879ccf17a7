// How urgent layers are: the order in which the next forward pass needs them. That of the job's table, until a worker has seen
// another one in a forward pass (P3, section 4: the layer that is needed first goes first). Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scheduling/unit_plan.h"

namespace paceline::scheduling {

class Urgency {
 public:
  // `layers` at least 1, in the order of their numbers.
  explicit Urgency(std::int32_t layers);

  // `order`: every layer once, the one needed first in front. kBadRequest otherwise, and nothing changes. O(layers)
  Status set(std::span<const std::int32_t> order);
  // Of the most urgent of the unit's layers, as a priority: lower first. O(layers of the unit)
  Layer of(const Unit& unit) const;

 private:
  std::vector<Layer> places_;  // by layer
};

}  // namespace paceline::scheduling

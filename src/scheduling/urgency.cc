#include "scheduling/urgency.h"

#include <algorithm>

namespace paceline::scheduling {

Urgency::Urgency(std::int32_t layers) {
  for (std::int32_t layer = 0; layer < layers; ++layer) places_.push_back(Layer{layer});
}

Status Urgency::set(std::span<const std::int32_t> order) {
  if (order.size() != places_.size())
    return error(ErrorKind::kBadRequest, "an order of {} layers; the job has {}", order.size(), places_.size());
  std::vector<Layer> places(places_.size(), Layer{-1});
  for (std::size_t at = 0; at < order.size(); ++at) {
    if (order[at] < 0 || static_cast<std::size_t>(order[at]) >= places.size())
      return error(ErrorKind::kBadRequest, "layer {} in an order of layers does not exist; the job has {}", order[at],
                   places.size());
    Layer& place = places[static_cast<std::size_t>(order[at])];
    if (place.index != -1) return error(ErrorKind::kBadRequest, "layer {} is in an order of layers twice", order[at]);
    place = Layer{static_cast<std::int32_t>(at)};
  }
  places_ = std::move(places);
  return {};
}

Layer Urgency::of(const Unit& unit) const {
  const auto first = places_.begin() + unit.layer.index;
  return *std::min_element(first, first + (unit.last_layer.index - unit.layer.index + 1));
}

}  // namespace paceline::scheduling

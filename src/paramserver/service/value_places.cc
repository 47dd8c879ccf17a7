#include "paramserver/service/value_places.h"

#include <algorithm>
#include <utility>

namespace paceline::paramserver {

ValuePlaces::ValuePlaces(const job::Plan& plan, const PushLedger& ledger, exchange::TensorMemory memory)
    : plan_(plan),
      codec_(plan.value_codec(plan.options().first)),
      ledger_(ledger),
      memory_(std::move(memory)),
      staging_(plan, codec_),
      arriving_(plan.units().units.size()) {}

std::span<std::byte> ValuePlaces::place_of(std::uint32_t first, std::uint32_t last, bool staged) const {
  return staged ? staging_.of(first, last) : std::as_writable_bytes(memory_.parameters(first, last));
}

std::span<std::byte> ValuePlaces::begin(const wire::Values& values, Place place) {
  const bool encoded = !plan_.value_codec(values.iteration).raw(), staged = encoded || place == Place::kStaging;
  const auto units = ledger_.units_of(values);
  const bool deal = !in_one_piece(units);
  arriving_[values.unit] = {deal, staged, encoded && place == Place::kParameters};
  if (!deal) return place_of(values.unit, values.last, staged);
  std::size_t bytes = 0;
  for (const std::uint32_t unit : units) bytes += plan_.value_bytes(unit, values.iteration);
  std::vector<float>& memory = parcels_[values.unit];
  memory.resize((bytes + sizeof(float) - 1) / sizeof(float));
  return std::as_writable_bytes(std::span(memory)).first(bytes);
}

// Nobody reads these places before the ledger knows that the values are there, so copies need no lock.
void ValuePlaces::complete(const wire::Values& values, std::span<const std::byte> payload) {
  const auto [deal, staged, moves] = std::exchange(arriving_[values.unit], {});
  if (!deal && !moves) return;
  for (const std::uint32_t unit : ledger_.units_of(values)) {
    if (deal) {
      const auto to = place_of(unit, unit, staged);
      std::ranges::copy(payload.first(to.size()), to.begin());
      payload = payload.subspan(to.size());
    }
    if (moves) move(unit);
  }
}

void ValuePlaces::move(std::uint32_t unit) const { codec_.decode(staging_.of(unit), memory_.parameters(unit)); }

void ValuePlaces::round(std::uint32_t unit) const {
  codec_.encode(memory_.parameters(unit), staging_.of(unit));
  move(unit);
}

}  // namespace paceline::paramserver

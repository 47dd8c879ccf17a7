// Memory for a whole model as its units are sent (job/wire_options.h), each unit's at a place of its own. Not initialised, so that
// pages that nobody needs are never there.
#pragma once

#include <memory>
#include <span>

#include "job/plan.h"

namespace paceline::paramserver {

class SentArea {
 public:
  // The plan outlives it.
  explicit SentArea(const job::Plan& plan) : plan_(plan), element_bytes_(plan.options().wire.element_bytes()) {
    const std::size_t bytes = static_cast<std::size_t>(plan.units().elements) * element_bytes_;
    memory_.reset(new float[(bytes + sizeof(float) - 1) / sizeof(float)]);
  }

  // Of the units from `first` to `last`, which stand behind each other.
  std::span<std::byte> of(std::uint32_t first, std::uint32_t last) const {
    const auto& units = plan_.units().units;
    const auto elements = static_cast<std::size_t>(units[last].offset + units[last].elements - units[first].offset);
    auto* const begin = reinterpret_cast<std::byte*>(memory_.get());
    return {begin + static_cast<std::size_t>(units[first].offset) * element_bytes_, elements * element_bytes_};
  }
  std::span<std::byte> of(std::uint32_t unit) const { return of(unit, unit); }

 private:
  const job::Plan& plan_;
  std::size_t element_bytes_;
  std::unique_ptr<float[]> memory_;
};

// Whether the units are all that there are from the first to the last one, so that they stand behind each other in memory.
inline bool in_one_piece(std::span<const std::uint32_t> units) { return units.size() == units.back() - units.front() + 1; }

}  // namespace paceline::paramserver

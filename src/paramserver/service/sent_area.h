// Memory for a whole model as a codec sends it in full: each unit's at a place of its own, in their order and without gaps. Not
// initialised, so that pages that nobody needs are never there.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "job/plan.h"

namespace paceline::paramserver {

class SentArea {
 public:
  SentArea(const job::Plan& plan, const tensor::Codec& codec) {
    begins_.reserve(plan.units().units.size() + 1);
    begins_.push_back(0);
    for (const scheduling::Unit& unit : plan.units().units)
      begins_.push_back(begins_.back() + codec.size(static_cast<std::size_t>(unit.elements)));
    memory_.reset(new float[(begins_.back() + sizeof(float) - 1) / sizeof(float)]);
  }

  // Of the units from `first` to `last`, which stand behind each other.
  std::span<std::byte> of(std::uint32_t first, std::uint32_t last) const {
    return {reinterpret_cast<std::byte*>(memory_.get()) + begins_[first], begins_[last + 1] - begins_[first]};
  }
  std::span<std::byte> of(std::uint32_t unit) const { return of(unit, unit); }

 private:
  std::vector<std::size_t> begins_;  // by unit; and the end
  std::unique_ptr<float[]> memory_;
};

// Whether the units are all that there are from the first to the last one, so that they stand behind each other in memory.
inline bool in_one_piece(std::span<const std::uint32_t> units) { return units.size() == units.back() - units.front() + 1; }

}  // namespace paceline::paramserver

// What is added up of a unit beside its gradient: behind it stand flags of its parts (tensors), each a float32. First of each part
// how often it was used. Then, where the job tells verdicts (exchange/verdict.h), of each part words of bits that say which
// ranks' gradients are not finite; each rank has bits of its own, so that their sum is exact in any order. Pure.
#pragma once

#include <cstdint>
#include <span>

#include "base/quantity.h"
#include "scheduling/unit_plan.h"

namespace paceline::collectives {

class UnitFlags {
 public:
  static constexpr std::int32_t kRanksOfWord = 24;  // so many bits are exact in a float32

  UnitFlags(std::int32_t workers, bool verdict) : words_(verdict ? (workers + kRanksOfWord - 1) / kRanksOfWord : 0) {}

  // How many numbers of the unit are added up.
  std::int64_t staged_elements(const scheduling::Unit& unit) const {
    return unit.elements + static_cast<std::int64_t>(unit.parts) * (1 + words_);
  }

  // Writes rank `self`'s flags behind its gradient in `staged`, which becomes 0 in parts that it did not use.
  void write(const scheduling::UnitPlan& units, std::uint32_t unit, std::uint32_t unused_parts, Rank self,
             std::span<float> staged) const;

  // Of `staged` when it is the sum of all ranks'.
  static bool used(const scheduling::Unit& unit, std::uint32_t part_in_unit, std::span<const float> staged) {
    return staged[static_cast<std::size_t>(unit.elements) + part_in_unit] > 0;
  }
  // The lowest rank whose gradient of the part was not finite; -1: none, or nobody looked.
  Rank non_finite(const scheduling::Unit& unit, std::uint32_t part_in_unit, std::span<const float> staged) const;

 private:
  template <typename T>
  std::span<T> words_of(const scheduling::Unit& unit, std::uint32_t part_in_unit, std::span<T> staged) const {
    const std::size_t begin = static_cast<std::size_t>(unit.elements) + unit.parts;
    return staged.subspan(begin + part_in_unit * static_cast<std::size_t>(words_), static_cast<std::size_t>(words_));
  }

  std::int32_t words_;  // of bits, for each part
};

}  // namespace paceline::collectives

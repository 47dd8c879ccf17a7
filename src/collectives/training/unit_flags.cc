#include "collectives/training/unit_flags.h"

#include <algorithm>
#include <bit>

#include "tensor/reduce.h"

namespace paceline::collectives {

void UnitFlags::write(const scheduling::UnitPlan& units, std::uint32_t unit, std::uint32_t unused_parts, Rank self,
                      std::span<float> staged) const {
  const scheduling::Unit& planned = units.units[unit];
  const auto parts = units.parts_of(planned);
  for (std::uint32_t i = 0; i < planned.parts; ++i) {
    const bool used = (unused_parts >> i & 1) == 0;
    const std::span<float> gradient =
        staged.subspan(static_cast<std::size_t>(parts[i].offset - planned.offset), static_cast<std::size_t>(parts[i].elements));
    staged[static_cast<std::size_t>(planned.elements) + i] = used ? 1.0F : 0.0F;
    if (!used) std::ranges::fill(gradient, 0.0F);
    const std::span<float> words = words_of(planned, i, staged);
    if (words.empty()) continue;
    std::ranges::fill(words, 0.0F);
    if (tensor::all_finite(gradient)) continue;
    words[static_cast<std::size_t>(self.value / kRanksOfWord)] = static_cast<float>(std::uint32_t{1} << self.value % kRanksOfWord);
  }
}

Rank UnitFlags::non_finite(const scheduling::Unit& unit, std::uint32_t part_in_unit, std::span<const float> staged) const {
  std::int32_t first = 0;
  for (const float word : words_of(unit, part_in_unit, staged)) {
    if (word > 0) return Rank{first + std::countr_zero(static_cast<std::uint32_t>(word))};
    first += kRanksOfWord;
  }
  return Rank{-1};
}

}  // namespace paceline::collectives

// Median and range of a benchmark's runs.
#pragma once

#include <algorithm>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/median.h"

namespace paceline::bench {

// Of the runs.
struct Spread {
  double median = 0;
  double lowest = 0;
  double highest = 0;
};

// Requires at least one value.
inline Spread spread(const std::vector<double>& values) {
  return {.median = median(values), .lowest = std::ranges::min(values), .highest = std::ranges::max(values)};
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Spread, median, lowest, highest)

}  // namespace paceline::bench

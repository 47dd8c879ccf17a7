// The median of what was measured several times.
#pragma once

#include <algorithm>
#include <vector>

namespace paceline {

// Between the middle two of an even number. Requires at least one value.
inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace paceline

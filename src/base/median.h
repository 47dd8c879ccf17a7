// The median of what was measured several times.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace paceline {

// Between the middle two of an even number. Requires at least one value.
inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// The lower of the middle two of an even number, so one of the values. Requires at least one. O(n).
inline double lower_median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace paceline

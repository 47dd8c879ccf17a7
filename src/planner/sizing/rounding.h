// How far a quotient of measured doubles may lie from the number that is meant.
#pragma once

#include <limits>

namespace paceline::planner {

inline constexpr long double kRounding = 4 * static_cast<long double>(std::numeric_limits<double>::epsilon());

}  // namespace paceline::planner

// What choosing a schedule and choosing collective operations share.
#pragma once

#include <cstdint>

#include "cost/link_fit.h"

namespace paceline::tuning {

// Of a link that nobody could measure.
inline constexpr cost::LinkFit kAssumedLink{.start_up = 200e-6, .bandwidth = {125e6}, .residual = 0};
inline constexpr std::int64_t kParameterBytes = sizeof(float);

}  // namespace paceline::tuning

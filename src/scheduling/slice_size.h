// How large a slice should be (P3, section 4.2, with the start-up cost taken into account): small slices let urgent ones overtake,
// but each costs a start-up. Pure.
#pragma once

#include <cstdint>

#include "base/quantity.h"

namespace paceline::scheduling {

// Slices outside these limits are not worth it: below, the start-up dominates whatever alpha was measured; above, nothing is
// overtaken. 50 000 and 2 000 000 parameters of float32; a scaled replay divides both by its scale.
struct SliceLimits {
  Bytes smallest{200'000};
  Bytes largest{8'000'000};
};

struct SliceCosts {
  std::int64_t nodes = 1;  // >= 1, each a worker and a server
  Bytes model;
  double start_up = 0;  // seconds for each message, not negative
  BytesPerSecond link;  // above zero
};

// sqrt(2(N-1)/N * model * start_up * link / 4), clamped to the limits and rounded to the nearest whole parameter (a multiple of 4
// bytes, at least 4). One node has nobody to wait for: the upper limit.
Bytes best_slice(const SliceCosts& costs, const SliceLimits& limits = {});

}  // namespace paceline::scheduling

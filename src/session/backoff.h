// How long to wait before connecting again: doubling from 10 ms, with jitter so that many processes do not come back at once.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/quantity.h"

namespace paceline::session {

// failures: in a row, from 1. random: any 64 bits. Between half and one and a half times min(10 ms * 2^(failures-1), longest).
inline Duration backoff(std::uint32_t failures, std::uint64_t random, Duration longest) {
  const Duration first = std::chrono::milliseconds(10);
  const Duration base = std::min(longest, first * (std::int64_t{1} << std::min(failures - 1, 20U)));
  return base / 2 +
         Duration(static_cast<std::int64_t>(static_cast<double>(base.count()) * (static_cast<double>(random >> 11) * 0x1p-53)));
}

}  // namespace paceline::session

// How far to read ahead so that loading hides behind computing. Pure; any thread.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace paceline::cli {

struct Prefetch {
  std::int32_t depth = 2;    // mini-batches ready or in the making; 0: none, the worker loads when it needs one
  std::int32_t threads = 1;  // that load them
};

// Loading a mini-batch takes `load` seconds of one thread, computing with it `compute`. So many threads that they deliver faster
// than computing consumes, with a fifth to spare, as far as there are cores; and one mini-batch more than threads, so that none of
// them waits for the worker.
inline Prefetch prefetch_for(double load, double compute, int cores) {
  constexpr double kSpare = 1.2;
  constexpr double kMost = 63;
  const double needed = compute > 0 ? std::ceil(kSpare * load / compute) : kMost;
  const double threads = std::clamp(needed, 1.0, std::min(kMost, std::max(1.0, static_cast<double>(cores))));
  return {static_cast<std::int32_t>(threads) + 1, static_cast<std::int32_t>(threads)};
}

}  // namespace paceline::cli

// How many GPUs a speed-up needs, from the share of time that does not shrink with them (Lemma 3.1 of S.-X. Zou et al.,
// "Distributed Training Large-Scale Deep Architectures"). Pure arithmetic; any thread.
//
// overhead R: time of work that more GPUs do not hide / computation time, >= 0. efficiency: speed-up / GPUs.
#pragma once

#include <cstdint>
#include <optional>

#include "base/status.h"

namespace paceline::planner {

inline constexpr std::int64_t kMostGpus = std::int64_t{1} << 53;

// (1 + R) / (1 + G R). Requires overhead >= 0, gpus >= 1.
double efficiency(double overhead, std::int64_t gpus);
// efficiency * G.
double speedup(double overhead, std::int64_t gpus);

// The largest overhead with which `gpus` reach `efficiency`: (1 - a) / (a G - 1); nothing = any overhead will do (a G <= 1).
// kBadRequest: gpus outside 1..kMostGpus, efficiency outside (0, 1].
Result<std::optional<double>> largest_overhead(std::int64_t gpus, double efficiency);

struct GpuCount {
  std::optional<std::int64_t> gpus;  // the fewest that reach the speed-up; nothing: no number does
  std::optional<double> limit;       // the speed-up that no number of GPUs reaches, (1 + R) / R; nothing: there is none, R is 0
};

// Compares with a few units in the last place to spare, so that a speed-up that is exactly reached on paper (overhead 0.2, speed-up
// 3: 5 GPUs) does not cost one GPU more because 0.2 is no binary fraction. kBadRequest: overhead negative or not finite, speed-up
// not finite or not above 0.
Result<GpuCount> fewest_gpus(double overhead, double speedup);

// The most GPUs that still reach the efficiency; nothing = any number does. At least 1, since one GPU has the efficiency 1.
// kBadRequest: overhead negative or not finite, efficiency outside (0, 1].
Result<std::optional<std::int64_t>> most_gpus(double overhead, double efficiency);

}  // namespace paceline::planner

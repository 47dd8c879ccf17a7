// Workers of unequal speed on machines of equal speed: `--speed` and `--jitter`. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "base/status.h"

namespace paceline::job {

// Computing that takes t on its own takes t * slowness() on a worker.
struct ComputeSpeed {
  std::vector<double> by_rank;  // share of the machine's own speed, 0.001 .. 1; empty: 1 for everybody
  double jitter = 0;            // 0 .. 1: standard deviation of an iteration's factor
  std::uint64_t seed = 1;

  // Whether anybody computes at another pace than the machine's.
  bool changes_anything() const;
};

// `speed` as typed: "" or numbers separated by commas, "1,1,0.5,0.25". kBadRequest names the entry, its place and what is legal.
Result<std::vector<double>> parse_speeds(const std::string& speed);
// kBadRequest when there are speeds, but not one for each worker.
Status check_speeds(const std::vector<double>& by_rank, std::int32_t workers);

// Without jitter: of a worker, and of the slowest one.
double typical_slowness(const ComputeSpeed& speed, Rank rank);
double slowest(const ComputeSpeed& speed);

// (1 / speed) * max(0.1, 1 + jitter * z), where z is a standard normal number cut off at -3 and 3, drawn for (seed, rank,
// iteration): an iteration of a worker is slow or fast as a whole, and the same job has the same slow iterations again.
double slowness(const ComputeSpeed& speed, Rank rank, Iteration iteration);

}  // namespace paceline::job

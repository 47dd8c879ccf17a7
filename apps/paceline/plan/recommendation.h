// Puts the planner's answers together into one recommendation for a job. Pure: values in, JSON out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "paceline/profile/measurements.h"
#include "planner/servers.h"

namespace paceline::cli {

struct JobQuestion {
  std::string model;
  std::int64_t samples = 0;                 // of the data set, 1 or more
  Bytes memory;                             // of one worker
  std::string dataset;                      // that is trained on; "": not said
  std::vector<std::int64_t> mini_batches;   // candidates; empty: all that were measured
  std::optional<std::int64_t> workers;      // exactly one of these two, or none: 1 worker
  std::optional<double> speedup;            // over one worker
  std::optional<double> efficiency;         // alone: the most workers that reach it; with speedup or workers: a condition
  std::optional<double> overhead;           // R_O; nothing: not known
  std::int32_t prefetch = 0;                // mini-batches read ahead so that loading hides, as measured; 0: not known
  std::int32_t loader_threads = 0;          // that read them
  std::optional<BytesPerSecond> bandwidth;  // of a server's link; nothing: the servers are not asked for
  std::optional<BytesPerSecond> worker_bandwidth;
  planner::Duplex duplex = planner::Duplex::kFull;
};

// The keys of the answer stand in docs/cli.md. "feasible": false with a "reason" when nothing fits the memory or no number of
// workers reaches what is wanted. kBadRequest: measurements that are missing (how to make them is told), contradictory conditions.
Result<Json> recommend(const JobQuestion& question, const Measurements& measurements);

// The same for people.
std::string recommendation_text(const Json& answer);

}  // namespace paceline::cli

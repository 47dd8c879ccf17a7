// Predictions set beside what they predict: random jobs (random_jobs.h) replayed between the hosts of a lab, and how long each took
// over how long it was predicted to take, from all initial values to the last ones. What the prediction is told besides the job is
// measured before: what share of a shaped link a plain stream gets through. Finished jobs are kept in a ledger and not run again.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/ledger.h"
#include "bench/prediction/random_jobs.h"

namespace paceline::bench {

struct ReplaysBenchOptions {
  int jobs = 20;
  std::uint64_t first_seed = 1;
  int turns = 3;                                 // of each job, one after the other through all jobs
  double length = 10;                            // seconds that a job computes, about
  double start_up = 100e-6, processing = 30e-6;  // seconds for each message, as prediction::Cluster has them
  std::string folder;                            // of the ledger cells.jsonl and the tables
  std::string paceline;                          // path of the program
  int interrupt = -1;                            // see lab::RunHooks
  std::function<void(std::size_t done, std::size_t cells, const std::string& key)> on_cell;  // before each; may be empty
};

struct ReplaysBenchResult {
  std::vector<Ledger::Json> cells;
  std::vector<std::string> failures;  // of jobs that could not be run, with their keys
};

// Long: about options.length and some seconds per cell. Errors: kBadRequest (folder, ledger, rights), kCancelled, kIo.
Result<ReplaysBenchResult> run_replays_bench(const ReplaysBenchOptions& options);

// The cluster that a job is predicted on, a plain stream getting `share` of every link.
simulation::Cluster cluster_of(const RandomJob& job, double share, const ReplaysBenchOptions& options);

// Of the cells of each job: [{"seed", "job", "iterations", "predicted_seconds": spread, "measured_seconds": spread, "ratio": spread
// of measured over predicted}], and of all jobs: {"jobs", "within_10_per_cent", "median_error", "largest_error": of the medians of
// each job's ratio, as |ratio - 1|}.
Ledger::Json rows_of(const std::vector<Ledger::Json>& cells);
Ledger::Json summary_of_rows(const Ledger::Json& rows);

}  // namespace paceline::bench

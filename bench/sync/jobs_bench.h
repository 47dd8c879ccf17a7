// The synchronisation models against each other on workers of unequal speed: BSP, ASP, SSP(3) and ElasticBSP with both objectives,
// each with several seeds, as jobs of `paceline train`. Which jobs, and what their reports say together; who runs them is told how.
// Finished cells are kept in a ledger and not run again.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/ledger.h"

namespace paceline::bench {

struct JobsBenchOptions {
  std::vector<std::string> parts = {"replay", "lenet"};
  int seeds = 5;
  bool quick = false;  // a few seconds each: only whether it runs
  std::string folder;  // of the ledger cells.jsonl, and of a trace of each contestant's first seed
  std::string table;   // of the replay; written when it is not there
  double goal = 0.95;  // accuracy whose time is asked for
  // Runs `paceline train` with these arguments; returns its report.
  std::function<Result<Ledger::Json>(const std::vector<std::string>& arguments)> train;
  std::function<void(std::size_t done, std::size_t cells, const std::string& key)> on_cell;  // before each; may be empty
};

// One job. Different keys for all.
struct SyncCell {
  std::string part, contestant;
  int seed = 1;
  std::string key;
  std::string trace;  // file; "": none
  std::vector<std::string> arguments;
};
inline constexpr const char* kContestants[] = {"bsp", "asp", "ssp(3)", "elastic span", "elastic waiting-share"};

// In the order in which they run: seed by seed, the contestants one after the other.
std::vector<SyncCell> sync_cells(const JobsBenchOptions& options);

struct JobsBenchResult {
  std::vector<Ledger::Json> cells;
  std::vector<std::string> failures;  // with their keys
};
// Errors: kBadRequest (ledger, folder), kCancelled.
Result<JobsBenchResult> run_jobs_bench(const JobsBenchOptions& options);

// When rank 0's accuracy first reached `goal`, by its evaluations, seconds trained; null: never, or nothing was evaluated.
Ledger::Json time_to(const Ledger::Json& report, double goal);
// Per part and contestant, over the seeds: [{"part", "contestant", "seeds", "samples_per_second": spread, "waiting_share": spread,
// "waiting_barrier_share": spread, "seconds": spread, "accuracy": spread or null, "mean_accuracy", "time_to_goal": spread or null,
// "reached_goal" (seeds), "of_bsp": {"samples_per_second", "waiting_share", "mean_accuracy" (difference)}}].
Ledger::Json sync_summary_of(const std::vector<Ledger::Json>& cells);

}  // namespace paceline::bench

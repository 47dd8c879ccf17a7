// Schedules against each other, against PyTorch's DDP, the split baseline and the physical lower bound, between the hosts of a lab.
//
// Each cell is one job. Its goodput is measured with a plain stream just before, and its bound computed from that, so that what
// disturbs the machine for a while disturbs both. Finished cells are kept in a ledger and not run again.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/ledger.h"
#include "bench/schedules/grid.h"
#include "lab/script.h"

namespace paceline::bench {

struct SchedulesBenchOptions {
  GridOptions grid;
  std::string ledger;                    // file of finished cells; made when it is not there
  std::string key;                       // file of the key of contestants that encrypt; made when it is not there
  std::string paceline;                  // path of this program
  std::string tables;                    // folder of NAME.json
  std::string python;                    // interpreter with torch, for "ddp" and "split"; for "attach" with paceline too
  std::string mxnet;                     // interpreter with MXNet, for "mxnet" and what begins so
  std::string peers;                     // folder of their programs
  double length = 15;                    // seconds that a job is timed, about
  std::vector<std::string> job_options;  // more for every `paceline train`
  lab::Shape shape;                      // of the lab, but for the rates
  bool apart = false;                    // one of two hosts is the server, the other the worker
  int interrupt = -1;                    // see lab::RunHooks
  std::function<void(std::size_t done, std::size_t cells, const std::string& key)> on_cell;  // before each; may be empty
};

struct SchedulesBenchResult {
  std::vector<Ledger::Json> cells;    // those of the grid, in its order
  std::vector<std::string> failures;  // of cells that could not be run, with their keys
};

// Long: about options.length and some seconds per cell. Errors: kBadRequest (tables, ledger, rights), kCancelled, kIo.
Result<SchedulesBenchResult> run_schedules_bench(const SchedulesBenchOptions& options);

// Per model, link, hosts and contestant, over the turns: [{"model", "stands_for_bits_per_second", "hosts", "contestant",
// "iteration_seconds": spread, "of_lower_bound": spread, "lower_bound_seconds", "computation_seconds" (of the table),
// "communication_seconds" (the rest of the median, what computing did not hide), "processor_share",
// "processor_seconds_per_gb" (of bytes at the interfaces; the whole machine's time, so only true on a quiet one),
// "parameters_hash"}].
Ledger::Json summary_of(const std::vector<Ledger::Json>& cells);

// Linear Pipeline's Table 2, the profile of an iteration by loop and algorithm: of the rows whose contestant is a loop [{"model",
// "stands_for_bits_per_second", "hosts", "column": "MST Alg.1", "communication_seconds", "computation_seconds",
// "communication_share"}]. Of each job the paper's columns first, in its order; others follow. Rows of a job stand together.
Ledger::Json loop_profile(const Ledger::Json& rows);

// What the checksums of both ends cost, processor seconds per GB on the wire; in ours only.
double crc_seconds_per_gb();

// What is wrong with the results themselves: schedules that gave different parameters for the same job. (Loops whose sums are not
// in rank order may.) Empty: nothing.
std::vector<std::string> contradictions(const std::vector<Ledger::Json>& cells);

}  // namespace paceline::bench

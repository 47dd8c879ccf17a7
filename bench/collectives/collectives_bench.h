// Collective operations of this library, of Open MPI and of gloo, between the hosts of a lab with shaped links.
//
// All contestants' processes are there at once and idle but for one (contestant.h); they take turns within each heat, every turn
// beginning with another one, so that what disturbs the machine for a while disturbs all. The link's goodput is measured with a
// plain stream before each heat. Results are verified by every rank. Finished entries are kept in a ledger and not run again.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/collectives/field.h"
#include "bench/collectives/grid.h"
#include "bench/ledger.h"

namespace paceline::bench {

struct CollectivesBenchOptions {
  CollectivesGrid grid;
  FieldOptions field;
  std::string ledger;  // file of finished entries; made when it is not there
  int turns = 3;
  double length = 0.3;  // seconds of repetitions in a turn, about; one repetition at least
  int interrupt = -1;   // see lab::RunHooks
  std::function<void(std::size_t done, std::size_t heats, const std::string& heat)> on_heat;  // before each; may be empty
};

struct CollectivesBenchResult {
  // In the order of the grid. Each: "key", "operation", "bytes", "hosts", "contestant", "link_bytes_per_second" (of the fastest
  // host; where they differ, "host_bytes_per_second" has them all),
  // "goodput_bytes_per_second", "seconds" {median, lowest, highest} over the turns' medians, "repetitions", "bound_seconds",
  // "of_bound" (null of a barrier), "algorithm_bytes_per_second", "bus_bytes_per_second"; with a rest before each repetition
  // "rest_seconds"; with a block that counts "block_bytes"; ours also "choice", "predicted_seconds",
  // "links" {alpha, beta, gamma, residual}.
  std::vector<Ledger::Json> rows;
  std::vector<std::string> failures;  // of entries that could not be run, with their keys
};

// Long. Errors: kBadRequest (rights, ledger, a contestant that is not installed), kCancelled, kIo.
Result<CollectivesBenchResult> run_collectives_bench(const CollectivesBenchOptions& options);

// Table 1 of Linear Pipeline: for each operation and algorithm that was run alone, the closed form with the fitted constants beside
// the measured time. [{"hosts", "operation", "bytes", "algorithm", "formula", "predicted_seconds", "measured_seconds"}]
Ledger::Json cost_table(const std::vector<Ledger::Json>& rows);

}  // namespace paceline::bench

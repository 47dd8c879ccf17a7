// A worker that replays a table of layers: it sleeps where a network would compute, and everything else is real - gates, gradients,
// pushes, values. Every value that comes back is checked (value_check.h).
//
// Each layer takes its time from when the one before was over or its gate opened, whichever was later, on the clock, not from when
// this thread woke up: a replay is not slowed by the sleeps' own delays and does not drift. Making gradients and checking values is
// done while a layer sleeps, and prolongs nothing unless the processor is too busy.
#pragma once

#include <vector>

#include "base/status.h"
#include "replay/table.h"
#include "runtime/worker_process.h"

namespace paceline::replay {

// The parameters and gradients of a worker: before it joins.
struct Arena {
  // Parameters: the initial values of the job.
  Arena(const LayerTable& table, std::uint64_t seed);
  std::vector<float> parameters, gradients;
};

// Trains as the member `process` of its job, reports, and returns how the job ended. `table` is scaled; `arena` is what the process
// joined with. Errors: kCorrupt naming layer, index and iteration when a value is wrong. Training thread.
Status run_worker(const LayerTable& table, Arena& arena, runtime::WorkerProcess& process);

}  // namespace paceline::replay

// The training loop of a worker process: data, gates, forward, backward, gradients, until the last iteration.
#pragma once

#include "runtime/worker_process.h"
#include "trainer/workload.h"

namespace paceline::trainer {

// Trains `workload` as the member `process` of its job, reports, and returns how the job ended.
Status run_worker(Workload& workload, runtime::WorkerProcess& process);

}  // namespace paceline::trainer

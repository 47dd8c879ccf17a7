// The yardstick: the same job in one process, W virtual workers one after the other, no server, no network, none of our vector
// kernels. Its parameters are what every distributed BSP run must equal bit for bit.
#pragma once

#include <functional>

#include "report/report.h"
#include "trainer/workload.h"

namespace paceline::trainer {

struct Progress {
  Iteration iteration = 0, last = 0;
  double loss = 0;
  double accuracy = -1;  // -1: not evaluated in this iteration
};

// Runs the whole job; `progress` after every iteration; stops early with kCancelled when `stopped()` says so.
Result<std::vector<report::WorkerReport>> run_reference(Workload& workload, const job::JobSpec& settings, std::int32_t workers,
                                                        const std::function<void(const Progress&)>& progress,
                                                        const std::function<bool()>& stopped);

}  // namespace paceline::trainer

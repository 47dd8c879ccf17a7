// The yardstick of a replay: the same job in one process, in plain loops over every element, without sleeping. One thread.
#pragma once

#include <functional>
#include <vector>

#include "base/status.h"
#include "job/option.h"
#include "replay/table.h"
#include "report/report.h"

namespace paceline::replay {

// Runs the whole job; `progress` after every iteration; ends early, with what has been trained, when `stopped()` says so. `table`
// is scaled, `settings` are validated.
Result<std::vector<report::WorkerReport>> run_reference(const LayerTable& table, const job::JobSpec& settings, std::int32_t workers,
                                                        const std::function<void(Iteration)>& progress,
                                                        const std::function<bool()>& stopped);

}  // namespace paceline::replay

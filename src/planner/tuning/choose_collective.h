// By which algorithms a job with --collective carries out its operations: decided once, before it begins, for all of its processes.
#pragma once

#include "job/spec.h"
#include "report/report.h"
#include "runtime/coordinator.h"
#include "wire/control.h"

namespace paceline::tuning {

// Fills in `link-cost` of the settings, from which every worker then makes the same choices, and `merge` where it is open. A
// `link-cost` that is there, because the job goes on from a checkpoint, is kept, and with it what was chosen for it. Returns
// what the report says under "collective": null for a job with servers. A link that was not measured is taken for one of 1 Gb/s
// with a start-up of 200 us, and a warning is logged.
Result<report::Json> choose_collective(job::JobSpec& settings, const wire::TensorTable& table, std::int32_t workers,
                                       const runtime::Gathering& gathering);

}  // namespace paceline::tuning

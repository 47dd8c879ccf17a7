// What `--schedule tuned` becomes in a job: decided once, before it begins, for all of its processes.
#pragma once

#include "runtime/coordinator.h"
#include "runtime/report.h"
#include "wire/control.h"

namespace paceline::cli {

// Fills in `slice` and `merge` of the settings where they are open. Returns what the report says under "tuned": null for another
// schedule. A link that was not measured is taken for one of 1 Gb/s with a start-up of 200 us, and a warning is logged.
Result<runtime::Json> choose_schedule(wire::Settings& settings, const wire::TensorTable& table, std::int32_t workers,
                                      std::int32_t servers, const runtime::Gathering& gathering);

}  // namespace paceline::cli

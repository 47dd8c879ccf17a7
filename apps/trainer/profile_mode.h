// The mode of paceline-trainer that measures: {"profile": {"model", "mini_batch", "rounds", "convolutions": TEXT, "memory":
// BYTES}}. Prints {"progress": [done, total]} lines and one {"measurement": ...} line; apps/paceline/profile/measurements.h says
// what it holds.
#pragma once

#include "runtime/report.h"

namespace paceline::trainer {

Status run_profile_mode(const runtime::Json& request);

}  // namespace paceline::trainer

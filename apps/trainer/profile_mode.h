// The mode of paceline-trainer that measures: {"profile": {"model", "mini_batch", "rounds", "convolutions": TEXT, "memory":
// BYTES}} the convolutions of a step (planner/questions/measurements.h says what of them), {"profile": {"model", "mini_batch",
// "rounds", "warm_up"}} its layers (apps/paceline/profile/layer_table.h). Prints {"progress": [done, total]} lines and one
// {"measurement": ...} line.
#pragma once

#include "report/report.h"

namespace paceline::trainer {

Status run_profile_mode(const report::Json& request);

}  // namespace paceline::trainer

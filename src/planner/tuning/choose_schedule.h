// What `--schedule tuned` becomes in a job: decided once, before it begins, for all of its processes.
#pragma once

#include "planner/tuning/server_cost.h"
#include "report/report.h"
#include "runtime/coordinator.h"
#include "wire/control.h"

namespace paceline::tuning {

// Fills in `slice`, `merge`, `window`, `return` and `ordered-places` of the settings where they are open, by predicting the
// iteration with each of several combinations (tuning/tune.h). That needs the time that each layer computes: a replay's table
// holds it, the workers of a network measure it before they join (trainer/measured_layers.h). Where it is not known, or the job has
// too many messages to predict in a second, the formulas alone choose slice and merge, and the reason is said.
//
// Returns what the report says under "tuned": null for another schedule. Sizes in settings and report are those of the model before
// --scale divides it. A link that was not measured is taken for one of 1 Gb/s with a start-up of 200 us, and a warning is logged;
// a start-up below 30 us is taken for 30 us. What a server's work on a gradient takes `measure_server` is asked, if the schedule is
// to be chosen.
Result<report::Json> choose_schedule(job::JobSpec& settings, const wire::TensorTable& table, std::int32_t workers,
                                     std::int32_t servers, const runtime::Gathering& gathering,
                                     const MeasureServer& measure_server);

}  // namespace paceline::tuning

// What a server's work on the gradients of a job costs its processor.
#pragma once

#include <cstdint>
#include <functional>

#include "base/status.h"
#include "job/spec.h"

namespace paceline::tuning {

// Seconds for each byte that is pushed as float32: its share of the sum, of the look at whether that is finite, of the norm where
// gradients are clipped, and of the optimizer's step.
using MeasureServer = std::function<Result<double>(const job::JobSpec& settings, std::int32_t workers)>;

// Lets a server of the job (paramserver/core/server.h) update one unit a few times on this machine and takes the quickest. The
// unit stays in the caches as what has just been received does. Takes some milliseconds. Errors: settings that are not valid.
Result<double> measured_server_cost(const job::JobSpec& settings, std::int32_t workers);

}  // namespace paceline::tuning

// How long many workers take to join a job: coordinator, a server and the workers, each on a loop of its own, over the loopback.
#pragma once

#include <optional>

#include "base/job_key.h"
#include "base/quantity.h"
#include "base/status.h"

namespace paceline::bench {

// From the moment at which the first worker connects to the coordinator until the last one is connected with the server and has
// the job's values. Errors: who could not join.
Result<Duration> join_many(int workers, const std::optional<JobKey>& key);

}  // namespace paceline::bench

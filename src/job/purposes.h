// What options are for: one that would do nothing in a job is refused instead of ignored.
#pragma once

#include "base/status.h"
#include "job/spec.h"

namespace paceline::job {

// kBadRequest that names the first option that is not as it is when nobody gave it, and has no effect in this job.
Status check_purposes(const JobSpec& spec);

}  // namespace paceline::job

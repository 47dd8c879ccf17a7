// What a job's plan costs beside its gradients.
#pragma once

#include <string>
#include <vector>

#include "job/plan.h"

namespace paceline::job {

// A sentence with numbers and what to do for each cost that is certain and out of proportion; none, mostly. Only of jobs with
// servers.
std::vector<std::string> costs_of(const Plan& plan);

}  // namespace paceline::job

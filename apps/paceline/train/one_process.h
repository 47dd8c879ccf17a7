// `paceline train` as one process: `--reference`, a whole job without a network, and `--join`, a part of a job started elsewhere.
#pragma once

#include "paceline/train/request.h"

namespace paceline::cli {

// kBadRequest for what does nothing in such a process.
Status check_one_process(const TrainRequest& request);

}  // namespace paceline::cli

// The picture of `plan job`, as the paper's Figures 2 and 4: throughput and memory against the mini-batch, with the chosen
// algorithms and the memory there is; where R_O is known, the speed-up against the number of workers.
#pragma once

#include <string>

#include "base/status.h"
#include "report/report.h"

namespace paceline::cli {

// `answer` as recommend() gives it; the end of `file`'s name (.png, .svg, .pdf) is the format. kIo with what Python says when it
// fails.
Status draw_job(const report::Json& answer, const std::string& file);

}  // namespace paceline::cli

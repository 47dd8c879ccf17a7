// Files that say what `paceline train` is to do: --convolutions and --plan.
#pragma once

#include <functional>
#include <string>

#include "paceline/train/request.h"

namespace paceline::cli {

// {"model": NAME (optional; must be the job's), "convolutions": {LAYER: ALGORITHM, ...}}: the setting `convolutions` of the file.
// kBadRequest naming file, key and layer.
Result<model::ConvolutionChoice> read_convolutions(const std::string& path, const std::string& model);

// Takes from what `paceline plan job --output FILE` wrote, its key "train", every option that was not `given` on the command line
// ("--mini-batch"). kBadRequest naming file and key; also for a plan that found no answer.
Status apply_plan(const std::string& path, const std::function<bool(const std::string&)>& given, TrainRequest& request);

}  // namespace paceline::cli

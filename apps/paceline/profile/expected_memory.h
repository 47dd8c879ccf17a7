// How much memory a step may take, before it is made: so that measuring does not take the machine down.
#pragma once

#include <optional>

#include "base/status.h"
#include "model/description.h"

namespace paceline::cli {

struct ExpectedMemory {
  std::optional<double> formula;  // bytes by `plan memory`; nothing for a network that it is not for
  double most = 0;                // bytes with what the formula leaves out
};

// `mini_batch` at least 1. Errors: as planner::memory_need.
Result<ExpectedMemory> expected_memory(const model::ModelDescription& model, std::int64_t mini_batch);

}  // namespace paceline::cli

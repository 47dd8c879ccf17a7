// What ranks that measure or compare numbers need: each of them learns the largest of all ranks' values.
#pragma once

#include <span>

#include "collectives/exec/communicator.h"

namespace paceline::collectives {

// Replaces every value by the largest that any rank of the group has in its place. All ranks call it with as many values, each on a
// thread that may wait. Errors: as of an operation.
inline Status take_largest(Communicator& all, std::span<double> values) {
  return all.run({.kind = CollectiveKind::kAllreduce,
                  .input = values.data(),
                  .output = values.data(),
                  .dtype = tensor::DType::kFloat64,
                  .count = static_cast<std::int64_t>(values.size()),
                  .reduction = ReductionKind::kMax,
                  .algorithm = Algorithm::kMinimumSpanningTree});
}

}  // namespace paceline::collectives

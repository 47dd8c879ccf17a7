// The plan of a job from its specification and its tensors.
#pragma once

#include <cstdint>
#include <memory>

#include "job/plan.h"
#include "job/spec.h"
#include "wire/tensor_table.h"

namespace paceline::job {

// What servers and workers derive alike. `workers`: at least 1; `servers` too, but 0 in a job with --collective; `first`: the first
// iteration. Errors: kBadRequest naming the option.
Result<std::shared_ptr<const job::Plan>> make_plan(const job::JobSpec& spec, wire::TensorTable table, std::int32_t workers,
                                                   std::int32_t servers, Iteration first);

}  // namespace paceline::job

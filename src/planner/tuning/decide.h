// What a job decides before it begins, for all of its processes: with servers its schedule, without them its collective operations.
#pragma once

#include "report/report.h"
#include "runtime/coordinator.h"

namespace paceline::tuning {

// Fills in what the specification leaves open (choose_schedule.h, choose_collective.h). Returns what the report says of it, as an
// object with the keys "tuned" and "collective". Takes up to a second. Errors: kBadRequest naming the option.
Result<report::Json> decide(job::JobSpec& spec, const wire::TensorTable& table, std::int32_t workers, std::int32_t servers,
                            const runtime::Gathering& gathering);

}  // namespace paceline::tuning

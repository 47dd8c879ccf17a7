// Whom a worker waits for, by how far all have come. Pure.
#pragma once

#include <map>
#include <string>

#include "base/quantity.h"
#include "job/plan.h"

namespace paceline::exchange {

// The end of a sentence that says what `worker`, which computes the gradients of `current`, waits for: those others that are
// furthest behind, if it may not go so far ahead of them, and those that do not answer; "" if there are none. `reached`: who has
// answered, with the iteration whose gradients he computes, `worker` among them: if nobody has, nobody was asked, and it is "" too.
std::string who_is_late(Rank worker, Iteration current, const job::PlanOptions& options, const std::map<Rank, Iteration>& reached);

}  // namespace paceline::exchange

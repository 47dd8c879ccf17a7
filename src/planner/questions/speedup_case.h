// What a case of `plan speedup` says of the machines, their links, and how they communicate. Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "cost/rivals.h"
#include "planner/questions/layer_loads.h"
#include "planner/tuning/tune.h"

namespace paceline::planner {

struct SpeedupCase {
  BytesPerSecond link;                  // what a machine can carry; the bound counts all of it
  cost::RivalLink sent;                 // what its messages get of that
  std::int32_t per_machine = 1;         // workers
  std::int32_t cards = 0, servers = 0;  // 0: a card for each machine, a server beside every worker
  std::string schedule;
  tuning::Given given;
};

// Errors (kBadRequest) name the key, or the two that contradict each other.
Result<SpeedupCase> speedup_case_of(const Json& input, const Json& choices);

// How many machines are asked for; each number with all its workers fits.
Result<std::vector<std::int64_t>> machines_of(const Json& input, const SpeedupCase& asked);

// The layers, on machines as fast as the case says.
Result<std::vector<cost::LayerLoad>> speedup_loads(const Json& input);

// A sentence with the rate that was assumed of a link that programs rarely fill. Empty: the case says it, or the link is slower.
std::string assumed_rate(const Json& input, const SpeedupCase& asked);

}  // namespace paceline::planner

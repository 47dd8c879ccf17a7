// How many parameter servers hide the traffic behind the computation (Lemma 3.2 of S.-X. Zou et al.), and whether any number can:
// the lemma forgets that a worker's own link carries the whole model, however many servers there are. Pure arithmetic; any thread.
#pragma once

#include <cstdint>

#include "base/quantity.h"
#include "base/status.h"

namespace paceline::planner {

enum class Duplex {
  kFull,  // a link carries pushes and pulls at once
  kHalf,  // one after the other: twice the time
};

struct ServerQuestion {
  Bytes parameters;
  std::int64_t workers = 1;         // >= 1
  BytesPerSecond server_bandwidth;  // > 0
  BytesPerSecond worker_bandwidth;  // > 0
  double compute_seconds = 0;       // of one iteration; > 0
  Duplex duplex = Duplex::kFull;
};

struct ServerAnswer {
  std::int64_t servers = 1;  // max(1, ceil(passes * S * W / (B * T))), passes: 2 half duplex, 1 full duplex
  // What each worker's link lacks; 0 when it is fast enough. Above 0, no number of servers hides the traffic.
  BytesPerSecond worker_link_shortfall;
};

// A quotient that is a whole number on paper is not rounded up, though its factors are no binary fractions.
// kBadRequest: a field outside its range, or more than 2^53 servers.
Result<ServerAnswer> servers_needed(const ServerQuestion& question);

}  // namespace paceline::planner

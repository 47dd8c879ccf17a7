// A process on a host of the lab that runs collective operations when its driver tells it to. It connects to the driver's socket (a
// path: those work across network namespaces) and says {"rank": R, ...}. Then, line by line:
//
//   driver:  run OPERATION ALGORITHM ELEMENTS REPETITIONS WARM_UP REST [BLOCK]
//            float32, in place, root 0, sum; ELEMENTS of the whole message, of which a reduce-scatter leaves and an allgather takes
//            a part; REST: microseconds to sleep before each repetition; BLOCK: bytes, for ours alone
//   member:  {"seconds": [...]} with the time of each repetition on this rank, each begun behind a barrier after the rest;
//            ours adds "choice" and "predicted"; or {"error": "..."}, also when the result is not what it has to be
//
// until the driver hangs up. The peers in bench/peers say the same words.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "collectives/exec/calibration.h"
#include "transport/transport.h"

namespace paceline::bench {

struct MemberOptions {
  std::string control;  // path of the driver's socket
  int rank = 0;
  std::vector<transport::Address> addresses;  // of all ranks
  Duration spin{0};                           // see collectives::CommunicatorOptions
  bool confirm = true;                        // see collectives::Agreement
  collectives::CompareLinks compare = collectives::CompareLinks::kYes;
};

// Returns when the driver has hung up.
Status run_collectives_member(const MemberOptions& options);

}  // namespace paceline::bench

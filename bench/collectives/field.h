// Who takes part in `paceline bench collectives`, and with which commands their processes are started on the hosts of a lab.
#pragma once

#include <string>
#include <vector>

#include "bench/collectives/contestant.h"

namespace paceline::bench {

struct FieldOptions {
  std::string paceline;     // path of this program
  std::string python;       // interpreter with torch, for "gloo"
  std::string peers;        // folder of gloo_collectives.py
  std::string mpi_program;  // path of mpi_collectives; "": there is none
  std::string folder;       // for sockets and scripts, short; exists
  int interrupt = -1;
};

// The processes that a contestant runs in: several contestants may be ours with another algorithm.
//   "paceline"            the library; "paceline-spin": waits look for 1 ms without sleeping, and no rank waits to hear that all
//                        have begun; "paceline-alike": takes all links for
//                         alike, so that chains follow the ranks
//   "gloo"                torch.distributed
//   "openmpi"             as it comes, but told to yield while it waits, since hosts of a lab share processors
//   "openmpi-pipelined"   told to send along a chain in segments of 128 KB, and for allreduce around a ring in such segments
Result<std::vector<ContestantOptions>> make_field(const FieldOptions& options, int hosts, const std::vector<std::string>& teams);

// All names that make_field knows.
const std::vector<std::string>& team_names();

}  // namespace paceline::bench

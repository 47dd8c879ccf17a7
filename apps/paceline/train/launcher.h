// Which worker of which job this process is, when srun, mpirun (Open MPI), Hydra (MPICH, Intel MPI) or torchrun has started it.
// Pure: the variables are handed in.
//
//            rank                   workers                coordinator, unless PACELINE_COORDINATOR=HOST:PORT says where
//   torchrun RANK                   WORLD_SIZE             MASTER_ADDR : MASTER_PORT + 1 (torchrun's own store has MASTER_PORT)
//   mpirun   OMPI_COMM_WORLD_RANK   OMPI_COMM_WORLD_SIZE   loopback : derived from the job's name, when all are on one machine
//   Hydra    PMI_RANK               PMI_SIZE               loopback : derived from Hydra's process, when all are on one machine
//   srun     SLURM_PROCID           SLURM_NTASKS           first host of the job : derived from the job's and the step's number
//
// In this order, because mpirun and torchrun are started by srun too. When all ranks are on one machine the coordinator is on its
// loopback; else --bind must name the address of rank 0's host, since everything listens on the loopback unless told otherwise.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/status.h"
#include "transport/transport.h"

namespace paceline::cli {

struct Launch {
  std::string launcher;  // "torchrun", "mpirun", "Hydra", "srun"
  std::int32_t rank = 0;
  std::int32_t size = 1;           // workers
  transport::Address coordinator;  // where every rank connects; rank 0 starts it there
  bool operator==(const Launch&) const = default;
};

using Variables = std::function<std::optional<std::string>(std::string_view name)>;

// The process of Hydra that is above this one, and when it began: no other job on this machine has the two. "": there is none.
std::string hydra_job();

// Nothing when no launcher's rank and size are both set. `bind`: what --bind says, if it was given. Errors: kBadRequest naming the
// variable and its value: not a number, a rank out of range, a variable that is missing, several machines without an address.
Result<std::optional<Launch>> launched_by(const Variables& variables, const std::optional<std::string>& bind,
                                          const std::function<std::string()>& hydra = hydra_job);

// The first host of SLURM's "gpu[03-07,9],login": "gpu03".
std::string first_host(const std::string& node_list);

}  // namespace paceline::cli

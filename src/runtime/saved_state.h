// Where the state that checkpoints save stands in a process: in a server, or in a rank that updates without servers.
//
// Threads: the loop's.
#pragma once

#include <string>

#include "checkpoint/state_checkpoints.h"
#include "collectives/training/collective_carrier.h"
#include "paramserver/service/server_service.h"

namespace paceline::runtime {

// The services outlive what is made of them. Without servers a job's checkpoints look like those of a job with one server.
checkpoint::StateSource source_of(paramserver::ServerService& service);
checkpoint::StateSource source_of(collectives::CollectiveCarrier& carrier);

// Fills values and optimizer state of a server, or the optimizer state of a worker that updates, from the checkpoint that the job
// goes on from. Errors: kCorrupt, kIo, kBadRequest naming file and tensor.
Status restore_state(Files& files, const job::Saving& saving, const checkpoint::CheckpointSeal& seal, paramserver::Server& core);
Status restore_state(Files& files, const job::Saving& saving, const checkpoint::CheckpointSeal& seal,
                     collectives::CollectiveCarrier& carrier);

}  // namespace paceline::runtime

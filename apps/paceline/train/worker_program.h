// The programs of a worker's process and of the coordinator's, and what they are told.
#pragma once

#include "paceline/train/request.h"
#include "paceline/train/security_options.h"
#include "process/handed_text.h"
#include "worker/worker_request.h"

namespace paceline::cli {

// Whether workers run the trainer: they neither replay nor are a user's program.
bool needs_trainer(const TrainRequest& request);

worker::WorkerRequest worker_request(const TrainRequest& request, const std::string& coordinator, std::int32_t rank,
                                     const std::string& label);
// What is known on the machine where it runs only. `key` has to live until the worker has read it.
worker::WorkerRequest listening(worker::WorkerRequest request, const HandedKey& key, const std::string& bind);

// The program and the arguments of the whole job's coordinator, but for its key.
std::vector<std::string> coordinator_command(const TrainRequest& request);

// The program and the arguments of a worker that is told by `handed`: this program itself replays, the trainer trains.
std::vector<std::string> worker_command(const worker::WorkerRequest& worker, const HandedText& handed);

}  // namespace paceline::cli

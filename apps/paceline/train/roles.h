// The parts of a job that this program can be: the coordinator, a server, or the parent of a whole job, which starts it.
#pragma once

#include "paceline/train/request.h"
#include "replay/table.h"

namespace paceline::cli {

struct CoordinatorRequest {
  std::int32_t workers = 1, servers = 1;
  std::string bind = "127.0.0.1";
  std::uint16_t port = 0;
  job::JobSpec spec;  // its limits count, and nothing else before workers have joined
  std::string trace_file;
  bool json = false;
  bool verbose = false;  // the report for people says all
  SecurityOptions security;
  bool events = false;          // for a parent process: one JSON object per line
  bool tells_gathered = false;  // and when everybody has joined
};

// The table of a --model replay:FILE, scaled. Errors: kBadRequest naming file, layer and key, or the memory that a worker would
// need.
Result<replay::LayerTable> replay_table(const job::JobSpec& settings);

// Each runs until the job is over and returns the exit code.
int run_coordinator(const CoordinatorRequest& request);
int run_server(const TrainRequest& request);
int run_whole_job(const TrainRequest& request);       // --reference too
int run_joining_worker(const TrainRequest& request);  // becomes a worker

}  // namespace paceline::cli

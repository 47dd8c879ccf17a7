// `paceline profile`: measures on this machine what `paceline plan` asks for. One command; what it measures is chosen by a flag,
// without one the layers of a network.
#pragma once

#include <string>
#include <vector>

#include "paceline/command.h"
#include "planner/questions/job_candidates.h"

namespace paceline::cli {

struct ProfileOptions {
  std::string model = "lenet";
  bool model_given = false;                     // --memory: else all networks
  std::string dataset;                          // "": images or sentences made up for the model
  std::int64_t mini_batch = 32;                 // of one worker
  std::vector<std::int64_t> mini_batches;       // --convolutions
  std::int64_t rounds = planner::kUsualRounds;  // steps that count; --convolutions: with each algorithm
  std::string limit;                            // a time after which no step begins, once one counts; "": none
  std::int64_t iterations = 30;                 // --steps
  std::string server;                           // HOST or HOST:PORT of a doctor; "": one of its own on the loopback
  std::string bandwidth, start_up;              // of a link that is not measured; "": it is
  std::int64_t nodes = 2;                       // for `plan iteration`
  std::string record;                           // file for a replay table; "": none
  bool again = false;                           // measure what the cache has, too
  bool json = false;
  bool progress = false;
};

// Each measures, prints and returns the exit code.
int profile_layers(const ProfileOptions& options);
int profile_link(const ProfileOptions& options);
int profile_convolutions(const ProfileOptions& options);
int profile_steps(const ProfileOptions& options);
int profile_memory(const ProfileOptions& options);

}  // namespace paceline::cli

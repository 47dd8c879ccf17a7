// What `paceline train` was asked to do: the job's settings and how it is started on this machine.
#pragma once

#include <string>

#include "job/spec.h"
#include "paceline/command.h"
#include "paceline/train/hosts.h"
#include "paceline/train/security_options.h"

namespace paceline::cli {

struct TrainRequest {
  job::JobSpec settings;
  std::int32_t workers = 1;
  bool workers_given = false;  // else a joining worker takes the coordinator's number
  std::int32_t servers = 1;
  bool servers_given = false;
  bool reference = false;
  std::string join;             // address of a coordinator; "": start a whole job here
  std::string role = "worker";  // with join: worker, server or both; without: both, or servers are processes of their own
  bool role_given = false;
  std::int32_t rank = -1;  // with join; -1: the coordinator's choice
  std::string bind;        // where to listen; "": the loopback, or beside the file that join names
  SecurityOptions security;
  std::optional<JobKey> key;           // what follows from it once validated; nothing: in the clear
  std::uint16_t coordinator_port = 0;  // of a whole job; 0: the kernel's choice
  bool ranks_elsewhere = false;        // a launcher has started a process for each rank: of the workers only rank 0 is started here
  HostOptions hosts;                   // where all but the coordinator run
  std::vector<std::string> program;    // of `paceline run`: what a worker is, instead of the trainer,
  std::string store_folder;            // where the ranks of a script's second job meet; "": at the next port
  std::int32_t max_restarts = 0;
  std::vector<std::string> variables;             // "NAME=VALUE", and what it is told beside this process's own environment
  std::int32_t prefetch = 2, loader_threads = 1;  // trainer/data/loader.h
  std::string metrics_file, pace_file, trace_file;
  std::string convolutions_file;  // "": what the settings say
  std::string plan_file, config_file;
  bool json = false;
  bool verbose = false;   // the report for people says all
  bool progress = false;  // bars even when standard error is no terminal
};

extern const char* const kTraceHelp;  // of --trace
inline constexpr const char* kVerboseHelp = "The report says too what was chosen and why, and what links and the order were like";

inline constexpr std::int64_t kMostProcesses = 100'000;  // of a kind

// Adds the options of `paceline train` to `command`, which fill `request`.
void add_train_options(CLI::App& command, TrainRequest& request);

// The part of them that `paceline run` shares: key and security, limits, --metrics, --json, --progress.
void add_limit_options(CLI::App& command, TrainRequest& request);

// Checks everything that can be checked without starting anything, and makes paths absolute.
Result<TrainRequest> validated(TrainRequest request);
// Of the job's workers, those on the machine of this one.
std::int32_t ranks_beside(const TrainRequest& request, std::int32_t rank);

}  // namespace paceline::cli

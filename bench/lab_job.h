// A job on the hosts of a lab, one process a host, watched while it runs: what a benchmark between hosts times.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "lab/run.h"

namespace paceline::bench {

struct LabJob {
  // Their lines of standard output that are JSON are read: {"progress": {"rank", "iteration", "seconds"}} after every iteration of
  // a rank, {"report": {...}} once.
  std::vector<lab::HostCommand> commands;
  std::int64_t warm_up = 0;  // iterations that are not timed
  Duration limit = std::chrono::minutes(10);
  bool sampled = false;  // keep what passed through host 0's interface, every 10 ms
  int interrupt = -1;    // see lab::RunHooks
};

struct Sample {
  double seconds = 0;    // since the warm-up ended
  lab::Traffic traffic;  // since the lab was made
};

struct LabJobRun {
  nlohmann::ordered_json report;
  std::vector<double> iteration_seconds;  // of all ranks, behind the warm-up
  double window_seconds = 0;              // from rank 0's end of the warm-up to its last iteration
  double busy_seconds = 0;                // of all processors of the machine, in the window, the kernel's own work included
  Bytes window_bytes;                     // sent by all hosts in the window, headers included
  double cpu_seconds = 0;                 // of all processes, from their start to their end
  Bytes bytes;                            // sent by all hosts from start to end
  std::vector<Sample> samples;            // in the window
};

// What the hosts of a job are.
enum class HostRole {
  kWorkerAndServer,
  kWorker,  // trains by collective operations
  kApart,   // host 0 only serves, the others only work
};

// `paceline train --join` on every host, with `options`, and a coordinator on host 0. `program` is the path of paceline, `key` that
// of the job's key; "": in the clear, for the lab is this machine.
std::vector<lab::HostCommand> paceline_commands(const std::string& program, int hosts, HostRole role,
                                                const std::vector<std::string>& options, const std::string& key = "");

// Errors: kCancelled when interrupted, kDeadline, kIo with what the first process that failed said last.
Result<LabJobRun> run_lab_job(const lab::Lab& lab, const LabJob& job);

}  // namespace paceline::bench

// One process of a job that this program starts: what it is told, whichever machine it runs on.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/train/security_options.h"
#include "process/child.h"
#include "report/report.h"
#include "worker/worker_request.h"

namespace paceline::cli {

struct ServerProcess {
  std::int32_t rank = 0;
  double deadline = 0;  // seconds of silence
};

// A program of the user's own, which joins as a worker (docs/cli.md).
struct OwnProgram {
  std::vector<std::string> words;
  std::int32_t rank = 0, workers = 0, servers = 0;
  std::int32_t on_machine = 1;  // processes of the program on its machine, this one too: they share its processors
};

struct JobProcess {
  std::string label;                     // "worker 2"
  std::string coordinator;               // where it joins
  std::vector<std::string> environment;  // "NAME=VALUE", beside this process's and what it joins by
  // One of these.
  std::optional<ServerProcess> server;
  std::optional<worker::WorkerRequest> worker;
  std::optional<OwnProgram> program;
};

report::Json to_json(const JobProcess& process);
// Errors: kBadRequest, of a program of another release.
Result<JobProcess> job_process(const report::Json& json);

// On this machine; where it listens, it does so at `bind`.
Result<std::unique_ptr<Child>> start(const JobProcess& process, const HandedKey& key, const std::string& bind);

}  // namespace paceline::cli

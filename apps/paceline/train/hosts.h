// The machines of --hosts. Processes of a job start there by the system's ssh, as it is set up for this user: its names, keys and
// jumps. On each stands a `paceline hosted` (hosted.cc), which ends what it has started as soon as the connection ends.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/job_key.h"
#include "paceline/command.h"
#include "paceline/ssh.h"
#include "paceline/train/job_process.h"

namespace paceline::cli {

struct HostOptions : NamedHosts {  // no names: all processes run on this machine
  std::vector<std::string> pass;   // names of variables of this process that those there get too
};

void add_host_options(CLI::App& command, HostOptions& options);

// The one at which the machines of `options` reach this one: on the way to the first that is not this machine by its loopback.
Result<std::string> meeting_address(const HostOptions& options);

// Of process `number`, which runs on that machine in turn, in this process's working directory. The child is the ssh.
Result<std::unique_ptr<Child>> start_on_host(const HostOptions& options, std::size_t number, JobProcess process,
                                             const std::optional<JobKey>& key);
// The machine of process `number`.
const std::string& host_of(const HostOptions& options, std::size_t number);

}  // namespace paceline::cli

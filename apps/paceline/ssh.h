// The system's ssh, as it is set up for this user: its names, keys and jumps.
#pragma once

#include <string>
#include <vector>

#include "paceline/command.h"

namespace paceline::cli {

// Never asks for a password; says within 15 s that a machine has gone.
inline constexpr const char* kUsualSsh = "ssh -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5";

// Machines by names that ssh knows.
struct NamedHosts {
  std::vector<std::string> names;
  std::string ssh = kUsualSsh;
  std::string remote;  // this program there; "": at the same path as here
};

// --hosts, of which `purpose` speaks, --ssh and --remote.
void add_named_hosts(CLI::App& command, NamedHosts& hosts, const std::string& purpose);
// kBadRequest: a name that is none, or --ssh or --remote without --hosts.
Status check_named_hosts(const NamedHosts& hosts);

// What runs `words` on `host`, each as it is. `ssh`: words apart by spaces.
std::vector<std::string> ssh_command(const std::string& ssh, const std::string& host, const std::vector<std::string>& words);
// The name or address behind `host`, which may be a name of ~/.ssh/config. Blocks for a moment.
std::string network_name(const std::string& ssh, const std::string& host);

}  // namespace paceline::cli

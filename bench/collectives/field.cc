#include "bench/collectives/field.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <fmt/ranges.h>
#include <sys/stat.h>

#include "lab/script.h"

namespace paceline::bench {
namespace {

namespace fs = std::filesystem;

constexpr int kOurPort = 4200, kSpinningPort = 4201, kAlikePort = 4202, kGlooPort = 4300;  // every lab has its own ports

ContestantOptions team(const FieldOptions& options, const std::string& name, int hosts) {
  ContestantOptions contestant;
  contestant.name = name;
  contestant.ranks = hosts;
  contestant.control = (fs::path(options.folder) / (name + ".sock")).string();
  contestant.interrupt = options.interrupt;
  return contestant;
}

ContestantOptions ours(const FieldOptions& options, const std::string& name, int hosts) {
  ContestantOptions contestant = team(options, name, hosts);
  const bool spins = name == "paceline-spin", alike = name == "paceline-alike";
  std::vector<std::string> addresses;
  for (int host = 0; host < hosts; ++host)
    addresses.push_back(fmt::format("{}:{}", lab::address(host), spins ? kSpinningPort : alike ? kAlikePort : kOurPort));
  for (int host = 0; host < hosts; ++host) {
    std::vector<std::string> command = {options.paceline,
                                        "bench",
                                        "collectives",
                                        "--member",
                                        std::to_string(host),
                                        "--control",
                                        contestant.control,
                                        "--member-addresses",
                                        fmt::format("{}", fmt::join(addresses, ","))};
    if (spins) command.insert(command.end(), {"--spin", "1ms", "--unconfirmed"});
    if (alike) command.emplace_back("--alike");
    contestant.commands.push_back({.host = host, .arguments = std::move(command)});
  }
  return contestant;
}

ContestantOptions gloo(const FieldOptions& options, int hosts) {
  ContestantOptions contestant = team(options, "gloo", hosts);
  for (int host = 0; host < hosts; ++host) {
    contestant.commands.push_back(
        {.host = host,
         .arguments = {options.python, options.peers + "/gloo_collectives.py", contestant.control, std::to_string(host),
                       std::to_string(hosts), fmt::format("{}:{}", lab::address(0), kGlooPort)},
         .environment = {"GLOO_SOCKET_IFNAME=eth0", "OMP_NUM_THREADS=1"}});
  }
  return contestant;
}

// mpirun reaches the other hosts through a script that hands the command over to a shell that waits there.
Status write_agent(const fs::path& path, const fs::path& folder) {
  std::ofstream file(path);
  file << "#!/bin/sh\nhost=$1\nshift\nprintf '%s\\n' \"$*\" > '" << folder.string() << "/'\"$host\"\n";
  file.close();
  std::error_code problem;
  fs::permissions(path, fs::perms::owner_all, problem);
  if (!file || problem) return error(ErrorKind::kIo, "cannot write {}", path.string());
  return {};
}

Result<ContestantOptions> open_mpi(const FieldOptions& options, const std::string& name, int hosts) {
  if (options.mpi_program.empty() || !fs::exists(options.mpi_program))
    return error(ErrorKind::kBadRequest,
                 "{} is not there; install libopenmpi-dev (scripts/setup all) and build again, or leave {} out",
                 options.mpi_program.empty() ? "mpi_collectives" : options.mpi_program, name);
  ContestantOptions contestant = team(options, name, hosts);
  const fs::path folder = fs::path(options.folder) / name;
  std::error_code problem;
  fs::remove_all(folder, problem);
  if (!fs::create_directories(folder, problem)) return error(ErrorKind::kIo, "cannot make {}", folder.string());
  const fs::path agent = folder / "agent";
  PACELINE_RETURN_IF_ERROR(write_agent(agent, folder));
  std::vector<std::string> names;
  for (int host = 0; host < hosts; ++host) names.push_back(lab::address(host));
  // It spins while it waits. Hosts that share processors must yield, or the one that is waited for does not run; mpirun does not
  // know that they do.
  std::string run = fmt::format(
      "exec mpirun --allow-run-as-root --host {} -np {} --bind-to none --mca plm_rsh_agent '{}' --mca plm_rsh_no_tree_spawn 1 "
      "--mca orte_keep_fqdn_hostnames 1 --mca btl tcp,self --mca pml ob1 --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include "
      "eth0 --mca mpi_yield_when_idle 1 --mca orte_tmpdir_base '{}'",
      fmt::join(names, ","), hosts, agent.string(), folder.string());
  if (name == "openmpi-pipelined") {
    run +=
        " --mca coll_tuned_use_dynamic_rules 1"
        " --mca coll_tuned_bcast_algorithm 2 --mca coll_tuned_bcast_algorithm_chain_fanout 1"
        " --mca coll_tuned_bcast_algorithm_segmentsize 131072"
        " --mca coll_tuned_reduce_algorithm 2 --mca coll_tuned_reduce_algorithm_chain_fanout 1"
        " --mca coll_tuned_reduce_algorithm_segmentsize 131072"
        " --mca coll_tuned_allreduce_algorithm 5 --mca coll_tuned_allreduce_algorithm_segmentsize 131072";
  }
  run += fmt::format(" '{}' '{}'", options.mpi_program, contestant.control);
  // Every host has a name of its own, or Open MPI takes them for one. Its daemon must not leave its shell: everything on a host
  // ends with that.
  const auto shell = [&](int host, const std::string& command) {
    return lab::HostCommand{.host = host,
                            .arguments = {"unshare", "--uts", "sh", "-c", fmt::format("hostname lab{}; {}", host, command)},
                            .environment = {"OMPI_MCA_btl_base_warn_component_unused=0"}};
  };
  for (int host = 1; host < hosts; ++host) {
    const std::string pipe = (folder / lab::address(host)).string();
    if (mkfifo(pipe.c_str(), 0600) != 0) return error(ErrorKind::kIo, "cannot make {}", pipe);
    contestant.commands.push_back(
        shell(host, fmt::format("read -r line < '{}'; eval \"${{line%%--daemonize*}} ${{line#*--daemonize}}\"", pipe)));
  }
  contestant.commands.push_back(shell(0, run));
  return contestant;
}

}  // namespace

const std::vector<std::string>& team_names() {
  static const std::vector<std::string> names = {"paceline", "paceline-spin", "paceline-alike",
                                                 "gloo",     "openmpi",       "openmpi-pipelined"};
  return names;
}

Result<std::vector<ContestantOptions>> make_field(const FieldOptions& options, int hosts, const std::vector<std::string>& teams) {
  std::vector<ContestantOptions> field;
  for (const std::string& name : teams) {
    if (name.rfind("openmpi", 0) == 0) {
      PACELINE_ASSIGN_OR_RETURN(ContestantOptions contestant, open_mpi(options, name, hosts));
      field.push_back(std::move(contestant));
    } else {
      field.push_back(name == "gloo" ? gloo(options, hosts) : ours(options, name, hosts));
    }
  }
  return field;
}

}  // namespace paceline::bench

#include "paceline/train/launcher.h"

#include <charconv>
#include <fstream>
#include <sstream>

#include <unistd.h>

#include "transport/security.h"

namespace paceline::cli {
namespace {

constexpr std::int32_t kMostRanks = 100'000;
// Below the ports that Linux hands out to connections, so that none of these is in the way.
constexpr std::uint32_t kFirstDerivedPort = 12'000;
constexpr std::uint32_t kDerivedPorts = 18'000;

Result<std::int32_t> number(const Variables& variables, std::string_view name, std::int32_t least, std::int32_t most) {
  const auto text = variables(name);
  if (!text) return error(ErrorKind::kBadRequest, "the launcher did not set {}", name).because({"missing", std::string(name)});
  std::int32_t value = 0;
  const auto [end, problem] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (problem != std::errc() || end != text->data() + text->size() || value < least || value > most) {
    return error(ErrorKind::kBadRequest, "{}={} in the environment; legal: {} to {}", name, *text, least, most)
        .because({"illegal", std::string(name)});
  }
  return value;
}

// The same number in every process of the job, another one in most other jobs: FNV-1a.
std::uint16_t derived_port(std::string_view job) {
  std::uint32_t hash = 2166136261U;
  for (const char letter : job) hash = (hash ^ static_cast<unsigned char>(letter)) * 16777619U;
  return static_cast<std::uint16_t>(kFirstDerivedPort + hash % kDerivedPorts);
}

// Where the coordinator is if nobody says otherwise.
struct Place {
  transport::Address address;
  bool one_machine = false;
};

Result<Place> torchrun_place(const Variables& variables, std::int32_t size) {
  const auto host = variables("MASTER_ADDR");
  if (!host)
    return error(ErrorKind::kBadRequest,
                 "RANK and WORLD_SIZE are set but MASTER_ADDR is not; torchrun sets all, or set PACELINE_COORDINATOR=HOST:PORT")
        .because({"missing", "MASTER_ADDR"});
  PACELINE_ASSIGN_OR_RETURN(const std::int32_t port, number(variables, "MASTER_PORT", 1, 65'534));
  return Place{{*host, static_cast<std::uint16_t>(port + 1)},
               transport::is_loopback(*host) || variables("LOCAL_WORLD_SIZE") == std::to_string(size)};
}

Result<Place> mpirun_place(const Variables& variables, std::int32_t size) {
  auto job = variables("PMIX_NAMESPACE");
  if (!job) job = variables("OMPI_MCA_ess_base_jobid");
  if (variables("OMPI_COMM_WORLD_LOCAL_SIZE") != std::to_string(size)) {
    return error(ErrorKind::kBadRequest,
                 "mpirun started {} ranks on several machines and does not say where rank 0 is; set PACELINE_COORDINATOR=HOST:PORT "
                 "(mpirun -x PACELINE_COORDINATOR=...)",
                 size)
        .because({"missing", "PACELINE_COORDINATOR"});
  }
  if (!job)
    return error(ErrorKind::kBadRequest,
                 "mpirun set neither PMIX_NAMESPACE nor OMPI_MCA_ess_base_jobid; set PACELINE_COORDINATOR=HOST:PORT")
        .because({"missing", "PACELINE_COORDINATOR"});
  return Place{{"127.0.0.1", derived_port(*job)}, true};
}

Result<Place> hydra_place(const Variables& variables, std::int32_t size, const std::string& job) {
  const bool one_machine = variables("MPI_LOCALNRANKS") == std::to_string(size);
  if (!one_machine || job.empty())
    return error(ErrorKind::kBadRequest,
                 "Hydra started {} ranks{} and does not say where rank 0 is; set PACELINE_COORDINATOR=HOST:PORT "
                 "(mpiexec.hydra -genv PACELINE_COORDINATOR ...)",
                 size, one_machine ? "" : " on several machines")
        .because({"missing", "PACELINE_COORDINATOR"});
  return Place{{"127.0.0.1", derived_port(job)}, true};
}

Result<Place> srun_place(const Variables& variables) {
  auto nodes = variables("SLURM_STEP_NODELIST");
  if (!nodes) nodes = variables("SLURM_JOB_NODELIST");
  const auto job = variables("SLURM_JOB_ID");
  if (!nodes || !job) {
    return error(ErrorKind::kBadRequest,
                 "SLURM_PROCID and SLURM_NTASKS are set but {} is not; srun sets all, or set PACELINE_COORDINATOR=HOST:PORT",
                 nodes ? "SLURM_JOB_ID" : "SLURM_JOB_NODELIST")
        .because({"missing", "PACELINE_COORDINATOR"});
  }
  const std::string host = first_host(*nodes);
  return Place{{host, derived_port(*job + "." + variables("SLURM_STEP_ID").value_or("0"))},
               host == *nodes || transport::is_loopback(host)};
}

Result<transport::Address> coordinator_of(const Variables& variables, const Launch& launch, const std::optional<std::string>& bind,
                                          const std::function<std::string()>& hydra) {
  if (bind && transport::is_wildcard(*bind)) {
    return error(ErrorKind::kBadRequest,
                 "--bind {} names no host that the other ranks can connect to; give the address of rank 0's host", *bind)
        .because({"address", "--bind"});
  }
  if (const auto given = variables("PACELINE_COORDINATOR")) {
    const auto address = transport::parse_address(*given);
    if (!address.ok() || address->port == 0)
      return error(ErrorKind::kBadRequest, "PACELINE_COORDINATOR={} in the environment; legal: HOST:PORT", *given)
          .because({"address", "PACELINE_COORDINATOR"});
    if (!bind && !transport::stays_on_machine(*address)) {
      return error(
          ErrorKind::kBadRequest,
          "PACELINE_COORDINATOR={} is not on the loopback; give --bind ADDRESS, that host's address, and the job's key with "
          "--job-key-file",
          *given);
    }
    return address;
  }
  const auto place = launch.launcher == "torchrun" ? torchrun_place(variables, launch.size)
                     : launch.launcher == "mpirun" ? mpirun_place(variables, launch.size)
                     : launch.launcher == "Hydra"  ? hydra_place(variables, launch.size, hydra())
                                                   : srun_place(variables);
  PACELINE_RETURN_IF_ERROR(place.status());
  if (bind) return transport::Address{*bind, place->address.port};
  if (place->one_machine) return transport::Address{"127.0.0.1", place->address.port};
  return error(ErrorKind::kBadRequest,
               "{} started {} ranks on several machines with rank 0 on {}; give --bind ADDRESS, that host's address, and "
               "the job's key with --job-key-file",
               launch.launcher, launch.size, place->address.host);
}

struct Names {
  std::string_view launcher;
  const char* rank;
  const char* size;
};

constexpr Names kNames[] = {{"torchrun", "RANK", "WORLD_SIZE"},
                            {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                            {"Hydra", "PMI_RANK", "PMI_SIZE"},
                            {"srun", "SLURM_PROCID", "SLURM_NTASKS"}};

bool has_started(const Variables& variables, const Names& names) {
  if (!variables(names.rank) || !variables(names.size)) return false;
  // srun --mpi=pmi2 sets the same two.
  if (names.launcher == "Hydra") return variables("MPI_LOCALNRANKS") || !variables("SLURM_STEP_ID");
  // The shell of an sbatch script has a rank too, though srun has not been called.
  return names.launcher != "srun" || variables("ENVIRONMENT") != "BATCH" || variables("SLURM_STEP_ID");
}

// Of a process that nobody has given a rank, as paceline.launch has it: where something says that it is one of several, it would
// train alone, and so would all others.
Status check_alone(const Variables& variables) {
  struct Half {
    const char *given, *missing, *alone;
  };
  for (const Half& half : {Half{"RANK", "WORLD_SIZE", "0"}, Half{"WORLD_SIZE", "RANK", "1"}}) {
    const auto value = variables(half.given);
    if (!value || *value == half.alone || variables(half.missing)) continue;
    return error(ErrorKind::kBadRequest, "{}={} in the environment, and no {}; set both, or unset {} to train alone", half.given,
                 *value, half.missing, half.given)
        .because({"missing", half.given});
  }
  if (const auto pod = variables("JOB_COMPLETION_INDEX"); pod && !variables("WORLD_SIZE")) {
    return error(
               ErrorKind::kBadRequest,
               "JOB_COMPLETION_INDEX={}: this pod is one of an Indexed Job, and nothing says how many there are and where they "
               "meet; "
               "give the pods RANK (their index), WORLD_SIZE, MASTER_ADDR and MASTER_PORT, or RANK=0 and WORLD_SIZE=1 to let each "
               "train alone",
               *pod)
        .because({"missing", "JOB_COMPLETION_INDEX"});
  }
  return {};
}

}  // namespace

std::string first_host(const std::string& node_list) {
  std::string host;
  bool inside = false;  // brackets, of which the first number counts
  bool taken = false;
  for (const char letter : node_list) {
    if (letter == '[') {
      inside = true;
      taken = false;
    } else if (letter == ']') {
      inside = false;
    } else if (inside) {
      taken = taken || letter == '-' || letter == ',';
      if (!taken) host += letter;
    } else if (letter == ',') {
      break;
    } else {
      host += letter;
    }
  }
  return host;
}

std::string hydra_job() {
  for (long process = getpid(); process > 1;) {
    std::ifstream file("/proc/" + std::to_string(process) + "/stat");
    std::string stat;
    const std::size_t name = std::getline(file, stat) ? stat.find('(') : std::string::npos;
    const std::size_t end = stat.rfind(')');  // a name may have brackets in it
    if (name == std::string::npos || end == std::string::npos) return "";
    std::istringstream rest(stat.substr(end + 1));
    std::string state;
    std::string began;
    long parent = 0;
    rest >> state >> parent;
    for (int field = 5; field <= 22; ++field) rest >> began;
    if (stat.substr(name + 1, end - name - 1) == "hydra_pmi_proxy") return "hydra-" + std::to_string(process) + "-" + began;
    process = parent;
  }
  return "";
}

Result<std::optional<Launch>> launched_by(const Variables& variables, const std::optional<std::string>& bind,
                                          const std::function<std::string()>& hydra) {
  for (const Names& names : kNames) {
    if (!has_started(variables, names)) continue;
    Launch launch;
    launch.launcher = std::string(names.launcher);
    PACELINE_ASSIGN_OR_RETURN(launch.size, number(variables, names.size, 1, kMostRanks));
    PACELINE_ASSIGN_OR_RETURN(launch.rank, number(variables, names.rank, 0, launch.size - 1));
    PACELINE_ASSIGN_OR_RETURN(launch.coordinator, coordinator_of(variables, launch, bind, hydra));
    return std::optional<Launch>(std::move(launch));
  }
  PACELINE_RETURN_IF_ERROR(check_alone(variables));
  return std::optional<Launch>();
}

}  // namespace paceline::cli

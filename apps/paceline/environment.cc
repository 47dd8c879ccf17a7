#include "paceline/environment.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include <unistd.h>

#include "base/check.h"

namespace paceline::cli {
namespace {

constexpr EnvironmentVariable kVariables[] = {
    {"PACELINE_DATA", "folder of the data sets that come with the set-up; default: .venv/data here, else beside the program"},
    {"PACELINE_CACHE", "folder in which 'paceline profile' keeps what it measured; default: XDG_CACHE_HOME/paceline"},
    {"XDG_CACHE_HOME", "folder of caches, where PACELINE_CACHE is not set; default: HOME/.cache"},
    {"HOME", "the user's folder, where neither is set"},
    {"PACELINE_PYTHON", "a Python with matplotlib, for pictures; default: .venv/bin/python beside the build or here, else python3"},
    {"PACELINE_COORDINATOR",
     "HOST:PORT, or unix:/PATH on one machine, where the ranks that a launcher starts find their coordinator; default: derived "
     "from the launcher's variables below"},
    {"PACELINE_JOB_KEY_FILE", "file with the job's key, where --job-key-file does not name one and --security is not none"},
    {"OMP_NUM_THREADS",
     "threads of each process of 'paceline run' on a machine; default: the processors shared between them. The hosts of "
     "'paceline lab' share them too"},
    {"PYTHONUNBUFFERED",
     "for what 'paceline run' and 'paceline lab' start it is 1 where it is not set, so that a script's lines appear when it prints "
     "them"},
    {"RANK", "torchrun: this process's rank; makes 'paceline train' one worker of a job, with WORLD_SIZE"},
    {"WORLD_SIZE", "torchrun: number of processes = workers"},
    {"LOCAL_WORLD_SIZE", "torchrun: number of processes on this machine; equal to WORLD_SIZE: the job stays on the loopback"},
    {"MASTER_ADDR", "torchrun: host of rank 0, where the coordinator runs"},
    {"MASTER_PORT", "torchrun: port of its own store; the coordinator listens on the next one, MASTER_PORT + 1"},
    {"OMPI_COMM_WORLD_RANK",
     "mpirun (Open MPI): this process's rank; makes 'paceline train' one worker of a job, with OMPI_COMM_WORLD_SIZE"},
    {"OMPI_COMM_WORLD_SIZE", "mpirun: number of processes = workers"},
    {"OMPI_COMM_WORLD_LOCAL_SIZE", "mpirun: number of processes on this machine; when not all are, PACELINE_COORDINATOR is needed"},
    {"PMIX_NAMESPACE", "mpirun: name of the job, from which the coordinator's port is derived"},
    {"OMPI_MCA_ess_base_jobid", "mpirun: number of the job, where PMIX_NAMESPACE is not set"},
    {"PMI_RANK", "Hydra (MPICH, Intel MPI): this process's rank; makes 'paceline train' one worker of a job, with PMI_SIZE"},
    {"PMI_SIZE", "Hydra: number of processes = workers"},
    {"MPI_LOCALNRANKS", "Hydra: number of processes on this machine; when not all are, PACELINE_COORDINATOR is needed"},
    {"SLURM_PROCID", "srun: this process's rank; makes 'paceline train' one worker of a job, with SLURM_NTASKS"},
    {"SLURM_NTASKS", "srun: number of processes = workers"},
    {"SLURM_JOB_NODELIST", "srun: hosts of the job; the coordinator runs on the first"},
    {"SLURM_STEP_NODELIST", "srun: hosts of this step of the job, used instead where it is set"},
    {"SLURM_JOB_ID", "srun: number of the job, from which the coordinator's port is derived"},
    {"SLURM_STEP_ID", "srun: number of the step, likewise"},
    {"JOB_COMPLETION_INDEX", "Kubernetes: this pod is one of an Indexed Job; without WORLD_SIZE 'paceline train' is refused in it"},
    {"ENVIRONMENT", "sbatch: BATCH without SLURM_STEP_ID is the script's own shell, which is no rank"},
};

}  // namespace

std::span<const EnvironmentVariable> environment_variables() { return kVariables; }

std::optional<std::string> environment(std::string_view name) {
  PACELINE_CHECK(std::ranges::find(kVariables, name, &EnvironmentVariable::name) != std::end(kVariables),
                 "environment variable {} is not listed", name);
  const char* value = std::getenv(std::string(name).c_str());
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

std::vector<std::string> variables_of_others(const std::string& prefix) {
  constexpr std::array<std::string_view, 13> kOfTheSession = {"HOME", "USER",     "LOGNAME", "SHELL", "PWD",    "OLDPWD", "SHLVL",
                                                              "TERM", "HOSTNAME", "MAIL",    "_",     "TMPDIR", "DISPLAY"};
  std::vector<std::string> names;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string name(*variable, std::strcspn(*variable, "="));
    const bool of_session = std::ranges::find(kOfTheSession, name) != kOfTheSession.end() || name.starts_with("SSH_") ||
                            name.starts_with("XDG_") || name.starts_with("DBUS_");
    if (name.starts_with(prefix) && !of_session) names.push_back(name);
  }
  return names;
}

std::vector<std::string> variables_for_programs(int threads) {
  std::vector<std::string> variables;
  if (!variable_of_others("PYTHONUNBUFFERED")) variables.emplace_back("PYTHONUNBUFFERED=1");
  if (threads > 0 && !environment("OMP_NUM_THREADS")) variables.push_back("OMP_NUM_THREADS=" + std::to_string(threads));
  return variables;
}

std::optional<std::string> variable_of_others(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

}  // namespace paceline::cli

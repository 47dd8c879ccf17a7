// `paceline train`: decides which part of a job this process is.
#include <algorithm>

#include "base/log.h"
#include "paceline/config.h"
#include "paceline/environment.h"
#include "paceline/machine.h"
#include "paceline/option_files.h"
#include "paceline/temporary_folder.h"
#include "paceline/train/going_on.h"
#include "paceline/train/job_files.h"
#include "paceline/train/launcher.h"
#include "paceline/train/roles.h"
#include "paceline/within.h"
#include "process/program_file.h"

namespace paceline::cli {
namespace {

// What `typed` means for this process where a launcher has started one for each worker: rank 0 starts the coordinator and the
// servers beside its worker and prints the report, the others join. --join says all that a launcher could.
Result<TrainRequest> placed(TrainRequest typed, const std::optional<std::string>& bind) {
  if (!typed.join.empty()) return typed;
  PACELINE_ASSIGN_OR_RETURN(const auto launch, launched_by(environment, bind));
  if (!launch) {
    const auto coordinator = environment("PACELINE_COORDINATOR");
    if (coordinator && !typed.reference)
      log::warn("PACELINE_COORDINATOR is {}, and this is a job of its own: no launcher has said a rank; --join takes part there",
                *coordinator);
    return typed;
  }
  if (typed.workers_given && typed.workers != launch->size) {
    return error(ErrorKind::kBadRequest, "--workers {} but {} started {} processes, one for each worker; leave --workers out",
                 typed.workers, launch->launcher, launch->size);
  }
  typed.workers = launch->size;
  typed.workers_given = true;
  if (typed.reference) {
    if (launch->size == 1) return typed;
    return error(ErrorKind::kBadRequest, "--reference trains alone, but {} started {} processes; start it without {}",
                 launch->launcher, launch->size, launch->launcher);
  }
  typed.ranks_elsewhere = true;
  if (launch->rank > 0) {
    typed.join = launch->coordinator.text();
    typed.rank = launch->rank;
  } else {
    if (launch->coordinator.is_file()) {
      typed.bind = launch->coordinator.host;
    } else {
      typed.coordinator_port = launch->coordinator.port;
    }
  }
  return typed;
}

int run_train(TrainRequest typed, const CLI::App& command) {
  const auto given = [&command](const std::string& name) { return command.count(name) > 0; };
  typed.config_file = config_file_of(command);
  const auto earlier = EarlierJob::find(typed, given);
  if (!earlier.ok()) {
    const auto alone = validated(typed);  // what contradicts itself needs no checkpoint to be wrong
    return report_error(alone.ok() ? earlier.status() : alone.status());
  }
  if (*earlier) (*earlier)->fill(typed);
  if (!typed.plan_file.empty()) {
    if (const Status status = apply_plan(typed.plan_file, given, typed); !status.ok())
      return report_error(status.because({"format", "--plan"}));
  }
  const auto bind = given("--bind") ? std::optional(typed.bind) : std::nullopt;
  const auto here = placed(typed, bind);
  if (!here.ok()) return report_error(here.status());
  const auto request = validated(*here);
  // What differs from the earlier job is the cause also of a contradiction with what was taken from it.
  if (const Status same = *earlier ? (*earlier)->check(request.ok() ? *request : *here) : Status(); !same.ok())
    return report_error(same);
  if (!request.ok()) return report_error(request.status());
  if (*earlier) (*earlier)->tell(*request);
  if (request->reference && request->servers_given && request->servers > 0)
    log::warn("--reference has no servers: --servers {} changes nothing", request->servers);
  if (request->join.empty()) return run_whole_job(*request);
  return request->role == "server" ? run_server(*request) : run_joining_worker(*request);
}

constexpr const char* kUsualPath = "/bin:/usr/bin";  // as for execvp, where PATH is not set

}  // namespace

void add_train(CLI::App& app, Chosen& chosen) {
  auto request = std::make_shared<TrainRequest>();
  CLI::App* command = app.add_subcommand("train", "Train a network with many workers");
  add_train_options(*command, *request);
  set_examples(*command,
               "  paceline train --model lenet --dataset mnist-5k --workers 4 --servers 2 --epochs 3\n"
               "  paceline train --reference --workers 4 --iterations 30 --json");
  command->callback([request, command, &chosen] { chosen.run = [request, command] { return run_train(*request, *command); }; });
}

// Where the ranks of a script's second job meet: a port that is chosen now may be somebody else's then. Null: on several machines,
// or nothing can be written here; then that job takes the next port, if it is free.
std::unique_ptr<TemporaryFolder> meeting_place(TrainRequest& request) {
  if (!request.hosts.names.empty()) return nullptr;
  auto folder = TemporaryFolder::make();
  if (!folder.ok()) return nullptr;
  request.store_folder = (*folder)->path().string();
  return std::move(*folder);
}

// A job that fails is started again, as often as it may. Each attempt has a file of its own to meet in: what was told in an earlier
// one's is no longer so.
int run_attempts(TrainRequest request) {
  for (std::int32_t attempt = 0;; ++attempt) {
    if (!request.store_folder.empty())
      request.variables = {fmt::format("PACELINE_STORE={}/store-{}", request.store_folder, attempt)};
    const int code = run_whole_job(request);
    if (code != kFailed || attempt == request.max_restarts) return code;
    say(stderr, fmt::format("paceline: starting the job again, {} of {}\n", attempt + 1, request.max_restarts));
  }
}

void add_run(CLI::App& app, Chosen& chosen) {
  auto request = std::make_shared<TrainRequest>();
  CLI::App* command =
      app.add_subcommand("run", "Start a job whose workers are a program of your own (paceline/torch.h, paceline.torch)");
  within(command->add_option("--workers", request->workers, "Processes of the program; with --hosts one on each"), 1,
         kMostProcesses)
      ->capture_default_str()
      ->each([request = request.get()](const std::string&) { request->workers_given = true; });
  within(command->add_option("--servers", request->servers, "Server processes; 0 where the program trains by collectives"), 0,
         kMostProcesses)
      ->capture_default_str()
      ->each([request = request.get()](const std::string&) { request->servers_given = true; });
  within(
      command->add_option("--max-restarts", request->max_restarts,
                          "How often a job that fails is started again, with the same words: a script goes on from what it saved"),
      0, kMostProcesses)
      ->capture_default_str();
  CLI::App* where = command->add_option_group("Where");
  where
      ->add_option("--bind", request->bind,
                   "Where the coordinator listens; with --hosts the address by which they reach this machine")
      ->check(not_empty)
      ->default_str("127.0.0.1");
  add_host_options(*where, request->hosts);
  add_limit_options(*command, *request);
  command->add_option("program", request->program, "The program and its arguments, behind --")->required();
  set_examples(*command,
               "  paceline run --workers 2 --servers 1 -- ./own_module --width 64\n  paceline run --workers 4 --servers 2 -- "
               "python train.py\n  paceline run --hosts node1,node2,node3 -- python train.py");
  command->callback([request, command, &chosen] {
    chosen.run = [request, command] {
      request->config_file = config_file_of(*command);
      const Status program = request->hosts.names.empty()
                                 ? check_startable(request->program.front(), variable_of_others("PATH").value_or(kUsualPath))
                                 : Status();
      if (!program.ok()) return report_error(program);
      const auto folder = meeting_place(*request);
      const auto checked = validated(*request);
      return checked.ok() ? run_attempts(*checked) : report_error(checked.status());
    };
  });
}

}  // namespace paceline::cli

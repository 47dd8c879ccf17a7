// `paceline train`: decides which part of a job this process is.
#include "paceline/train/roles.h"

namespace paceline::cli {
namespace {

int run_train(const TrainRequest& typed) {
  const auto request = validated(typed);
  if (!request.ok()) return report_error(request.status());
  if (request->join.empty()) return run_local_job(*request);
  return request->role == "server" ? run_server(*request) : run_joining_worker(*request);
}

}  // namespace

void add_train(CLI::App& app, Chosen& chosen) {
  auto request = std::make_shared<TrainRequest>();
  CLI::App* command = app.add_subcommand("train", "Train a network with many workers");
  add_train_options(*command, *request);
  set_examples(*command,
               "  paceline train --model lenet --dataset mnist-5k --workers 4 --servers 2 --epochs 3\n"
               "  paceline train --reference --workers 4 --iterations 30 --json");
  command->callback([request, &chosen] { chosen.run = [request] { return run_train(*request); }; });
}

void add_run(CLI::App& app, Chosen& chosen) {
  auto request = std::make_shared<TrainRequest>();
  CLI::App* command = app.add_subcommand("run", "Start a job on this machine whose workers are a program of your own (paceline/torch.h)");
  command->add_option("--workers", request->workers, "Processes of the program")->capture_default_str();
  command->add_option("--servers", request->servers, "Server processes")->capture_default_str();
  add_limit_options(*command, *request);
  command->add_option("program", request->program, "The program and its arguments, behind --")->required();
  set_examples(*command, "  paceline run --workers 2 --servers 1 -- ./own_module\n  paceline run --workers 4 --servers 2 --json -- ./own_module --width 64");
  command->callback([request, &chosen] {
    chosen.run = [request] {
      const auto checked = validated(*request);
      return checked.ok() ? run_local_job(*checked) : report_error(checked.status());
    };
  });
}

}  // namespace paceline::cli

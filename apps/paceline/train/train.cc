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

}  // namespace paceline::cli

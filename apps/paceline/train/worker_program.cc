#include "paceline/train/worker_program.h"

#include <unistd.h>

#include "base/secret.h"
#include "paceline/data_root.h"
#include "paceline/train/roles.h"
#include "paceline/train/trainer_program.h"

namespace paceline::cli {

bool needs_trainer(const TrainRequest& request) { return request.program.empty() && !job::replay_file(request.settings); }

worker::WorkerRequest worker_request(const TrainRequest& request, const std::string& coordinator, std::int32_t rank,
                                     const std::string& label) {
  worker::WorkerRequest worker;
  worker.settings = request.settings;
  worker.data_root = data_root().string();
  worker.workers = request.workers;
  worker.reference = request.reference;
  worker.coordinator = coordinator;
  worker.rank = rank;
  worker.seed = draw_id();
  worker.label = label;
  worker.role = request.role;
  worker.prefetch = request.prefetch;
  worker.loader_threads = request.loader_threads;
  return worker;
}

worker::WorkerRequest listening(worker::WorkerRequest request, const HandedKey& key, const std::string& bind) {
  request.bind = bind;
  request.job_key = key.source();
  return request;
}

std::vector<std::string> coordinator_command(const TrainRequest& request) {
  std::vector<std::string> words = {own_path(), "coordinator", "--events", "--gathered"};
  const auto option = [&](const char* name, const std::string& value) { words.insert(words.end(), {name, value}); };
  option("--workers", std::to_string(request.workers));
  option("--servers", std::to_string(request.servers));
  option("--bind", request.bind);
  option("--port", std::to_string(request.coordinator_port));
  option("--deadline", fmt::format("{}s", request.settings.limits.deadline));
  option("--stall-deadline", fmt::format("{}s", request.settings.limits.stall_deadline));
  if (!request.trace_file.empty()) option("--trace", request.trace_file);
  if (request.settings.watching.metrics) words.emplace_back("--tell-iterations");
  if (request.settings.watching.pace) words.emplace_back("--tell-pace");
  return words;
}

std::vector<std::string> worker_command(const worker::WorkerRequest& worker, const HandedText& handed) {
  const std::string argument = worker::argument_of(worker.rank, handed);
  if (job::replay_file(worker.settings)) return {own_path(), "worker", argument};
  return {trainer_path(), argument};
}

int run_joining_worker(const TrainRequest& request) {
  if (const Status status = needs_trainer(request) ? trainer_exists() : Status(); !status.ok()) return report_error(status);
  const auto key = HandedKey::make(request.key);
  if (!key.ok()) return report_error(key.status());
  key->keep_on_exec();
  worker::WorkerRequest worker = listening(worker_request(request, request.join, request.rank, "worker"), *key, request.bind);
  if (!request.workers_given) worker.workers = 0;
  worker.alone = !request.ranks_elsewhere;
  const auto handed = HandedText::make(encode(worker));
  if (!handed.ok()) return report_error(handed.status());
  handed->keep_on_exec();
  std::vector<std::string> arguments = worker_command(worker, *handed);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  execv(argv[0], argv.data());
  return report_error(error(ErrorKind::kIo, "cannot start {}", arguments[0]));
}

}  // namespace paceline::cli

// `paceline train --model replay:FILE`: the worker and the reference, which need no LibTorch and are this program itself.
#include <unistd.h>

#include "base/log.h"
#include "paceline/beside.h"
#include "paceline/train/roles.h"
#include "replay/reference.h"
#include "replay/worker.h"
#include "transport/open/open.h"
#include "worker/end_by_signal.h"
#include "worker/worker_request.h"

namespace paceline::cli {
namespace {

using report::Json;
using worker::WorkerRequest;

Bytes machine_memory() { return Bytes{static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE)}; }

Status run_reference_mode(const WorkerRequest& request, const replay::LayerTable& table) {
  const auto progress = [&](Iteration iteration) {
    worker::print_reference_progress(
        {{"rank", 0}, {"iteration", iteration}, {"last", request.settings.task.iterations}, {"loss", nullptr}});
  };
  return worker::print_reference(request, [&](const auto& stopped) {
    return replay::run_reference(table, request.settings, request.workers, progress, stopped);
  });
}

Status run_worker_mode(const WorkerRequest& request, const replay::LayerTable& table, worker::EndBySignal& end_by_signal) {
  replay::Arena arena(table, static_cast<std::uint64_t>(request.settings.task.seed));
  PACELINE_ASSIGN_OR_RETURN(runtime::MemberOptions member, worker::member_options(request, replay::tensors_of(table)));
  PACELINE_ASSIGN_OR_RETURN(const auto key, worker::job_key(request));
  const auto open = [&key, at = member.coordinator] { return transport::open(at, {.key = key}); };
  PACELINE_ASSIGN_OR_RETURN(const auto process,
                            runtime::WorkerProcess::join(open, std::move(member), arena.parameters, arena.gradients));
  end_by_signal.set_process(process.get());
  const Status status = replay::run_worker(table, arena, *process);
  end_by_signal.set_process(nullptr);
  return status;
}

Status run(const std::string& argument) {
  PACELINE_ASSIGN_OR_RETURN(const std::string text, worker::text_behind(argument));
  PACELINE_ASSIGN_OR_RETURN(const WorkerRequest request, worker::decode_worker_request(text));
  log::start(request.label, spdlog::level::warn);
  PACELINE_ASSIGN_OR_RETURN(const replay::LayerTable table, replay_table(request.settings));
  if (request.reference) return run_reference_mode(request, table);
  worker::EndBySignal end_by_signal(request.alone);
  return run_worker_mode(request, table, end_by_signal);
}

}  // namespace

Result<replay::LayerTable> replay_table(const job::JobSpec& settings) {
  const std::string file = file_or_layer_table(job::replay_file(settings).value_or(""));
  PACELINE_ASSIGN_OR_RETURN(replay::LayerTable table, replay::read_table(file));
  table = replay::scaled(std::move(table), settings.task.scale);
  PACELINE_RETURN_IF_ERROR(replay::check_fits(table, machine_memory()));
  return table;
}

void add_worker(CLI::App& app, Chosen& chosen) {
  auto argument = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("worker", "A replaying worker, as 'paceline train' starts it");
  command->group("");  // for no person
  command->add_option("request", *argument, "Whose request is handed on by which descriptor, as JSON")->required();
  command->callback([argument, &chosen] { chosen.run = [argument] { return worker::exit_code(run(*argument)); }; });
}

}  // namespace paceline::cli

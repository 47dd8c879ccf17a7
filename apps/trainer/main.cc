// paceline-trainer: a worker, or the reference, as a process with LibTorch. Started by `paceline train` with one argument that says
// where its worker::WorkerRequest is (worker/worker_request.h), or several (forked_workers.h); or by `paceline profile`, whose
// request is {"label", "profile": {...}} (profile_mode.h). The exit code is the command line's.
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "base/log.h"
#include "base/new_file.h"
#include "forked_workers.h"
#include "profile_mode.h"
#include "trainer/caught.h"
#include "trainer/measured_layers.h"
#include "trainer/model_files.h"
#include "trainer/reference.h"
#include "trainer/worker_loop.h"
#include "transport/open/open.h"
#include "worker/end_by_signal.h"
#include "worker/worker_request.h"

namespace paceline::trainer {
namespace {

using report::Json;
using worker::WorkerRequest;

Json to_json(const Progress& progress) {
  Json json{{"rank", 0}, {"iteration", progress.iteration}, {"last", progress.last}, {"loss", progress.loss}};
  if (progress.accuracy >= 0) json["accuracy"] = progress.accuracy;
  return json;
}

Status run_reference_mode(const WorkerRequest& request, Workload& workload) {
  const std::string& file = request.settings.saving.export_file;
  if (!file.empty()) PACELINE_RETURN_IF_ERROR(can_write(system_files(), file));
  const auto progress = [](const Progress& now) { worker::print_reference_progress(to_json(now)); };
  const Status status = worker::print_reference(
      request, [&](const auto& stopped) { return run_reference(workload, request.settings, request.workers, progress, stopped); });
  const bool trained = status.ok() || status.kind() == ErrorKind::kCancelled;
  // The module holds rank 0's buffers after the last evaluation.
  if (trained && !file.empty()) PACELINE_RETURN_IF_ERROR(export_model(file, workload.adapter(), request.settings, workload.data()));
  return status;
}

Status run_worker_mode(const WorkerRequest& request, Workload& workload, wire::LayerSeconds seconds,
                       worker::EndBySignal& end_by_signal) {
  PACELINE_ASSIGN_OR_RETURN(runtime::MemberOptions member, worker::member_options(request, workload.adapter().table()));
  member.seconds = std::move(seconds);
  PACELINE_ASSIGN_OR_RETURN(const auto key, worker::job_key(request));
  const auto open = [&key, at = member.coordinator] { return transport::open(at, {.key = key}); };
  PACELINE_ASSIGN_OR_RETURN(
      const auto process,
      runtime::WorkerProcess::join(open, std::move(member), workload.adapter().parameters(), workload.adapter().gradients()));
  end_by_signal.set_process(process.get());
  Status status = caught(fmt::format("worker {}", process->rank().value), [&] { return workload.share_among(process->workers()); });
  status = status.ok() ? run_worker(workload, *process) : process->fail(status);
  end_by_signal.set_process(nullptr);
  return status;
}

Status run(const std::string& text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_object() && json.contains("profile")) {
    log::start("profile", spdlog::level::warn);
    return run_profile_mode(json["profile"]);
  }
  PACELINE_ASSIGN_OR_RETURN(const WorkerRequest request, worker::decode_worker_request(text));
  log::start(request.label, spdlog::level::warn);
  std::optional<worker::EndBySignal> end_by_signal;
  if (!request.reference) end_by_signal.emplace(request.alone);  // before torch makes threads
  PACELINE_ASSIGN_OR_RETURN(const auto workload, Workload::open(request.settings, request.workers, request.data_root));
  wire::LayerSeconds seconds;
  if (!request.reference) {
    PACELINE_ASSIGN_OR_RETURN(seconds, measure_layers(request.settings));
  }
  PACELINE_RETURN_IF_ERROR(workload->make_network());
  workload->read_ahead(request.prefetch, request.loader_threads);
  return request.reference ? run_reference_mode(request, *workload)
                           : run_worker_mode(request, *workload, std::move(seconds), *end_by_signal);
}

Status run_argument(char* argument) {
  if (argument[0] == '[') {
    PACELINE_ASSIGN_OR_RETURN(const auto mine, fork_workers(argument));
    return mine ? run(*mine) : Status();
  }
  PACELINE_ASSIGN_OR_RETURN(const std::string text, worker::text_behind(argument));
  return run(text);
}

int run_program(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "paceline-trainer: error: this program is started by 'paceline train'\n");
    return 2;
  }
  return worker::exit_code(caught("", [&] { return run_argument(argv[1]); }));
}

}  // namespace
}  // namespace paceline::trainer

int main(int argc, char** argv) {
  const int code = paceline::trainer::run_program(argc, argv);
  // LibTorch would take apart some ten thousand registered operators, in each forked worker on pages that are copied for it first.
  std::fflush(nullptr);
  std::_Exit(code);
}

// paceline-trainer: a worker, or the reference, as a process with LibTorch. Started by `paceline train` with one argument, a JSON
// object:
//   {"settings": {...}, "data_root": DIR, "workers": W, "prefetch": D, "loader_threads": T,
//    "reference": true}                                          prints progress lines and the report, one JSON object per line
//   {..., "coordinator": "HOST:PORT", "rank": R or -1, "seed": N}  joins a job; "workers": 0 takes the coordinator's number
//   {..., "role": "both", "bind": "HOST"}                          as a worker and a server, which listens there
//   {"profile": {...}}                                             measures a training step (profile_mode.h)
//   {..., "alone": true}                                           nobody else looks after this process: signals end it
// The exit code is the command line's; a failed process prints its one line of error unless "quiet" says that its parent does.
#include <csignal>
#include <cstdio>
#include <iostream>
#include <mutex>

#include <unistd.h>

#include "base/log.h"
#include "profile_mode.h"
#include "runtime/signals.h"
#include "trainer/model_files.h"
#include "trainer/reference.h"
#include "trainer/worker_loop.h"
#include "transport/tcp/tcp_transport.h"

namespace paceline::trainer {
namespace {

using runtime::Json;

volatile std::sig_atomic_t interrupted = 0;

void on_signal(int) { interrupted = 1; }

Result<runtime::JobSettings> settings_of(const Json& request) {
  wire::Settings pairs;
  for (const auto& [name, value] : request.at("settings").items()) pairs.emplace_back(name, value.get<std::string>());
  PACELINE_ASSIGN_OR_RETURN(const runtime::JobSettings settings, runtime::from_settings(pairs));
  return validated(settings);
}

Json to_json(const Progress& progress) {
  Json json{{"rank", 0}, {"iteration", progress.iteration}, {"last", progress.last}, {"loss", progress.loss}};
  if (progress.accuracy >= 0) json["accuracy"] = progress.accuracy;
  return json;
}

Status run_reference_mode(const Json& request, const runtime::JobSettings& settings, Workload& workload) {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  const std::int32_t workers = request.at("workers");
  if (!settings.export_file.empty()) PACELINE_RETURN_IF_ERROR(can_export(settings.export_file));
  const auto progress = [](const Progress& now) { std::cout << Json{{"progress", to_json(now)}}.dump() << std::endl; };
  PACELINE_ASSIGN_OR_RETURN(const auto reports,
                            run_reference(workload, settings, workers, progress, [] { return interrupted != 0; }));
  PACELINE_ASSIGN_OR_RETURN(const Json report, runtime::job_report(settings, {workers, 0}, reports, {}));
  std::cout << Json{{"report", report}}.dump() << std::endl;
  // The module holds rank 0's buffers after the last evaluation.
  if (!settings.export_file.empty()) PACELINE_RETURN_IF_ERROR(export_model(settings.export_file, workload.adapter(), settings));
  return interrupted != 0 ? Status(ErrorKind::kCancelled, "interrupted") : Status();
}

constexpr int kInterrupted = 130;

// Ends a worker that somebody started by hand when a signal asks for it. One that is part of a whole job on a machine is told by
// the coordinator, which lets all workers end in the same iteration.
class EndBySignal {
 public:
  explicit EndBySignal(bool alone) {
    if (alone) {
      signals_.emplace(std::initializer_list<int>{SIGINT, SIGTERM}, [this](int) { on_signal(); });
      return;
    }
    std::signal(SIGINT, SIG_IGN);
    std::signal(SIGTERM, SIG_IGN);
  }
  // From now on the job is told, the first time; nullptr: not any more.
  void set_process(runtime::WorkerProcess* process) {
    const std::lock_guard lock(mutex_);
    process_ = process;
  }

 private:
  void on_signal() {
    const std::lock_guard lock(mutex_);
    if (process_ != nullptr) return std::exchange(process_, nullptr)->interrupt();
    std::fprintf(stderr, "paceline: error: interrupted by a signal\n");
    _exit(kInterrupted);
  }

  std::mutex mutex_;
  runtime::WorkerProcess* process_ = nullptr;
  std::optional<runtime::Signals> signals_;  // last: its thread uses the others
};

Status run_worker_mode(const Json& request, const runtime::JobSettings& settings, Workload& workload, EndBySignal& end_by_signal) {
  runtime::MemberOptions member;
  PACELINE_ASSIGN_OR_RETURN(member.coordinator, transport::parse_address(request.at("coordinator").get<std::string>()));
  member.wanted_rank = request.at("rank");
  member.world_workers = request.at("workers");
  if (request.value("role", std::string("worker")) == "both") {
    member.role = session::Role::kBoth;
    member.listen = {request.at("bind"), 0};
  }
  member.silence_deadline = from_seconds(settings.deadline);
  if (request.value("alone", false))
    member.join_deadline = member.silence_deadline;  // a launcher's ranks may come before the coordinator
  member.release = PACELINE_VERSION;
  member.seed = request.at("seed");
  member.table = workload.adapter().table();
  member.settings = to_settings(settings);
  PACELINE_ASSIGN_OR_RETURN(const auto process,
                            runtime::WorkerProcess::join([] { return transport::try_make_tcp_transport({}); }, std::move(member),
                                                         workload.adapter().parameters(), workload.adapter().gradients()));
  end_by_signal.set_process(process.get());
  Status status = workload.share_among(process->workers());
  status = status.ok() ? run_worker(workload, *process) : process->fail(status);
  end_by_signal.set_process(nullptr);
  return status;
}

Result<std::unique_ptr<Workload>> open_workload(const Json& request, const runtime::JobSettings& settings) {
  const std::string data_root = request.at("data_root");
  PACELINE_ASSIGN_OR_RETURN(auto workload, Workload::open(settings, request.at("workers"), data_root));
  workload->read_ahead(request.at("prefetch"), request.at("loader_threads"));
  return workload;
}

Status run(const Json& request) {
  if (request.contains("profile")) return run_profile_mode(request["profile"]);
  PACELINE_ASSIGN_OR_RETURN(const runtime::JobSettings settings, settings_of(request));
  if (request.value("reference", false)) {
    PACELINE_ASSIGN_OR_RETURN(const auto workload, open_workload(request, settings));
    return run_reference_mode(request, settings, *workload);
  }
  EndBySignal end_by_signal(request.value("alone", false));  // before torch makes threads
  PACELINE_ASSIGN_OR_RETURN(const auto workload, open_workload(request, settings));
  return run_worker_mode(request, settings, *workload, end_by_signal);
}

int exit_code(const Status& status) {
  if (status.ok()) return 0;
  if (status.kind() == ErrorKind::kBadRequest) return 2;
  return status.kind() == ErrorKind::kCancelled ? kInterrupted : 1;
}

int run_program(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "paceline-trainer: error: this program is started by 'paceline train'\n");
    return 2;
  }
  Status status;
  bool quiet = false;
  try {
    const Json request = Json::parse(argv[1]);
    quiet = request.value("quiet", false);
    log::start(request.value("label", std::string("trainer")), spdlog::level::warn);
    status = run(request);
  } catch (const std::exception& problem) {  // torch and JSON report by exceptions
    status = Status(ErrorKind::kIo, problem.what());
    quiet = false;
  }
  if (!status.ok() && !quiet) std::fprintf(stderr, "paceline: error: %s\n", status.message().c_str());
  return exit_code(status);
}

}  // namespace
}  // namespace paceline::trainer

int main(int argc, char** argv) { return paceline::trainer::run_program(argc, argv); }

// `paceline coordinator`, and `paceline train --join ... --role server`: the two roles of a job that run inside this program.
#include "runtime/coordinator.h"

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <random>

#include "base/log.h"
#include "base/new_file.h"
#include "base/text.h"
#include "base/utf8.h"
#include "paceline/option_files.h"
#include "paceline/progress.h"
#include "paceline/train/choose_collective.h"
#include "paceline/train/choose_schedule.h"
#include "paceline/train/job_options.h"
#include "paceline/train/roles.h"
#include "runtime/checkpoint_keeper.h"
#include "runtime/server_process.h"
#include "runtime/signals.h"
#include "transport/tcp/tcp_transport.h"

namespace paceline::cli {
namespace {

using runtime::Json;

std::uint64_t drawn() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32 | device()) | 1;
}

// Prints a line at once, for a parent process that reads along.
void print_event(const char* name, const Json& value) { std::cout << Json{{name, value}}.dump() << std::endl; }

// A timeline that cannot be written must not stop the training, so it is found out before that one is needed.
bool can_trace(const std::string& path) {
  const Status status = is_utf8(path) ? can_write(system_files(), path)
                                      : error(ErrorKind::kBadRequest, "its name is no UTF-8 text, and the report has it");
  if (!status.ok()) log::warn("--trace {} cannot be written, and training goes on without it: {}", path, status.message());
  return status.ok();
}

Json write_timeline(const runtime::TimelineCollector& timeline, const std::string& path) {
  if (timeline.empty()) {
    log::warn("--trace {} was not written: the job ended before its processes had told what they recorded", path);
    return nullptr;
  }
  auto written = timeline.write(system_files(), path);
  if (written.ok()) return std::move(*written);
  log::warn("--trace {} was not written: {}", path, written.status().message());
  return nullptr;
}

int finish(const wire::Stop& stop) {
  const Status status = stop.status();
  return status.ok() ? kDone : report_error(status);
}

}  // namespace

std::uint64_t process_seed() { return drawn(); }

int run_coordinator(const CoordinatorRequest& request) {
  log::start("coordinator", spdlog::level::warn);
  auto transport = transport::try_make_tcp_transport({});
  if (!transport.ok()) return report_error(transport.status());
  transport::Loop& loop = (*transport)->loop();

  const SystemClock clock;
  std::unique_ptr<ProgressBar> bar;
  wire::Stop stop;
  Status not_all;  // what a job that went through did not do
  std::optional<Json> report;
  runtime::CoordinatorOptions options;
  options.listen = {request.bind, request.port};
  options.workers = request.workers;
  options.servers = request.servers;
  options.silence_deadline = from_seconds(request.spec.limits.deadline);
  options.gathering_deadline = from_seconds(request.spec.limits.stall_deadline);
  options.release = PACELINE_VERSION;
  options.job = drawn();
  runtime::CheckpointKeeper checkpoints(system_files(), {.workers = request.workers,
                                                         .servers = request.servers,
                                                         .release = options.release,
                                                         .warn = [](const std::string& warning) { log::warn("{}", warning); }});
  runtime::TimelineCollector timeline;
  if (!request.trace_file.empty() && can_trace(request.trace_file)) options.timeline = &timeline;
  runtime::CoordinatorCallbacks callbacks;
  Json tuned, collective;
  callbacks.on_agreed = [&](job::JobSpec& settings, const wire::TensorTable& table, const runtime::Gathering& gathering) -> Status {
    PACELINE_RETURN_IF_ERROR(checkpoints.begin(settings, table));
    if (request.servers == 0) {
      PACELINE_ASSIGN_OR_RETURN(collective, choose_collective(settings, table, request.workers, gathering));
      checkpoints.record(settings);
      return {};
    }
    PACELINE_ASSIGN_OR_RETURN(tuned,
                              choose_schedule(settings, table, request.workers, request.servers, gathering, measured_server_cost));
    return {};
  };
  callbacks.on_saved = [&](const session::PeerName& from, Iteration iteration, const std::string& part) {
    checkpoints.on_saved(from, iteration, part);
  };
  callbacks.on_progress = [&](const Json& progress) {
    if (request.events) return print_event("progress", progress);
    if (progress.contains("pace") || progress.value("rank", 0) != 0) return;
    if (bar == nullptr)
      bar = std::make_unique<ProgressBar>("training", progress.value("last", std::int64_t{0}), ShowProgress::kOnTerminal, clock);
    bar->update(progress.value("done", progress.value("iteration", std::int64_t{0})));
  };
  callbacks.on_ended = [&](const wire::Stop& reason, const std::optional<Json>& result) {
    stop = reason;
    report = result;
    loop.stop();
  };
  runtime::Coordinator coordinator(**transport, options, callbacks);
  // Before anything makes a thread, so that no thread takes the signals.
  const runtime::Signals signals(loop, {SIGINT, SIGTERM}, [&](int) { coordinator.interrupt("interrupted by the user"); });
  const auto address = coordinator.start();
  if (!address.ok()) return report_error(address.status());
  if (request.events)
    print_event("listening", address->text());
  else
    fmt::print(stderr, "paceline: coordinator at {}, waiting for {} workers and {} servers\n", address->text(), request.workers,
               request.servers);

  loop.run();
  checkpoints.finish();
  if (const Status saved = checkpoints.last_one(); !saved.ok() && stop.kind == wire::StopKind::kDone) not_all = saved;
  bar.reset();
  if (report) {
    (*report)["tuned"] = tuned;
    (*report)["collective"] = collective;
  }
  const Json trace = options.timeline != nullptr ? write_timeline(timeline, request.trace_file) : Json();
  if (report) (*report)["trace"] = trace;
  if (report && !checkpoints.newest().empty()) (*report)["checkpoint"] = checkpoints.newest();
  if (stop.kind == wire::StopKind::kFailed && stop.error != ErrorKind::kBadRequest && !checkpoints.newest().empty()) {
    stop.reason += fmt::format(". The last checkpoint is {}; go on with --checkpoint {} --resume", checkpoints.newest(),
                               std::filesystem::path(checkpoints.newest()).parent_path().string());
  }
  if (report) {
    if (request.events)
      print_event("report", *report);
    else if (request.json)
      std::cout << report->dump(2) << "\n";
    else
      std::cout << runtime::report_text(*report);
  }
  std::cout.flush();
  return not_all.ok() ? finish(stop) : report_error(not_all);
}

int run_server(const TrainRequest& request) {
  log::start("server", spdlog::level::warn);
  const auto coordinator = transport::parse_address(request.join);
  if (!coordinator.ok()) return report_error(coordinator.status());
  auto transport = transport::try_make_tcp_transport({});
  if (!transport.ok()) return report_error(transport.status());
  transport::Loop& loop = (*transport)->loop();

  runtime::MemberOptions member;
  member.coordinator = *coordinator;
  member.wanted_rank = request.rank;
  member.listen = {request.bind, 0};
  member.silence_deadline = from_seconds(request.settings.limits.deadline);
  member.coordinator_deadline = member.join_deadline = member.silence_deadline;
  member.release = PACELINE_VERSION;
  member.seed = drawn();
  wire::Stop stop;
  runtime::ServerProcess server(**transport, member, [&](const wire::Stop& reason) {
    stop = reason;
    loop.stop();
  });
  const runtime::Signals signals(loop, {SIGINT, SIGTERM}, [&](int) { server.interrupt("a server was asked to end by a signal"); });
  if (const Status status = server.start(); !status.ok()) return report_error(status);
  loop.run();
  return finish(stop);
}

void add_coordinator(CLI::App& app, Chosen& chosen) {
  auto request = std::make_shared<CoordinatorRequest>();
  CLI::App* command = app.add_subcommand("coordinator", "Start a job that workers and servers join from anywhere");
  command->add_option("--workers", request->workers, "Workers of the job")->capture_default_str()->check(CLI::Range(1, 100'000));
  command->add_option("--servers", request->servers, "Servers of the job; 0: the workers train with --collective")
      ->capture_default_str()
      ->check(CLI::Range(0, 100'000));
  command
      ->add_option("--bind", request->bind,
                   "Address to listen on; other than loopback only in a closed network, for there is no authentication")
      ->capture_default_str();
  command->add_option("--port", request->port, "Port; 0: the kernel chooses, and it is printed")->capture_default_str();
  add_job_options(*command->add_option_group("Limits"), request->spec, job::Section::kLimits);
  command->add_option("--trace", request->trace_file, kTraceHelp)->check(not_empty);
  command->add_flag("--json", request->json, "The report as one JSON document on standard output");
  command->add_flag("--events", request->events, "One JSON object per line as things happen: listening, progress, report");
  set_examples(*command,
               "  paceline coordinator --workers 2 --servers 1 --port 4100\n"
               "  paceline train --join 127.0.0.1:4100 --role server        (in a second terminal; workers in a third and fourth)");
  command->callback([request, &chosen] { chosen.run = [request] { return run_coordinator(*request); }; });
}

}  // namespace paceline::cli

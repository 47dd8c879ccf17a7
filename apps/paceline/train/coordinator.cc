// `paceline coordinator`, and `paceline train --join ... --role server`: the two roles of a job that run inside this program.
#include <csignal>
#include <cstdio>
#include <iostream>
#include <optional>

#include "base/amounts.h"
#include "base/log.h"
#include "base/secret.h"
#include "base/text.h"
#include "paceline/beside.h"
#include "paceline/option_files.h"
#include "paceline/progress.h"
#include "paceline/train/event_lines.h"
#include "paceline/train/job_options.h"
#include "paceline/train/roles.h"
#include "paceline/within.h"
#include "planner/tuning/decide.h"
#include "runtime/coordinator_process.h"
#include "runtime/node.h"
#include "runtime/signals.h"
#include "transport/open/open.h"

namespace paceline::cli {
namespace {

using report::Json;
using Worth = EventLines::Worth;

constexpr std::int64_t kLastPort = 65'535;

std::string event(const char* name, const Json& value) { return Json{{name, value}}.dump(); }

// Workers that join may replay a table that comes along, by its name; here it is predicted with by its file.
Result<Json> decided(job::JobSpec& spec, const wire::TensorTable& table, const CoordinatorRequest& request,
                     const runtime::Gathering& gathering) {
  const std::string model = spec.task.model;
  if (const auto file = job::replay_file(spec)) spec.task.model = "replay:" + file_or_layer_table(*file);
  spec.watching.metrics = spec.watching.metrics || request.spec.watching.metrics;
  spec.watching.pace = spec.watching.pace || request.spec.watching.pace;
  auto report = tuning::decide(spec, table, request.workers, request.servers, gathering);
  spec.task.model = model;
  return report;
}

runtime::CoordinatorProcessOptions options_of(const CoordinatorRequest& request, const transport::Address& place) {
  runtime::CoordinatorProcessOptions options;
  options.coordinator.listen = place;
  options.coordinator.workers = request.workers;
  options.coordinator.servers = request.servers;
  options.coordinator.silence_deadline = from_seconds(request.spec.limits.deadline);
  options.coordinator.gathering_deadline = from_seconds(request.spec.limits.stall_deadline);
  options.coordinator.release = PACELINE_VERSION;
  options.coordinator.job = draw_id();
  options.trace_file = request.trace_file;
  return options;
}

}  // namespace

int run_coordinator(const CoordinatorRequest& request) {
  log::start("coordinator", spdlog::level::warn);
  if (const Status status = check_output("--trace", request.trace_file); !status.ok()) return report_error(status);
  const auto place = transport::place_at(request.bind, request.port);
  if (!place.ok()) return report_error(place.status());
  const auto key = choose_key(request.security, {&*place, 1});
  if (!key.ok()) return report_error(key.status());
  auto transport = transport::open(*place, {.key = *key});
  if (!transport.ok()) return report_error(transport.status());
  transport::Loop& loop = (*transport)->loop();

  const SystemClock clock;
  std::unique_ptr<ProgressBar> bar;
  std::optional<EventLines> events;  // with --events
  runtime::CoordinatorProcessOptions options = options_of(request, *place);
  options.decide = [&](job::JobSpec& spec, const wire::TensorTable& table, const runtime::Gathering& gathering) {
    if (events && request.tells_gathered) {
      events->add(event("gathered", true), Worth::kKept);
      events->wait_written();  // before anybody is welcomed, and so can end well
    }
    return decided(spec, table, request, gathering);
  };
  options.on_progress = [&](const Json& progress) {
    if (events) return events->add(event("progress", progress), Worth::kPassing);
    const auto last = progress.value("last", std::int64_t{0});
    if (last == 0 || progress.value("rank", 0) != 0) return;  // a program need not say how long it trains
    if (bar == nullptr) bar = std::make_unique<ProgressBar>("training", last, ShowProgress::kOnTerminal, clock);
    bar->update(progress.value("done", progress.value("iteration", std::int64_t{0})));
  };
  options.on_ended = [&] { loop.stop(); };
  runtime::CoordinatorProcess coordinator(**transport, options);
  // Before anything makes a thread, so that no thread takes the signals.
  const runtime::Signals signals(loop, {SIGINT, SIGTERM}, [&](int) { coordinator.interrupt("interrupted by the user"); });
  const auto address = coordinator.start();
  if (!address.ok()) return report_error(address.status());
  if (request.events)
    events.emplace(stdout).add(event("listening", address->text()), Worth::kKept);
  else
    say(stderr, fmt::format("paceline: coordinator at {}, waiting for {} and {}\n", address->text(),
                            counted(request.workers, "worker"), counted(request.servers, "server")));

  loop.run();
  bar.reset();
  auto [status, report] = coordinator.ending();
  if (report) {
    (*report)["security"] = transport::security_text(*key);
    if (events)
      events->add(event("report", *report), Worth::kKept);
    else
      std::cout << (request.json ? report->dump(2) + "\n"
                                 : report::report_text(*report, request.verbose ? report::Detail::kAll : report::Detail::kUsual))
                << std::flush;
  }
  events.reset();
  return status.ok() ? kDone : report_error(status);
}

int run_server(const TrainRequest& request) {
  log::start("server", spdlog::level::warn);
  const auto coordinator = transport::parse_address(request.join);
  if (!coordinator.ok()) return report_error(coordinator.status());
  auto transport = transport::open(*coordinator, {.key = request.key});
  if (!transport.ok()) return report_error(transport.status());
  transport::Loop& loop = (*transport)->loop();

  runtime::MemberOptions member;
  member.coordinator = *coordinator;
  member.wanted_rank = request.rank;
  const auto own = transport::own_place(request.bind, *coordinator);
  if (!own.ok()) return report_error(own.status());
  member.listen = *own;
  member.silence_deadline = from_seconds(request.settings.limits.deadline);
  member.coordinator_deadline = member.join_deadline = member.silence_deadline;
  member.release = PACELINE_VERSION;
  member.seed = draw_id();
  wire::Stop stop;
  const auto server = runtime::make_server(**transport, member, [&](const wire::Stop& reason) {
    stop = reason;
    loop.stop();
  });
  const runtime::Signals signals(loop, {SIGINT, SIGTERM}, [&](int) {
    server->interrupt(Status(ErrorKind::kCancelled, "a server was asked to end by a signal"));
  });
  if (const Status status = server->start(); !status.ok()) return report_error(status);
  loop.run();
  return stop.status().ok() ? kDone : report_error(stop.status());
}

void add_coordinator(CLI::App& app, Chosen& chosen) {
  auto request = std::make_shared<CoordinatorRequest>();
  CLI::App* command = app.add_subcommand("coordinator", "Start a job that workers and servers join from anywhere");
  within(command->add_option("--workers", request->workers, "Workers of the job"), 1, kMostProcesses)->capture_default_str();
  within(command->add_option("--servers", request->servers, "Servers of the job; 0: the workers train with --collective"), 0,
         kMostProcesses)
      ->capture_default_str();
  command
      ->add_option("--bind", request->bind,
                   "Host to listen on, or unix:/PATH; a host that is not the loopback needs a key (--job-key-file)")
      ->capture_default_str();
  within(command->add_option("--port", request->port, "Port; 0: the kernel chooses, and it is printed"), 0, kLastPort)
      ->capture_default_str();
  add_security_options(*command->add_option_group("Security"), request->security);
  add_job_options(*command->add_option_group("Limits"), request->spec, job::Section::kLimits);
  command->add_option("--trace", request->trace_file, kTraceHelp)->check(not_empty);
  command->add_flag("--json", request->json, "The report as one JSON document on standard output");
  command->add_flag("--verbose", request->verbose, kVerboseHelp);
  command->add_flag("--events", request->events, "One JSON object per line as things happen: listening, progress, report");
  command->add_flag("--gathered", request->tells_gathered, "With --events: tell too when everybody has joined")
      ->group("");  // for no person
  command->add_flag("--tell-iterations", request->spec.watching.metrics, "Workers tell of every iteration")->group("");
  command->add_flag("--tell-pace", request->spec.watching.pace, "The pacing server tells of every iteration")->group("");
  set_examples(*command,
               "  paceline coordinator --workers 2 --servers 1 --port 4100\n"
               "  paceline train --join 127.0.0.1:4100 --role server        (in a second terminal; workers in a third and fourth)");
  command->callback([request, &chosen] { chosen.run = [request] { return run_coordinator(*request); }; });
}

}  // namespace paceline::cli

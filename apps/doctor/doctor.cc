// `paceline doctor`: what a person needs to know before a job, of this machine and of the way to others.
#include <csignal>
#include <iostream>
#include <memory>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/text.h"
#include "base/wrong.h"
#include "doctor/report.h"
#include "doctor/started_there.h"
#include "paceline/beside.h"
#include "paceline/command.h"
#include "paceline/machine.h"
#include "paceline/option_files.h"
#include "paceline/within.h"
#include "runtime/signals.h"
#include "transport/open/open.h"

namespace paceline::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::vector<std::string> hosts;
  int serve = -1;
  std::string bind = "127.0.0.1";
  bool attended = false;  // while it serves: ends with standard input
  bool start = false;     // the doctors on the hosts
  std::string ssh = kUsualSsh, remote;
  std::string label;  // a rate, of links to the hosts; "": what their interfaces say
  bool json = false;
};

// What would be without effect.
Status check(const Options& options, bool is_serving, bool binds) {
  if (is_serving && !options.hosts.empty())
    return error(ErrorKind::kBadRequest, "--serve answers others; it cannot ask {} at the same time", options.hosts[0]);
  if (!is_serving && binds) return error(ErrorKind::kBadRequest, "--bind is for --serve; give it, or leave --bind out");
  for (const auto& [name, given] : {std::pair("--start", options.start), {"--label", !options.label.empty()}}) {
    if (given && options.hosts.empty())
      return error(ErrorKind::kBadRequest, "{} is for the way to hosts; name them, or leave it out", name);
  }
  for (const auto& [name, given] : {std::pair("--ssh", options.ssh != kUsualSsh), {"--remote", !options.remote.empty()}}) {
    if (given && !options.start) return error(ErrorKind::kBadRequest, "{} is for --start; give it, or leave {} out", name, name);
  }
  return {};
}

int examine(const Options& options) {
  std::optional<double> label;
  if (!options.label.empty()) {
    const auto rate = parse_rate(options.label);
    if (!rate.ok()) return report_error(error(ErrorKind::kBadRequest, "--label {}", rate.status().message()));
    label = rate->value;
  }
  const std::string remote = options.remote.empty() ? program_beside("paceline").string() : options.remote;
  std::vector<StartedThere> doctors;
  for (const std::string& host : options.hosts) {
    if (options.start) {
      auto there = start_there(host, options.ssh, remote);
      if (!there.ok()) return report_error(there.status());
      doctors.push_back(std::move(*there));
    } else {
      const auto address = doctor_address(host, "doctor");
      if (!address.ok()) return report_error(address.status());
      doctors.push_back({.address = *address, .ssh = nullptr, .ready = {}});
    }
  }
  const Machine machine = this_machine();
  Json report = report_of(machine, ask_loopback({}));
  std::vector<MeasuredWay> ways;
  for (const StartedThere& there : doctors) ways.push_back(measure_way(there.address, machine.interfaces, label, there.ready));
  add_ways(report, ways);
  if (options.json)
    fmt::print("{}\n", report.dump(2));
  else
    print_text(report);
  std::fflush(stdout);
  for (const MeasuredWay& way : ways) {
    if (way.facts.reached.ok()) continue;
    report_error(at(way.facts.host, way.facts.reached));
    return kFailed;
  }
  return report["loopback"]["reachable"].get<bool>() ? kDone : kFailed;
}

int serve(const Options& options) {
  const transport::Address place{options.bind, static_cast<std::uint16_t>(options.serve)};
  auto transport = transport::open(place);
  if (!transport.ok()) return report_error(transport.status());
  transport::Loop& loop = (*transport)->loop();
  const runtime::Signals signals(loop, {SIGINT, SIGTERM}, [&](int) { loop.stop(); });
  EchoServer server(**transport, PACELINE_VERSION);
  const auto address = server.start(place);
  if (!address.ok()) return report_error(address.status());
  if (options.json)
    std::cout << Json{{"listening", address->text()}}.dump() << std::endl;
  else
    fmt::print(stderr, "paceline: answering doctors at {}; end with Ctrl-C\n", address->text());
  // Whoever has started it by ssh lives as long as that.
  if (options.attended) {
    std::thread([] {
      char ignored[64];
      while (::read(STDIN_FILENO, ignored, sizeof ignored) > 0) continue;
      kill(getpid(), SIGTERM);
    }).detach();
  }
  loop.run();
  return kDone;
}

}  // namespace

void add_doctor(CLI::App& app, Chosen& chosen) {
  const auto options = std::make_shared<Options>();
  CLI::App* doctor =
      app.add_subcommand("doctor", "Examine this machine, and the way to hosts where 'paceline doctor --serve' runs");
  doctor
      ->add_option("hosts", options->hosts,
                   fmt::format("HOST or HOST:PORT of doctors that serve; the port is {} unless given", kDoctorPort))
      ->delimiter(',');
  CLI::Option* serving =
      within(doctor->add_option(
                 "--serve", options->serve,
                 fmt::format("Answer doctors at this port until interrupted; usual: {}, 0: the kernel chooses", kDoctorPort)),
             0, 65'535);
  const CLI::Option* binding =
      doctor
          ->add_option(
              "--bind", options->bind,
              "With --serve: address to listen on; other than loopback only in a closed network, for there is no authentication")
          ->capture_default_str();
  doctor->add_flag("--attended", options->attended)->group("");
  doctor->add_flag("--start", options->start,
                   "Start the doctors on the hosts by ssh, by the names that it knows, and end them afterwards");
  doctor->add_option("--ssh", options->ssh, "With --start: how a host is reached")->capture_default_str()->check(not_empty);
  doctor->add_option("--remote", options->remote, "With --start: this program there, if it lies elsewhere")
      ->check(not_empty)
      ->option_text("FILE");
  doctor
      ->add_option("--label", options->label,
                   "What the links to the hosts should carry, such as 1gbit; else what this machine's interface says")
      ->option_text("RATE")
      ->check(not_empty);
  doctor->add_flag("--json", options->json,
                   "One JSON document; times in seconds, rates in bytes/s. With --serve: {\"listening\": ADDRESS}");
  set_examples(*doctor,
               "  paceline doctor\n"
               "  paceline doctor --start node1 node2 --label 1gbit\n"
               "  paceline doctor --serve 4170 &  paceline doctor 127.0.0.1:4170 --json");
  doctor->callback([options, serving, binding, &chosen] {
    chosen.run = [options, is_serving = serving->count() > 0, binds = binding->count() > 0] {
      if (const Status status = check(*options, is_serving, binds); !status.ok()) return report_error(status);
      return is_serving ? serve(*options) : examine(*options);
    };
  });
}

}  // namespace paceline::cli

// `paceline lab`: hosts with shaped links on this machine, and commands on them.
#include "lab/lab.h"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/amounts.h"
#include "base/text.h"
#include "lab/placeholders.h"
#include "lab/rights.h"
#include "lab/run.h"
#include "paceline/command.h"
#include "paceline/environment.h"
#include "paceline/machine.h"
#include "paceline/within.h"
#include "runtime/signals.h"

namespace paceline::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  int hosts = 4;
  std::vector<std::string> rates = {"1gbit"};
  std::string queue = "10ms";
  std::string burst;
  std::vector<double> cpu = {0};
  std::string measure = "500ms";
  std::vector<std::string> competing;
  std::string limit;
  std::vector<std::string> each;
  std::vector<std::string> command;
  bool end_with_first = false;
  bool json = false;
};

struct Competing {
  int from = 0, to = 0;
  std::optional<BytesPerSecond> pace;
};

struct Plan {
  lab::LabOptions lab;
  Duration measure{};
  std::vector<Competing> competing;
  std::optional<Duration> limit;
  std::vector<lab::HostCommand> commands;
};

// `what` in front of a problem with an option's value.
Status in_option(const char* name, const Status& status) {
  return Status(status.kind(), fmt::format("{}: {}", name, status.message()));
}

Result<Competing> parse_competing(const std::string& text, int hosts) {
  Competing one;
  const std::size_t first = text.find(':');
  const std::size_t second = first == std::string::npos ? first : text.find(':', first + 1);
  const auto number = [&](std::size_t begin, std::size_t end, int& value) {
    const auto [stop, problem] = std::from_chars(text.data() + begin, text.data() + end, value);
    return problem == std::errc() && stop == text.data() + end && value >= 0 && value < hosts;
  };
  if (first == std::string::npos || !number(0, first, one.from) ||
      !number(first + 1, second == std::string::npos ? text.size() : second, one.to) || one.from == one.to) {
    return error(ErrorKind::kBadRequest, "--competing '{}' names no two hosts; legal: FROM:TO or FROM:TO:RATE with hosts 0 to {}",
                 text, hosts - 1);
  }
  if (second != std::string::npos) {
    const auto pace = parse_rate(std::string_view(text).substr(second + 1));
    if (!pace.ok()) return in_option("--competing", pace.status());
    one.pace = *pace;
  }
  return one;
}

Result<std::vector<lab::HostCommand>> commands_of(const Options& options) {
  std::vector<lab::HostCommand> commands;
  if (!options.each.empty() && !options.command.empty())
    return error(ErrorKind::kBadRequest, "--each gives every host its command; leave out '{}'", options.command[0]);
  if (!options.each.empty() && options.each.size() != static_cast<std::size_t>(options.hosts))
    return error(ErrorKind::kBadRequest, "--each is given {} for {}; give one per host",
                 counted(static_cast<std::int64_t>(options.each.size()), "time"), counted(options.hosts, "host"));
  if (options.each.empty() && options.command.empty()) {
    for (const auto& [name, given] : {std::pair("--limit", !options.limit.empty()),
                                      {"--competing", !options.competing.empty()},
                                      {"--end-with-first", options.end_with_first}}) {
      if (given) return error(ErrorKind::kBadRequest, "{} is for the hosts' commands; give them behind --, or leave it out", name);
    }
    return commands;
  }
  const std::vector<double>& cores = options.cpu;  // as many as hosts, or one for all
  for (int host = 0; host < options.hosts; ++host) {
    const double cpu = cores[cores.size() == 1 ? 0 : static_cast<std::size_t>(host)];
    const int share = cpu > 0 ? static_cast<int>(cpu) : usable_cores() / options.hosts;
    lab::HostCommand command{.host = host};
    command.environment = variables_for_programs(options.hosts > 1 || cpu > 0 ? std::max(1, share) : 0);
    const std::vector<std::string> words =
        options.each.empty() ? options.command : std::vector<std::string>{"sh", "-c", options.each[static_cast<std::size_t>(host)]};
    for (const std::string& word : words) {
      PACELINE_ASSIGN_OR_RETURN(std::string filled, fill_in(word, host, options.hosts));
      command.arguments.push_back(std::move(filled));
    }
    commands.push_back(std::move(command));
  }
  return commands;
}

Result<Plan> plan_of(const Options& options) {
  Plan plan;
  const auto hosts = static_cast<std::size_t>(options.hosts);
  if (options.rates.size() != 1 && options.rates.size() != hosts)
    return error(ErrorKind::kBadRequest, "--rate names {} rates for {} hosts; give one, or one per host", options.rates.size(),
                 hosts);
  for (std::size_t host = 0; host < hosts; ++host) {
    const auto rate = parse_rate(options.rates[options.rates.size() == 1 ? 0 : host]);
    if (!rate.ok()) return in_option("--rate", rate.status());
    plan.lab.shape.rates.push_back(*rate);
  }
  const auto queue = parse_duration(options.queue);
  if (!queue.ok()) return in_option("--queue", queue.status());
  plan.lab.shape.queue = *queue;
  if (!options.burst.empty()) {
    const auto burst = parse_bytes(options.burst);
    if (!burst.ok()) return in_option("--burst", burst.status());
    plan.lab.shape.burst = *burst;
  }
  PACELINE_RETURN_IF_ERROR(check(plan.lab.shape));
  if (options.cpu.size() != 1 && options.cpu.size() != hosts)
    return error(ErrorKind::kBadRequest, "--cpu names {} limits for {} hosts; give one, or one per host", options.cpu.size(),
                 hosts);
  plan.lab.cores = options.cpu.size() == 1 ? std::vector<double>(hosts, options.cpu[0]) : options.cpu;
  const auto measure = parse_duration(options.measure);
  if (!measure.ok()) return in_option("--measure", measure.status());
  plan.measure = *measure;
  if (!options.limit.empty()) {
    const auto limit = parse_duration(options.limit);
    if (!limit.ok()) return in_option("--limit", limit.status());
    plan.limit = *limit;
  }
  for (const std::string& text : options.competing) {
    PACELINE_ASSIGN_OR_RETURN(const Competing one, parse_competing(text, options.hosts));
    plan.competing.push_back(one);
  }
  PACELINE_ASSIGN_OR_RETURN(plan.commands, commands_of(options));
  return plan;
}

// Per host what a plain stream gets through its link, measured once per rate. Nothing where no other link is as fast.
Result<std::vector<std::optional<BytesPerSecond>>> measure_goodputs(const lab::Lab& lab, Duration period) {
  std::map<double, std::optional<BytesPerSecond>> by_rate;
  std::vector<std::optional<BytesPerSecond>> goodputs;
  for (int host = 0; host < lab.hosts(); ++host) {
    const double rate = lab.rate(host).value;
    if (!by_rate.contains(rate)) {
      std::optional<BytesPerSecond>& goodput = by_rate[rate];
      for (int other = 0; other < lab.hosts() && period.count() > 0 && !goodput; ++other) {
        if (other == host || lab.rate(other).value < rate) continue;
        PACELINE_ASSIGN_OR_RETURN(goodput, lab.goodput(host, other, period));
      }
    }
    goodputs.push_back(by_rate[rate]);
  }
  return goodputs;
}

Json or_null(const std::optional<BytesPerSecond>& rate) { return rate ? Json(rate->value) : Json(); }

struct Finished {
  std::vector<std::optional<BytesPerSecond>> goodputs;
  lab::RunOutcome outcome;
  std::vector<lab::Traffic> traffic;  // while the commands ran
  Json competing = Json::array();
};

void print_json(const Plan& plan, const Finished& done) {
  Json hosts = Json::array();
  for (std::size_t host = 0; host < done.traffic.size(); ++host) {
    Json one = {{"host", host},
                {"address", lab::address(static_cast<int>(host))},
                {"rate_bytes_per_second", plan.lab.shape.rates[host].value},
                {"goodput_bytes_per_second", or_null(done.goodputs[host])},
                {"bytes_sent", done.traffic[host].sent.count},
                {"bytes_received", done.traffic[host].received.count}};
    const bool ran = host < done.outcome.endings.size();
    const lab::Ending ending = ran ? done.outcome.endings[host] : lab::Ending();
    one["exit_code"] = ran ? Json(ending.exit_code) : Json();
    one["seconds"] = ran ? Json(ending.seconds) : Json();
    one["cpu_seconds"] = ran ? Json(ending.cpu_seconds) : Json();
    hosts.push_back(std::move(one));
  }
  const auto& failure = done.outcome.first_failure;
  fmt::print("{}\n", Json{{"goodput_bytes_per_second", or_null(done.goodputs[0])},
                          {"hosts", std::move(hosts)},
                          {"competing", done.competing},
                          {"first_failure", failure ? Json(*failure) : Json()},
                          {"interrupted", done.outcome.interrupted}}
                         .dump(2));
}

void announce(const lab::Lab& lab, const Finished& done, std::FILE* to) {
  for (int host = 0; host < lab.hosts(); ++host) {
    const auto& goodput = done.goodputs[static_cast<std::size_t>(host)];
    fmt::print(to, "host {}  {}  link {}, {}\n", host, lab.address(host), to_text(lab.rate(host)),
               goodput ? fmt::format("a plain TCP stream gets {} through", to_text(*goodput)) : "not measured");
  }
  std::fflush(to);
}

Result<Finished> perform(const Plan& plan, const Options& options, int interrupt) {
  PACELINE_ASSIGN_OR_RETURN(const auto lab, lab::Lab::create(plan.lab));
  if (lab->stale_limits_removed() > 0)
    fmt::print(stderr, "paceline: removed {} control groups that a killed lab had left\n", lab->stale_limits_removed());
  Finished done;
  PACELINE_ASSIGN_OR_RETURN(done.goodputs, measure_goodputs(*lab, plan.measure));
  std::FILE* const prose = options.json ? stderr : stdout;
  announce(*lab, done, prose);

  PACELINE_ASSIGN_OR_RETURN(const auto before, lab->traffic());
  std::vector<std::unique_ptr<lab::Stream>> streams;
  for (const Competing& one : plan.competing) {
    PACELINE_ASSIGN_OR_RETURN(auto stream, lab->stream(one.from, one.to, one.pace));
    streams.push_back(std::move(stream));
  }
  lab::RunHooks hooks;
  hooks.on_line = [&](std::size_t index, lab::Output output, const std::string& line) {
    std::FILE* const to = output == lab::Output::kError ? stderr : prose;
    fmt::print(to, "host {} | {}\n", index, line);
    std::fflush(to);
  };
  hooks.interrupt = interrupt;
  hooks.limit = plan.limit;
  if (options.end_with_first) hooks.on_failure = lab::OnFailure::kEndOthers;
  const SystemClock clock;
  const TimePoint start = clock.now();
  PACELINE_ASSIGN_OR_RETURN(done.outcome, lab::run(*lab, plan.commands, hooks));
  const double taken = seconds(clock.now() - start);
  for (std::size_t i = 0; i < streams.size(); ++i) {
    const auto received = static_cast<double>(streams[i]->received().count);
    done.competing.push_back(
        {{"from", plan.competing[i].from}, {"to", plan.competing[i].to}, {"bytes_per_second", received / taken}});
  }
  PACELINE_ASSIGN_OR_RETURN(done.traffic, lab->traffic());
  for (std::size_t host = 0; host < before.size(); ++host) {
    done.traffic[host].sent -= before[host].sent;
    done.traffic[host].received -= before[host].received;
  }
  return done;
}

// Whether each host would train a whole job of its own, which is hardly what is meant: none of its bytes pass a link.
bool train_apart(const std::vector<std::string>& command) {
  if (command.size() < 2 || std::filesystem::path(command[0]).filename() != "paceline") return false;
  const bool whole = command[1] == "train" || command[1] == "run";
  const auto joins = [](const std::string& word) {
    return word == "--" || word.starts_with("--join") || word.starts_with("--hosts");
  };
  const auto found = std::find_if(command.begin() + 2, command.end(), joins);
  return whole && (found == command.end() || *found == "--");
}

int run_lab(const Options& options) {
  const auto plan = plan_of(options);
  if (!plan.ok()) return report_error(plan.status());
  if (options.hosts > 1 && train_apart(options.command))
    fmt::print(stderr,
               "paceline: each host trains a job of its own, and nothing passes a link; for one job --each starts a coordinator, "
               "its servers and workers with --join, or paceline bench schedules does\n");
  if (const Status rights = lab::acquire_rights(); !rights.ok()) return report_error(rights);
  const lab::Descriptor interrupt(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const runtime::Signals signals({SIGINT, SIGTERM, SIGHUP}, [&](int) { eventfd_write(interrupt.get(), 1); });
  const auto done = perform(*plan, options, interrupt.get());
  if (!done.ok()) return report_error(done.status());
  if (options.json) print_json(*plan, *done);
  if (done->outcome.interrupted) return kInterrupted;
  if (done->outcome.out_of_time)
    return report_error(
        error(ErrorKind::kDeadline, "lab: the commands were ended: they were not done after --limit {}", options.limit));
  if (!done->outcome.first_failure) return kDone;
  const lab::Ending& ending = done->outcome.endings[*done->outcome.first_failure];
  const Status failed = error(ErrorKind::kIo, "host {}: {} exited with code {}", *done->outcome.first_failure,
                              plan->commands[*done->outcome.first_failure].arguments[0], ending.exit_code);
  (void)report_error(failed.because({"program-failed", ""}));
  return ending.exit_code;
}

}  // namespace

void add_lab(CLI::App& app, Chosen& chosen) {
  CLI::App* command = app.add_subcommand("lab", "Hosts with shaped links on this machine, and a command on each");
  const auto options = std::make_shared<Options>();
  within(command->add_option("--hosts", options->hosts, fmt::format("Number of hosts, 1 to {}", lab::kMostHosts)), 1,
         lab::kMostHosts)
      ->capture_default_str();
  command->add_option("--rate", options->rates, "Rate of a host's link, in each direction; or one per host, with commas")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  command->add_option("--queue", options->queue, "What waits in front of a link before packets are dropped")->capture_default_str();
  command->add_option("--burst", options->burst,
                      "What a link may send at once after a pause, 4KB to 16MB; default: 4 ms of its rate, at least 96 KiB");
  command
      ->add_option("--cpu", options->cpu,
                   "Processors a host may use, such as 0.5; or one number per host, with commas; 0: no limit. Needs control groups")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(0.0, 1024.0))
      ->capture_default_str();
  command
      ->add_option("--measure", options->measure,
                   "Before the commands: how long a plain TCP stream is measured, for each rate; 0s: not at all")
      ->capture_default_str();
  command
      ->add_option("--competing", options->competing,
                   "While the commands run: a plain stream FROM:TO between two hosts, or FROM:TO:RATE; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--limit", options->limit, "Longest time for the commands, such as 60s; then they are ended (default: none)");
  command
      ->add_option(
          "--each", options->each,
          "A shell command, once per host in their order, instead of one COMMAND for all. In both, {host} is the host's number, "
          "{hosts} how many there are, {address} its address, {address:K} host K's, {addresses} all")
      ->allow_extra_args(false);
  command->add_option("command", options->command, "The command for all hosts and its arguments, behind --");
  command->add_flag("--end-with-first", options->end_with_first,
                    "When a host's command fails, end the others, as Ctrl-C would. Otherwise each goes on until it ends by itself");
  command->add_flag(
      "--json", options->json,
      "One JSON document: addresses, rates and goodputs in bytes/s, bytes at the interfaces, exit codes. What the commands "
      "print goes to standard error");
  set_examples(*command,
               "  paceline lab --hosts 2 --rate 100mbit -- ping -c 3 {address:0}\n"
               "  paceline lab --hosts 3 --rate 1gbit,1gbit,100mbit --json --each 'sleep 1' --each 'sleep 1' --each true");
  command->callback([options, &chosen] { chosen.run = [options] { return run_lab(*options); }; });
}

}  // namespace paceline::cli

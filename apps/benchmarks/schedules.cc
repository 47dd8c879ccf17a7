#include "benchmarks/schedules.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <sys/eventfd.h>

#include "base/text.h"
#include "bench/schedules/schedules_bench.h"
#include "benchmarks/files.h"
#include "job/option.h"
#include "lab/namespaces.h"
#include "lab/rights.h"
#include "lab/script.h"
#include "paceline/beside.h"
#include "paceline/machine.h"
#include "paceline/picture.h"
#include "paceline/progress.h"
#include "paceline/within.h"
#include "runtime/signals.h"
#include "scheduling/schedule.h"

namespace paceline::cli {
namespace {

struct Options {
  std::vector<std::string> models = {"vgg19", "resnet50", "inception_v3", "sockeye_like"};
  std::vector<std::string> rates = {"1gbit", "2gbit", "4gbit", "8gbit", "10gbit", "20gbit"};
  std::vector<int> hosts = {4};
  std::vector<std::string> contestants;
  std::vector<std::string> slices;
  std::vector<std::string> job_options;
  std::string queue = "10ms", burst;
  int turns = 3;
  double length = 15;
  std::string output = "runs/schedules";
  std::string tables, python, mxnet, peers;
  bool apart = false, quick = false, json = false, progress = false, no_pictures = false;
};

namespace fs = std::filesystem;
using Json = bench::Ledger::Json;

Status check_slices(const std::vector<std::string>& slices) {
  for (const std::string& slice : slices) {
    job::JobSpec spec;
    if (const Status legal = job::set_option(spec, "slice", slice); !legal.ok())
      return error(ErrorKind::kBadRequest, "--slices: {}", legal.message());
  }
  return {};
}

// Of the lab, but for the rates.
Result<lab::Shape> shape_of(const Options& options) {
  lab::Shape shape{.rates = {BytesPerSecond{125e6}}};  // so that the rest can be checked
  const auto queue = parse_duration(options.queue);
  if (!queue.ok()) return error(ErrorKind::kBadRequest, "--queue: {}", queue.status().message());
  shape.queue = *queue;
  if (!options.burst.empty()) {
    const auto burst = parse_bytes(options.burst);
    if (!burst.ok()) return error(ErrorKind::kBadRequest, "--burst: {}", burst.status().message());
    shape.burst = *burst;
  }
  PACELINE_RETURN_IF_ERROR(lab::check(shape));
  return shape;
}

std::string setup_of(const Options& options) {
  std::vector<std::string> words = options.job_options;
  if (options.apart) words.emplace_back("apart");
  if (!options.burst.empty()) words.push_back("burst=" + options.burst);
  if (options.queue != Options().queue) words.push_back("queue=" + options.queue);
  return fmt::format("{}", fmt::join(words, " "));
}

Result<bench::SchedulesBenchOptions> bench_options(const Options& options) {
  PACELINE_RETURN_IF_ERROR(check_slices(options.slices));
  bench::SchedulesBenchOptions bench;
  bench.grid.models = options.models;
  for (const std::string& text : options.rates) {
    const auto rate = parse_rate(text);
    if (!rate.ok()) return error(ErrorKind::kBadRequest, "--rates: {}", rate.status().message());
    if (!(rate->value >= 125e6 / 10 && rate->value <= 5e9))
      return error(ErrorKind::kBadRequest, "--rates: {} stands for a link of 100mbit to 40gbit", text);
    bench.grid.stands_for.push_back(8 * rate->value);
  }
  for (const int hosts : options.hosts) {
    if (hosts < 2 || hosts > 64) return error(ErrorKind::kBadRequest, "--hosts: {} hosts; legal: 2 to 64", hosts);
  }
  if (options.apart && options.hosts != std::vector<int>{2})
    return error(ErrorKind::kBadRequest, "--apart is for one worker and one server; give --hosts 2");
  bench.apart = options.apart;
  bench.grid.hosts = options.hosts;
  bench.grid.contestants = options.contestants;
  std::vector<std::string> legal = scheduling::schedule_names();
  if (options.contestants.empty()) {
    bench.grid.contestants = legal;
    if (!options.apart) bench.grid.contestants.emplace_back("ddp");
  }
  for (const auto& names : {bench::torch_names(), bench::mxnet_names(), bench::loop_names(), bench::schedule_variants()})
    legal.insert(legal.end(), names.begin(), names.end());
  for (const std::string& name : bench.grid.contestants) {
    if (std::ranges::find(legal, name) == legal.end())
      return error(ErrorKind::kBadRequest, "--contestants knows no '{}'{}; legal: {}", name, suggestion(name, legal),
                   fmt::join(legal, ", "));
    const auto peer = bench::peer_of(name);
    if (options.apart && (peer || bench::loop_of(name)))
      return error(ErrorKind::kBadRequest, "--apart is for jobs with servers, and {} has none; leave one of them out", name);
    if (peer && peer->interpreter == bench::PeerContestant::Interpreter::kMxnet && !fs::exists(options.mxnet))
      return error(ErrorKind::kBadRequest, "--mxnet: there is no {}, which {} needs; scripts/setup mxnet makes it", options.mxnet,
                   name);
  }
  bench.grid.slices = options.slices;
  bench.grid.turns = options.turns;
  bench.length = options.length;
  bench.job_options = options.job_options;
  bench.grid.setup = setup_of(options);
  PACELINE_ASSIGN_OR_RETURN(bench.shape, shape_of(options));
  bench.tables = fs::absolute(options.tables).lexically_normal();
  bench.peers = fs::absolute(options.peers).lexically_normal();
  bench.python = options.python;
  bench.mxnet = options.mxnet;
  bench.paceline = program_beside("paceline");
  std::error_code problem;
  fs::create_directories(options.output, problem);
  if (problem) return error(ErrorKind::kBadRequest, "--output {}: {}", options.output, problem.message());
  bench.ledger = fs::path(options.output) / "cells.jsonl";
  bench.key = fs::path(options.output) / "job.key";
  return bench;
}

constexpr double kBusy = 0.9;  // share of the processors' time, from which times say little about links

void print_table(const Json& rows) {
  std::string group;
  for (const Json& row : rows) {
    const std::string name = fmt::format("{}, {:g} Gb/s, {} hosts", row["model"].get<std::string>(),
                                         row["stands_for_bits_per_second"].get<double>() / 1e9, row["hosts"].get<int>());
    if (name != std::exchange(group, name)) {
      fmt::print("\n{}\n{:<24} {:>10} {:>9} {:>13} {:>8} {:>11} {:>10}\n", name, "contestant", "iteration", "spread", "lower bound",
                 "ratio", "processors", "CPU s/GB");
    }
    const Json& time = row["iteration_seconds"];
    const double median = time["median"];
    const double spread = (time["highest"].get<double>() - time["lowest"].get<double>()) / 2 / median;
    // Each has its own bound: what its bytes take on the links as they were when it ran.
    fmt::print("{:<24} {:>8.3f} s {:>9} {:>11.3f} s {:>8.3f} {:>9.0f} % {:>10.2f}{}\n", row["contestant"].get<std::string>(),
               median, row["turns"].get<int>() > 1 ? fmt::format("+-{:.1f} %", 100 * spread) : "one turn",
               row["lower_bound_seconds"].get<double>(), row["of_lower_bound"]["median"].get<double>(),
               100 * row["processor_share"].get<double>(), row["processor_seconds_per_gb"].get<double>(),
               row["processor_share"].get<double>() > kBusy ? "  busy" : "");
  }
}

void print_loops(const Json& profile) {
  std::string group;
  for (const Json& row : profile) {
    const std::string name = fmt::format("{}, {:g} Gb/s, {} hosts", row["model"].get<std::string>(),
                                         row["stands_for_bits_per_second"].get<double>() / 1e9, row["hosts"].get<int>());
    if (name != std::exchange(group, name))
      fmt::print("\nTable 2 of Linear Pipeline, {}: communication that computing did not hide\n{:<24} {:>10} {:>10} {:>8}\n", name,
                 "", "comm", "compt", "comm");
    fmt::print("{:<24} {:>8.3f} s {:>8.3f} s {:>6.1f} %\n", row["column"].get<std::string>(),
               row["communication_seconds"].get<double>(), row["computation_seconds"].get<double>(),
               100 * row["communication_share"].get<double>());
  }
}

Json machine_json() {
  const Machine machine = this_machine();
  return {{"processor", machine.processor}, {"cores", machine.usable_cores}, {"system", machine.system}};
}

int run(const Options& options) {
  auto bench = bench_options(options);
  if (!bench.ok()) return report_error(bench.status());
  if (const Status rights = lab::acquire_rights(); !rights.ok()) return report_error(rights);
  const lab::Descriptor interrupt(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const runtime::Signals signals({SIGINT, SIGTERM, SIGHUP}, [&](int) { eventfd_write(interrupt.get(), 1); });
  bench->interrupt = interrupt.get();
  const SystemClock clock;
  std::unique_ptr<ProgressBar> bar;
  bench->on_cell = [&](std::size_t done, std::size_t cells, const std::string& key) {
    if (bar == nullptr) {
      bar = std::make_unique<ProgressBar>("bench schedules", static_cast<std::int64_t>(cells),
                                          options.progress ? ShowProgress::kAlways : ShowProgress::kOnTerminal, clock);
    }
    bar->update(static_cast<std::int64_t>(done), key);
  };
  const auto result = bench::run_schedules_bench(*bench);
  bar.reset();
  if (!result.ok()) return report_error(result.status());
  if (!options.no_pictures && !result->cells.empty())
    draw_measured(options.python, options.peers + "/../schedules/pictures.py", {bench->ledger, options.output});
  const Json rows = bench::summary_of(result->cells);
  if (options.json) {
    fmt::print("{}\n", Json{{"machine", machine_json()},
                            {"cells", bench->ledger},
                            {"crc_seconds_per_gb", bench::crc_seconds_per_gb()},
                            {"rows", rows},
                            {"loops", bench::loop_profile(rows)},
                            {"failures", result->failures}}
                           .dump(2));
  } else {
    print_table(rows);
    print_loops(bench::loop_profile(rows));
    fmt::print("\nMedians of {} turns; spread between turns; cells and pictures are in {}\n", options.turns, options.output);
    fmt::print("Busy: more than {:.0f} % of the processors' time was taken, so the time is not the links' alone\n", 100 * kBusy);
    fmt::print("CPU: of the whole machine, so only true when it is quiet; in ours {:.2f} s/GB are the checksums of both ends\n",
               bench::crc_seconds_per_gb());
  }
  std::vector<std::string> wrong = bench::contradictions(result->cells);
  wrong.insert(wrong.end(), result->failures.begin(), result->failures.end());
  if (wrong.empty()) return kDone;
  return report_error(error(ErrorKind::kIo, "{} of the results are missing or wrong; the first: {}", wrong.size(), wrong[0])
                          .because({"program-failed", ""}));
}

void add_lab_options(CLI::App& command, Options& options) {
  command.add_flag("--apart", options.apart, "With --hosts 2: one host is the server, the other the worker");
  command.add_option("--queue", options.queue, "What waits in front of a link, as of paceline lab")->capture_default_str();
  command.add_option("--burst", options.burst, "What a link may send at once after a pause, as of paceline lab");
}

}  // namespace

void add_bench_schedules(CLI::App& bench, Chosen& chosen) {
  CLI::App* command = bench.add_subcommand(
      "schedules",
      "Schedules against each other, PyTorch's DDP and the physical lower bound, between shaped hosts; needs the rights of a lab");
  const auto options = std::make_shared<Options>();
  options->tables = bench_files("tables");
  options->peers = bench_files("peers");
  options->python = python();
  const fs::path mxnet = ".venv-mxnet/bin/python";
  options->mxnet = shared_beside(mxnet).value_or(mxnet);
  const auto list = [&](const char* name, auto& values, const std::string& help) {
    return command->add_option(name, values, help)->delimiter(',')->allow_extra_args(false);
  };
  list("--models", options->models, "Layer tables: names of files in --tables")->capture_default_str();
  list("--rates", options->rates,
       "Links that the shaped ones stand for, 100mbit to 40gbit; divided by a scale of 10, above 10gbit of 20, above 20gbit of 40")
      ->capture_default_str();
  list("--hosts", options->hosts, "Numbers of hosts, each a worker and a server, but with --apart")->capture_default_str();
  list("--contestants", options->contestants,
       "Schedules (each also with --wire: p3-bfloat16; with a job key: p3-tls), ddp (PyTorch over gloo), split (over gloo, reduces "
       "and gathers each layer as FSDP2 and Megatron do), attach (paceline.torch, which --python has or PYTHONPATH and "
       "PACELINE_LIBRARY find; these three also with clipping: ddp-clip), mxnet, mxnet-p3, mxnet-p3-bounded (MXNet's KVStore, its "
       "P3, and that with a bounded socket), and loops of --collective (loop1, loop2, loop3, loop3-overlap, each also with an "
       "algorithm: loop1-mst); default: schedules and ddp");
  list("--slices", options->slices, "Also p3 with slices of these sizes (--slice of train)");
  list("--job-options", options->job_options, "More options for each paceline train, such as --window=1MB");
  add_lab_options(*command, *options);
  within(command->add_option("--turns", options->turns, "Times that each contestant is run, in turn"), 1, 100)
      ->capture_default_str();
  command->add_option("--length", options->length, "Seconds of iterations in each run, about; 6 iterations at least")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  command
      ->add_option("--output", options->output,
                   "Folder of the finished cells (cells.jsonl), which are not run again, and of the pictures")
      ->capture_default_str();
  command->add_option("--tables", options->tables, "Folder of the layer tables")->capture_default_str();
  command->add_option("--peers", options->peers, "Folder of the peers' programs")->capture_default_str();
  command->add_option("--python", options->python, "Interpreter with torch and matplotlib")->capture_default_str();
  command->add_option("--mxnet", options->mxnet, "Interpreter with MXNet (scripts/setup mxnet)")->capture_default_str();
  command->add_flag("--no-pictures", options->no_pictures, "Only numbers");
  CLI::Option* quick = command->add_flag("--quick", options->quick, "resnet50 at 2gbit and 8gbit, one turn of some seconds");
  command->add_flag("--json", options->json, "One JSON document; rates in bits/s where they say so, times in seconds");
  command->add_flag("--progress", options->progress, "Show progress even when standard error is no terminal");
  set_examples(*command,
               "  paceline bench schedules --quick\n"
               "  paceline bench schedules --models vgg19 --rates 10gbit --contestants tuned,p3,default,ddp --output runs/vgg\n"
               "  paceline bench schedules --models vgg19 --rates 10gbit --output runs/loops \\\n"
               "    --contestants loop1-mst,loop1-be,loop3-overlap-be,loop1-lp,loop2-lp,loop3-lp,loop3-overlap-lp");
  command->callback([options, command, quick, &chosen] {
    if (quick->count() > 0) {
      const auto unless_given = [&](const char* name) { return command->get_option(name)->count() == 0; };
      if (unless_given("--models")) options->models = {"resnet50"};
      if (unless_given("--rates")) options->rates = {"2gbit", "8gbit"};
      if (unless_given("--turns")) options->turns = 1;
      if (unless_given("--length")) options->length = 4;
    }
    chosen.run = [options] { return run(*options); };
  });
}

}  // namespace paceline::cli

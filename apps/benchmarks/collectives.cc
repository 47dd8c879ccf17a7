#include "benchmarks/collectives.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <sys/eventfd.h>

#include "base/text.h"
#include "bench/collectives/collectives_bench.h"
#include "bench/collectives/member.h"
#include "benchmarks/files.h"
#include "job/loop_options.h"
#include "lab/namespaces.h"
#include "lab/rights.h"
#include "paceline/beside.h"
#include "paceline/machine.h"
#include "paceline/picture.h"
#include "paceline/progress.h"
#include "paceline/temporary_folder.h"
#include "paceline/within.h"
#include "runtime/signals.h"

namespace paceline::cli {
namespace {

struct Options {
  std::vector<std::string> operations = {"broadcast", "reduce", "allreduce"};
  std::vector<std::string> sizes = {"4KB", "32KB", "1MB", "4MB", "64MB", "256MB"};
  std::vector<int> hosts = {2, 4, 8};
  std::vector<std::string> contestants = {"paceline",    "paceline-spin", "paceline-lp", "paceline-mst",
                                          "paceline-be", "gloo",          "openmpi",     "openmpi-pipelined"};
  std::vector<std::string> rates = {"1gbit"};
  int turns = 3;
  double length = 0.3;
  std::string rest = "0s";
  std::optional<std::string> block;
  std::string output = "runs/collectives";
  std::string python, peers;
  bool quick = false, json = false, progress = false, no_pictures = false;
  // Of a process on a host, which the benchmark starts itself.
  int member = -1;
  std::string control, spin;
  bool alike = false, unconfirmed = false;
  std::vector<std::string> member_addresses;
};

namespace fs = std::filesystem;
using Json = bench::Ledger::Json;

Result<Duration> rest_of(const std::string& text) {
  const auto rest = parse_duration(text);
  if (!rest.ok()) return error(ErrorKind::kBadRequest, "--rest: {}", rest.status().message());
  if (*rest < Duration::zero() || *rest > std::chrono::seconds(1))
    return error(ErrorKind::kBadRequest, "--rest: {}; legal: 0s to 1s", text);
  return *rest;
}

// What sends no blocks would run as if nobody had asked for one.
Result<std::optional<Bytes>> block_of(const Options& options, const bench::CollectivesGrid& grid) {
  if (!options.block) return std::optional<Bytes>();
  PACELINE_ASSIGN_OR_RETURN(const Bytes block, job::parse_block(*options.block));
  const bool counts = std::ranges::any_of(grid.operations, [&](const std::string& operation) {
    return std::ranges::any_of(grid.entries, [&](const bench::Entry& entry) { return bench::has_blocks(entry, operation); });
  });
  if (counts) return std::optional(block);
  return error(ErrorKind::kBadRequest,
               "--block {} is for broadcast, reduce and allreduce by paceline, paceline-spin, -lp, -alike and -alike-lp, and none "
               "of them is asked for",
               *options.block);
}

Result<bench::CollectivesGrid> grid_of(const Options& options) {
  bench::CollectivesGrid grid;
  const std::vector<std::string>& legal = bench::operation_names();
  for (const std::string& name : options.operations) {
    if (std::ranges::find(legal, name) == legal.end())
      return error(ErrorKind::kBadRequest, "--operations knows no '{}'{}; legal: {}", name, suggestion(name, legal),
                   fmt::join(legal, ", "));
  }
  grid.operations = options.operations;
  for (const std::string& text : options.sizes) {
    const auto size = parse_bytes(text);
    if (!size.ok()) return error(ErrorKind::kBadRequest, "--sizes: {}", size.status().message());
    if (size->count < 4 || size->count % 4 != 0 || size->count > 4'000'000'000)
      return error(ErrorKind::kBadRequest, "--sizes: {} is no whole number of float32 up to 4 GB", text);
    grid.sizes.push_back(*size);
  }
  for (const int hosts : options.hosts) {
    if (hosts < 2 || hosts > 64) return error(ErrorKind::kBadRequest, "--hosts: {} hosts; legal: 2 to 64", hosts);
  }
  grid.hosts = options.hosts;
  for (const std::string& name : options.contestants) {
    const auto entry = bench::entry_of(name);
    if (!entry.ok()) return error(ErrorKind::kBadRequest, "--contestants: {}", entry.status().message());
    grid.entries.push_back(*entry);
  }
  grid.rates.clear();
  for (const std::string& text : options.rates) {
    const auto rate = parse_rate(text);
    if (!rate.ok()) return error(ErrorKind::kBadRequest, "--rate: {}", rate.status().message());
    grid.rates.push_back(*rate);
  }
  PACELINE_ASSIGN_OR_RETURN(grid.rest, rest_of(options.rest));
  PACELINE_ASSIGN_OR_RETURN(grid.block, block_of(options, grid));
  for (const int hosts : options.hosts) {
    if (grid.rates.size() != 1 && grid.rates.size() != static_cast<std::size_t>(hosts))
      return error(ErrorKind::kBadRequest, "--rate names {} rates for {} hosts; give one, or one per host and --hosts {}",
                   grid.rates.size(), hosts, grid.rates.size());
  }
  return grid;
}

std::string group_of(const Json& row) {
  const std::string operation = row["operation"];
  const std::string what =
      operation == "barrier" ? operation : fmt::format("{} of {}", operation, to_text(Bytes{row["bytes"].get<std::int64_t>()}));
  return fmt::format("{} between {} hosts", what, row["hosts"].get<int>());
}

void print_rows(const std::vector<Json>& rows) {
  std::string group;
  for (const Json& row : rows) {
    const bool has_bound = !row["of_bound"].is_null();
    if (const std::string name = group_of(row); name != std::exchange(group, name)) {
      fmt::print("\n{}{}\n{:<18} {:>10} {:>9} {:>8} {:>12} {:>12} {:>9}  {}\n", name,
                 has_bound ? ": bound " + to_text(from_seconds(row["bound_seconds"].get<double>())) : "", "", "time", "spread",
                 "/ bound", "algorithm bw", "bus bw", "predicted", "ran by");
    }
    const Json& time = row["seconds"];
    const double median = time["median"];
    const auto rate = [&](const char* key) { return has_bound ? to_text(BytesPerSecond{row[key].get<double>()}) : "-"; };
    const bool predicts = has_bound && row.contains("predicted_seconds");
    fmt::print("{:<18} {:>10} +-{:>5.1f} % {:>8} {:>12} {:>12} {:>9}  {}\n", row["contestant"].get<std::string>(),
               to_text(from_seconds(median)), 50 * (time["highest"].get<double>() - time["lowest"].get<double>()) / median,
               has_bound ? fmt::format("{:.3f}", row["of_bound"].get<double>()) : "-", rate("algorithm_bytes_per_second"),
               rate("bus_bytes_per_second"),
               predicts ? fmt::format("{:.2f} x", row["predicted_seconds"].get<double>() / median) : "-", row.value("choice", "-"));
  }
}

void print_costs(const Json& table) {
  if (table.empty()) return;
  fmt::print(
      "\nTable 1 of Linear Pipeline: cost by the closed form, with the fitted constants (a, B, G), beside what was measured\n");
  fmt::print("{:<6} {:<10} {:>9} {:<4} {:<42} {:>11} {:>11}\n", "hosts", "operation", "bytes", "", "formula", "predicted",
             "measured");
  for (const Json& row : table) {
    fmt::print("{:<6} {:<10} {:>9} {:<4} {:<42} {:>11} {:>11}\n", row["hosts"].get<int>(), row["operation"].get<std::string>(),
               to_text(Bytes{row["bytes"].get<std::int64_t>()}), row["algorithm"].get<std::string>(),
               row["formula"].get<std::string>(), to_text(from_seconds(row["predicted_seconds"].get<double>())),
               to_text(from_seconds(row["measured_seconds"].get<double>())));
  }
}

int run_member(const Options& options) {
  bench::MemberOptions member{.control = options.control, .rank = options.member};
  for (const std::string& text : options.member_addresses) {
    const auto address = transport::parse_address(text);
    if (!address.ok()) return report_error(address.status());
    member.addresses.push_back(*address);
  }
  if (!options.spin.empty()) {
    const auto spin = parse_duration(options.spin);
    if (!spin.ok()) return report_error(spin.status());
    member.spin = *spin;
  }
  member.confirm = !options.unconfirmed;
  if (options.alike) member.compare = collectives::CompareLinks::kNo;
  const Status status = bench::run_collectives_member(member);
  return status.ok() ? kDone : report_error(status);
}

int report(const Options& options, const bench::CollectivesBenchOptions& bench, const bench::CollectivesBenchResult& result) {
  const Json costs = bench::cost_table(result.rows);
  if (options.json) {
    const Machine machine = this_machine();
    fmt::print("{}\n",
               Json{{"machine", {{"processor", machine.processor}, {"cores", machine.usable_cores}, {"system", machine.system}}},
                    {"cells", bench.ledger},
                    {"rows", result.rows},
                    {"costs", costs},
                    {"failures", result.failures}}
                   .dump(2));
  } else {
    print_rows(result.rows);
    print_costs(costs);
    fmt::print(
        "\nTimes are of the slowest rank, behind a barrier; medians of {} turns, spread between turns. Bandwidths as nccl-tests "
        "define "
        "them. Finished entries and pictures are in {}\n",
        options.turns, options.output);
  }
  if (result.failures.empty()) return kDone;
  return report_error(
      error(ErrorKind::kIo, "{} entries could not be run; the first: {}", result.failures.size(), result.failures[0])
          .because({"program-failed", ""}));
}

int run(const Options& options) {
  if (options.member >= 0) return run_member(options);
  bench::CollectivesBenchOptions bench{.turns = options.turns, .length = options.length};
  auto grid = grid_of(options);
  if (!grid.ok()) return report_error(grid.status());
  bench.grid = std::move(*grid);
  if (const Status rights = lab::acquire_rights(); !rights.ok()) return report_error(rights);
  std::error_code problem;
  fs::create_directories(options.output, problem);
  if (problem) return report_error(error(ErrorKind::kBadRequest, "--output {}: {}", options.output, problem.message()));
  bench.ledger = fs::path(options.output) / "cells.jsonl";
  const auto folder = TemporaryFolder::make();  // for sockets, whose names must be short
  if (!folder.ok()) return report_error(folder.status());
  const lab::Descriptor interrupt(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const runtime::Signals signals({SIGINT, SIGTERM, SIGHUP}, [&](int) { eventfd_write(interrupt.get(), 1); });
  const fs::path self = own_program();
  bench.interrupt = interrupt.get();
  bench.field = {.paceline = self,
                 .python = options.python,
                 .peers = fs::absolute(options.peers).lexically_normal(),
                 .mpi_program = self.parent_path() / "mpi_collectives",
                 .folder = (*folder)->path(),
                 .interrupt = interrupt.get()};
  const SystemClock clock;
  std::unique_ptr<ProgressBar> bar;
  bench.on_heat = [&](std::size_t done, std::size_t heats, const std::string& heat) {
    if (bar == nullptr) {
      bar = std::make_unique<ProgressBar>("bench collectives", static_cast<std::int64_t>(heats),
                                          options.progress ? ShowProgress::kAlways : ShowProgress::kOnTerminal, clock);
    }
    bar->update(static_cast<std::int64_t>(done), heat);
  };
  const auto result = bench::run_collectives_bench(bench);
  bar.reset();
  if (!result.ok()) return report_error(result.status());
  if (!options.no_pictures && !result->rows.empty())
    draw_measured(options.python, options.peers + "/../collectives/pictures.py", {bench.ledger, options.output});
  return report(options, bench, *result);
}

void add_quick(CLI::App& command, const std::shared_ptr<Options>& options, Chosen& chosen) {
  CLI::Option* quick = command.add_flag("--quick", options->quick, "32KB, 1MB and 16MB between 4 hosts, one short turn");
  command.callback([options, command = &command, quick, &chosen] {
    if (quick->count() > 0) {
      const auto unless_given = [&](const char* name) { return command->get_option(name)->count() == 0; };
      if (unless_given("--sizes")) options->sizes = {"32KB", "1MB", "16MB"};
      if (unless_given("--hosts")) options->hosts = {4};
      if (unless_given("--turns")) options->turns = 1;
      if (unless_given("--length")) options->length = 0.1;
    }
    chosen.run = [options] { return run(*options); };
  });
}

void add_member_options(CLI::App& command, Options& options) {
  const std::string hidden;  // group: not shown
  command.add_option("--member", options.member)->group(hidden);
  command.add_option("--control", options.control)->group(hidden);
  command.add_option("--spin", options.spin)->group(hidden);
  command.add_flag("--alike", options.alike)->group(hidden);
  command.add_flag("--unconfirmed", options.unconfirmed)->group(hidden);
  command.add_option("--member-addresses", options.member_addresses)->delimiter(',')->group(hidden);
}

}  // namespace

void add_bench_collectives(CLI::App& bench, Chosen& chosen) {
  CLI::App* command = bench.add_subcommand(
      "collectives", "Broadcast, reduce, allreduce and more against Open MPI and gloo, between shaped hosts; needs a lab's rights");
  const auto options = std::make_shared<Options>();
  options->peers = bench_files("peers");
  options->python = python();
  const auto list = [&](const char* name, auto& values, const std::string& help) {
    return command->add_option(name, values, help)->delimiter(',')->allow_extra_args(false)->capture_default_str();
  };
  list("--operations", options->operations, "Also reduce-scatter, allgather and barrier; broadcast and reduce have rank 0 as root");
  list("--sizes", options->sizes, "Of the message; up to 64MB for paceline-lp, -mst, -be, -ring and -direct");
  list("--hosts", options->hosts, "Numbers of hosts, one rank each");
  list("--contestants", options->contestants,
       "paceline: its own choice; -spin: waits without sleeping, does not confirm that all have begun; -lp, -mst, -be, -ring, "
       "-direct: one algorithm; -alike, -alike-lp: "
       "takes all links for alike, so that chains follow the ranks; openmpi: as it comes; "
       "openmpi-pipelined: told to send along a chain in segments of 128 KB");
  list("--rate", options->rates, "Of every host's link, or one for each host");
  within(command->add_option("--turns", options->turns, "Times that each contestant is run, in turn"), 1, 100)
      ->capture_default_str();
  command->add_option("--length", options->length, "Seconds of repetitions in each turn, about; one repetition at least")
      ->check(CLI::Range(0.001, 3600.0))
      ->capture_default_str();
  command
      ->add_option("--rest", options->rest,
                   "Of all ranks before each repetition, so that shapers have saved as much for every contestant, however long its "
                   "barrier takes")
      ->capture_default_str();
  command->add_option("--block", options->block,
                      "Into which the linear pipeline of paceline, -spin, -lp, -alike and -alike-lp cuts a message; 64KB in the "
                      "paper (default: predicted fastest)");
  command
      ->add_option("--output", options->output,
                   "Folder of the finished entries (cells.jsonl), which are not run again, and of the pictures")
      ->capture_default_str();
  command->add_option("--peers", options->peers, "Folder of gloo_collectives.py")->capture_default_str();
  command->add_option("--python", options->python, "Interpreter with torch and matplotlib")->capture_default_str();
  command->add_flag("--no-pictures", options->no_pictures, "Only numbers");
  add_quick(*command, options, chosen);
  command->add_flag("--json", options->json, "One JSON document; rates in bytes/s, times in seconds");
  command->add_flag("--progress", options->progress, "Show progress even when standard error is no terminal");
  add_member_options(*command, *options);
  set_examples(*command,
               "  paceline bench collectives --quick\n"
               "  paceline bench collectives --operations broadcast --sizes 64MB --hosts 4,8 --output runs/broadcast\n"
               "  paceline bench collectives --contestants paceline,paceline-alike,paceline-alike-lp --hosts 4 --sizes 16MB \\\n"
               "    --rate 1gbit,250mbit,1gbit,1gbit --output runs/slow-host");
}

}  // namespace paceline::cli

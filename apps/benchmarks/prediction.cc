#include "benchmarks/prediction.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <sys/eventfd.h>

#include "base/text.h"
#include "bench/prediction/replays_bench.h"
#include "bench/prediction/scale_bench.h"
#include "benchmarks/files.h"
#include "benchmarks/parts.h"
#include "lab/namespaces.h"
#include "lab/rights.h"
#include "paceline/beside.h"
#include "paceline/machine.h"
#include "paceline/progress.h"
#include "paceline/within.h"
#include "runtime/signals.h"

namespace paceline::cli {
namespace {

using Json = bench::Ledger::Json;

struct Options {
  std::vector<std::string> parts = {"replays", "scale"};
  bench::ReplaysBenchOptions replays{.folder = "runs/prediction"};
  bench::ScaleBenchOptions scale;
  std::string tables, model = "vgg19";
  bool quick = false, json = false, progress = false;
};

bool wants(const Options& options, const char* part) { return std::ranges::find(options.parts, part) != options.parts.end(); }

Result<bench::ReplaysBenchResult> replay(const Options& options) {
  PACELINE_RETURN_IF_ERROR(lab::acquire_rights());
  bench::ReplaysBenchOptions bench = options.replays;
  bench.paceline = program_beside("paceline");
  const lab::Descriptor interrupt(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const runtime::Signals signals({SIGINT, SIGTERM, SIGHUP}, [&](int) { eventfd_write(interrupt.get(), 1); });
  bench.interrupt = interrupt.get();
  const SystemClock clock;
  std::unique_ptr<ProgressBar> bar;
  bench.on_cell = [&](std::size_t done, std::size_t cells, const std::string& key) {
    if (bar == nullptr) {
      bar = std::make_unique<ProgressBar>("bench prediction", static_cast<std::int64_t>(cells),
                                          options.progress ? ShowProgress::kAlways : ShowProgress::kOnTerminal, clock);
    }
    bar->update(static_cast<std::int64_t>(done), key);
  };
  return bench::run_replays_bench(bench);
}

void print_replays(const Json& rows, const Json& summary, const Options& options) {
  fmt::print(
      "Jobs replayed between shaped hosts: seconds predicted and measured, median of {} turns (least .. most)\n{:<6} {:>10} {:>28} "
      "{:>26}  {}\n",
      options.replays.turns, "seed", "predicted", "measured", "measured/predicted", "job");
  for (const Json& row : rows) {
    const auto range = [&](const char* key, int digits) {
      const Json& of = row[key];
      return fmt::format("{:.{}f} ({:.{}f} .. {:.{}f})", of["median"].get<double>(), digits, of["lowest"].get<double>(), digits,
                         of["highest"].get<double>(), digits);
    };
    fmt::print("{:<6} {:>8.2f} s {:>26} s {:>26}  {}\n", row["seed"].get<std::uint64_t>(),
               row["predicted_seconds"]["median"].get<double>(), range("measured_seconds", 2), range("ratio", 3),
               row["job"].get<std::string>());
  }
  if (summary["jobs"] == 0) return;
  fmt::print("{} of {} jobs within 10 %; off by {:.1f} % in the median, {:.1f} % at most; cells are in {}\n",
             summary["within_10_per_cent"].get<int>(), summary["jobs"].get<int>(), 100 * summary["median_error"].get<double>(),
             100 * summary["largest_error"].get<double>(), options.replays.folder);
}

Json scale_json(const Options& options, const bench::ScaleBenchReport& report) {
  return {{"model", options.model},
          {"workers", options.scale.workers},
          {"servers", options.scale.servers},
          {"schedule", options.scale.schedule},
          {"sync", options.scale.sync},
          {"units", report.units},
          {"predicted_seconds", report.iteration},
          {"processor_seconds", report.seconds},
          {"peak_bytes", report.peak_bytes}};
}

int run(const Options& options) {
  bench::ReplaysBenchResult replays;
  Json rows = Json::array(), scale;
  // First, since the memory that it needs is this process's peak.
  if (wants(options, "scale")) {
    bench::ScaleBenchOptions bench = options.scale;
    bench.table = fmt::format("{}/{}.json", options.tables, options.model);
    const auto report = bench::run_scale_bench(bench);
    if (!report.ok()) return report_error(report.status());
    scale = scale_json(options, *report);
  }
  if (wants(options, "replays")) {
    auto result = replay(options);
    if (!result.ok()) return report_error(result.status());
    replays = *std::move(result);
    rows = bench::rows_of(replays.cells);
  }
  const Json summary = bench::summary_of_rows(rows);
  if (options.json) {
    const Machine machine = this_machine();
    fmt::print("{}\n",
               Json{{"machine", {{"processor", machine.processor}, {"cores", machine.usable_cores}, {"system", machine.system}}},
                    {"scale", scale},
                    {"rows", rows},
                    {"summary", summary},
                    {"failures", replays.failures}}
                   .dump(2));
  } else {
    if (!scale.is_null()) {
      fmt::print(
          "{} workers, {} servers, {} by {} ({}), {} units: an iteration is stepped in {:.1f} s of a core with {}; predicted {}\n",
          scale["workers"].get<int>(), scale["servers"].get<int>(), options.model, options.scale.schedule, options.scale.sync,
          scale["units"].get<std::int64_t>(), scale["processor_seconds"].get<double>(),
          to_text(Bytes{scale["peak_bytes"].get<std::int64_t>()}), to_text(from_seconds(scale["predicted_seconds"])));
    }
    if (!rows.empty()) print_replays(rows, summary, options);
  }
  if (replays.failures.empty()) return kDone;
  return report_error(
      error(ErrorKind::kIo, "{} jobs of the benchmark failed; the first: {}", replays.failures.size(), replays.failures[0])
          .because({"program-failed", ""}));
}

}  // namespace

void add_bench_prediction(CLI::App& bench, Chosen& chosen) {
  CLI::App* command = bench.add_subcommand("prediction",
                                           "Predictions beside random jobs replayed between shaped hosts (needs the rights of a "
                                           "lab), and what it costs to step a job of a thousand workers in virtual time");
  const auto options = std::make_shared<Options>();
  options->tables = bench_files("tables");
  command->add_option("--parts", options->parts, "replays, scale")->delimiter(',')->allow_extra_args(false)->capture_default_str();
  within(command->add_option("--jobs", options->replays.jobs, "Random jobs; every fourth has the same model of synchronisation"), 1,
         10'000)
      ->capture_default_str();
  within(command->add_option("--seed", options->replays.first_seed, "Of the first job; the others' follow"), 0,
         9'000'000'000'000'000)
      ->capture_default_str();
  within(command->add_option("--turns", options->replays.turns, "Times that each job is run, in turn"), 1, 100)
      ->capture_default_str();
  command->add_option("--length", options->replays.length, "Seconds that a job computes, about; 10 iterations at least")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  command
      ->add_option("--output", options->replays.folder,
                   "Folder of the tables and of the finished cells (cells.jsonl), which are not run again")
      ->capture_default_str();
  within(command->add_option("--workers", options->scale.workers, "Of the large job"), 1, 100'000)->capture_default_str();
  within(command->add_option("--servers", options->scale.servers, "Of the large job"), 1, 100'000)->capture_default_str();
  command->add_option("--sync", options->scale.sync, "Of the large job: bsp, asp, ssp, elastic-bsp")->capture_default_str();
  command->add_option("--schedule", options->scale.schedule, "Of the large job")->capture_default_str();
  command->add_option("--model", options->model, "Layer table of the large job: name of a file in --tables")->capture_default_str();
  command->add_option("--tables", options->tables, "Folder of the layer tables")->capture_default_str();
  CLI::Option* quick = command->add_flag("--quick", options->quick, "Four jobs of some seconds, one turn; 100 workers, 20 servers");
  command->add_flag("--json", options->json, "One JSON document; times in seconds");
  command->add_flag("--progress", options->progress, "Show progress even when standard error is no terminal");
  set_examples(*command,
               "  paceline bench prediction --quick\n"
               "  paceline bench prediction --parts replays --jobs 20 --turns 3 --output runs/prediction\n"
               "  paceline bench prediction --parts scale --workers 1000 --servers 200");
  command->callback([options, command, quick, &chosen] {
    if (quick->count() > 0) {
      const auto unless_given = [&](const char* name) { return command->get_option(name)->count() == 0; };
      if (unless_given("--jobs")) options->replays.jobs = 4;
      if (unless_given("--turns")) options->replays.turns = 1;
      if (unless_given("--length")) options->replays.length = 2;
      if (unless_given("--workers")) options->scale.workers = 100;
      if (unless_given("--servers")) options->scale.servers = 20;
    }
    chosen.run = [options, command] {
      std::vector<OptionOfParts> uses;
      for (const char* name : {"--jobs", "--seed", "--turns", "--length", "--output"}) uses.push_back({name, {"replays"}});
      for (const char* name : {"--workers", "--servers", "--sync", "--schedule", "--model", "--tables"})
        uses.push_back({name, {"scale"}});
      const Status status = check_parts(*command, options->parts, {"replays", "scale"}, uses);
      return status.ok() ? run(*options) : report_error(status);
    };
  });
}

}  // namespace paceline::cli

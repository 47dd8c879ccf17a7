#include "benchmarks/sync.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <unistd.h>

#include "base/error_line.h"
#include "base/text.h"
#include "bench/sync/jobs_bench.h"
#include "bench/sync/prediction_bench.h"
#include "benchmarks/files.h"
#include "benchmarks/parts.h"
#include "paceline/beside.h"
#include "paceline/machine.h"
#include "paceline/picture.h"
#include "paceline/progress.h"
#include "paceline/within.h"
#include "process/child.h"
#include "runtime/signals.h"

namespace paceline::cli {
namespace {

struct Options {
  std::vector<std::string> parts = {"prediction", "replay", "lenet"};
  int seeds = 5;
  std::string output = "runs/sync";
  std::string python, pictures;
  bool quick = false, json = false, progress = false, no_pictures = false;
};

namespace fs = std::filesystem;
using Json = bench::Ledger::Json;

// No job of this benchmark takes a quarter of it.
constexpr Duration kLongestJob = std::chrono::minutes(10);

bool wants(const Options& options, const char* part) { return std::ranges::find(options.parts, part) != options.parts.end(); }

class SyncBench {
 public:
  explicit SyncBench(const Options& options)
      : options_(options),
        interrupt_{-1, -1},
        piped_(pipe(interrupt_)),
        signals_({SIGINT, SIGTERM, SIGHUP}, [this](int) { [[maybe_unused]] const auto told = write(interrupt_[1], "i", 1); }) {}
  ~SyncBench() {
    for (const int end : interrupt_) close(end);
  }
  SyncBench(const SyncBench&) = delete;
  SyncBench& operator=(const SyncBench&) = delete;

  int run() {
    std::error_code problem;
    fs::create_directories(options_.output, problem);
    if (problem) return report_error(error(ErrorKind::kBadRequest, "--output {}: {}", options_.output, problem.message()));
    if (wants(options_, "prediction")) {
      if (const Status status = predict(); !status.ok()) return report_error(status);
    }
    bench::JobsBenchResult jobs;
    if (wants(options_, "replay") || wants(options_, "lenet")) {
      auto result = run_jobs();
      bar_.reset();
      if (!result.ok()) return report_error(result.status());
      jobs = *std::move(result);
      if (!options_.no_pictures && !jobs.cells.empty())
        draw_measured(options_.python, options_.pictures + "/pictures.py", {options_.output});
    }
    const Json rows = bench::sync_summary_of(jobs.cells);
    if (options_.json)
      print_json(rows, jobs.failures);
    else
      print_tables(rows);
    if (jobs.failures.empty()) return kDone;
    return report_error(
        error(ErrorKind::kIo, "{} jobs of the benchmark failed; the first: {}", jobs.failures.size(), jobs.failures[0])
            .because({"program-failed", ""}));
  }

 private:
  Status predict() {
    bench::PredictionBenchOptions bench;
    bench.cases = options_.quick ? bench::table_2_cases() : bench::all_prediction_cases();
    if (options_.quick) bench.longest = 0.05;
    PACELINE_ASSIGN_OR_RETURN(predictions_, bench::run_prediction_bench(bench));
    return {};
  }

  Result<bench::JobsBenchResult> run_jobs() {
    bench::JobsBenchOptions bench;
    bench.parts.clear();
    for (const char* part : {"replay", "lenet"}) {
      if (wants(options_, part)) bench.parts.emplace_back(part);
    }
    bench.seeds = options_.seeds;
    bench.quick = options_.quick;
    bench.folder = fs::absolute(options_.output).lexically_normal();
    bench.table = (fs::path(bench.folder) / "replay.json").string();
    bench.train = [this](const std::vector<std::string>& arguments) { return train(arguments); };
    bench.on_cell = [&](std::size_t done, std::size_t cells, const std::string& key) {
      if (bar_ == nullptr) {
        bar_ = std::make_unique<ProgressBar>("bench sync", static_cast<std::int64_t>(cells),
                                             options_.progress ? ShowProgress::kAlways : ShowProgress::kOnTerminal, clock_);
      }
      bar_->update(static_cast<std::int64_t>(done), key);
    };
    return bench::run_jobs_bench(bench);
  }

  Result<Json> train(const std::vector<std::string>& arguments) {
    std::vector<std::string> words = {program_beside("paceline").string(), "train", "--json"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    PACELINE_ASSIGN_OR_RETURN(const auto child, Child::start("paceline train", words));
    std::string out, last_error;
    const TimePoint deadline = clock_.now() + kLongestJob;
    while (!child->ended() || child->output() >= 0 || child->errors() >= 0) {
      pollfd ends[] = {{interrupt_[0], POLLIN, 0}, {child->output(), POLLIN, 0}, {child->errors(), POLLIN, 0}};
      constexpr int kPatience = 100;  // a child that has closed its ends is looked at again
      if (poll(ends, 3, kPatience) < 0 && errno != EINTR) return error(ErrorKind::kIo, "cannot wait for a job: errno {}", errno);
      if ((ends[0].revents & POLLIN) != 0) {
        child->signal(SIGTERM);
        child->wait();
        return error(ErrorKind::kCancelled, "interrupted by the user; finished cells are kept in {}", options_.output);
      }
      child->read_output([&](const std::string& line) { out += line + "\n"; });
      child->read_errors([&](const std::string& line) { last_error = line; });
      child->try_wait();
      if (clock_.now() >= deadline) return error(ErrorKind::kDeadline, "a job took longer than {}", to_text(kLongestJob));
    }
    Json report = Json::parse(out, nullptr, /*allow_exceptions=*/false);
    if (child->wait_status() != 0 || !report.is_object())
      return error(ErrorKind::kIo, "paceline train {}: {}", child->ending(), without_code(last_error));
    return report;
  }

  void print_json(const Json& rows, const std::vector<std::string>& failures) const {
    const Machine machine = this_machine();
    fmt::print("{}\n",
               Json{{"machine", {{"processor", machine.processor}, {"cores", machine.usable_cores}, {"system", machine.system}}},
                    {"prediction", predictions_},
                    {"cells", rows.empty() ? Json() : Json(options_.output + "/cells.jsonl")},
                    {"rows", rows},
                    {"failures", failures}}
                   .dump(2));
  }

  void print_tables(const Json& rows) const {
    if (!predictions_.empty()) {
      fmt::print("Prediction of a barrier, one core, median; the paper's numbers are of a 24-core Xeon E5-2620 v3\n\n");
      fmt::print("{:>8} {:>10}  {:<15} {:<14} {:>11} {:>11} {:>13} {:>11}\n", "workers", "lookahead", "algorithm", "objective",
                 "time", "paper", "times faster", "of ZipLine");
    }
    for (const Json& row : predictions_) {
      const auto time = [&](const Json& value) { return value.is_number() ? to_text(from_seconds(value)) : std::string("-"); };
      fmt::print("{:>8} {:>10}  {:<15} {:<14} {:>11} {:>11} {:>13} {:>11}\n", row["workers"].get<std::int64_t>(),
                 row["lookahead"].get<std::int64_t>(), row["algorithm"].get<std::string>(), row["objective"].get<std::string>(),
                 row["seconds"].is_null() ? "too long" : time(row["seconds"]["median"]), time(row["paper_seconds"]),
                 row["times_faster"].is_null() ? "" : fmt::format("{:.0f}", row["times_faster"].get<double>()),
                 row["value_of_zip_line"].is_null() ? "" : fmt::format("{:.3f}", row["value_of_zip_line"].get<double>()));
    }
    std::string part;
    for (const Json& row : rows) {
      if (row["part"] != part) {
        part = row["part"];
        fmt::print(
            "\n{}: 4 workers of speeds 1, 1, 0.5, 0.25 with 10 % jitter, median of {} seeds (least .. most)\n{:<24} {:>28} {:>26} "
            "{:>12} {:>10} {:>24}\n",
            part, row["seeds"].get<int>(), "", "samples/s", "waiting share", "mean acc.", "of BSP's", "time to 95 %");
      }
      const auto range = [&](const char* key, const char* format) {
        if (row[key].is_null()) return std::string("-");
        const auto number = [&](const char* which) { return fmt::format(fmt::runtime(format), row[key][which].get<double>()); };
        return fmt::format("{} ({} .. {})", number("median"), number("lowest"), number("highest"));
      };
      const Json& of_bsp = row["of_bsp"];
      fmt::print("{:<24} {:>28} {:>26} {:>12} {:>10} {:>24}\n", row["contestant"].get<std::string>(),
                 range("samples_per_second", "{:.0f}"), range("waiting_share", "{:.3f}"),
                 row["mean_accuracy"].is_null() ? "-" : fmt::format("{:.4f}", row["mean_accuracy"].get<double>()),
                 of_bsp.is_null() ? "-" : fmt::format("x{:.2f}", of_bsp["samples_per_second"].get<double>()),
                 range("time_to_goal", "{:.1f} s"));
    }
    if (!rows.empty()) fmt::print("\nCells, traces and pictures are in {}\n", options_.output);
  }

  const Options& options_;
  const SystemClock clock_;
  int interrupt_[2];
  [[maybe_unused]] int piped_;
  const runtime::Signals signals_;
  std::unique_ptr<ProgressBar> bar_;
  Json predictions_ = Json::array();
};

int run(const Options& options) { return SyncBench(options).run(); }

}  // namespace

void add_bench_sync(CLI::App& bench, Chosen& chosen) {
  CLI::App* command = bench.add_subcommand("sync",
                                           "How long predicting a barrier takes, beside the paper's Table II; and BSP, ASP, SSP(3) "
                                           "and ElasticBSP on workers of unequal speed, "
                                           "replayed and training LeNet");
  const auto options = std::make_shared<Options>();
  options->pictures = bench_files("sync");
  options->python = python();
  command->add_option("--parts", options->parts, "prediction, replay, lenet")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  within(command->add_option("--seeds", options->seeds, "Jobs of each contestant"), 1, 100)->capture_default_str();
  command
      ->add_option("--output", options->output,
                   "Folder of the finished cells (cells.jsonl), which are not run again, of traces and pictures")
      ->capture_default_str();
  command->add_option("--python", options->python, "Interpreter with matplotlib")->capture_default_str();
  command->add_flag("--no-pictures", options->no_pictures, "Only numbers");
  CLI::Option* quick = command->add_flag("--quick", options->quick, "Table II's cases only; jobs of some seconds, one seed");
  command->add_flag("--json", options->json, "One JSON document; times in seconds");
  command->add_flag("--progress", options->progress, "Show progress even when standard error is no terminal");
  set_examples(*command,
               "  paceline bench sync --parts prediction\n"
               "  paceline bench sync --parts replay,lenet --output runs/sync");
  command->callback([options, command, quick, &chosen] {
    if (quick->count() > 0 && command->get_option("--seeds")->count() == 0) options->seeds = 1;
    chosen.run = [options, command] {
      const std::vector<std::string> jobs = {"replay", "lenet"};
      const Status status = check_parts(*command, options->parts, {"prediction", "replay", "lenet"},
                                        {{"--seeds", jobs}, {"--python", jobs}, {"--no-pictures", jobs}});
      return status.ok() ? run(*options) : report_error(status);
    };
  });
}

}  // namespace paceline::cli

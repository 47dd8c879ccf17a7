#include "bench/prediction/replays_bench.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>

#include <fmt/format.h>

#include "base/median.h"
#include "bench/lab_job.h"
#include "bench/spread.h"

namespace paceline::bench {
namespace {

using Json = Ledger::Json;
namespace fs = std::filesystem;

constexpr double kClose = 0.1;  // what a prediction may be off

std::string key_of(const RandomJob& job, int turn) {
  return fmt::format("seed {}, {} iterations, turn {}", job.seed, job.iterations, turn);
}

class Bench {
 public:
  explicit Bench(const ReplaysBenchOptions& options) : options_(options) {}

  Result<ReplaysBenchResult> run() {
    std::error_code problem;
    fs::create_directories(options_.folder, problem);
    if (problem) return error(ErrorKind::kBadRequest, "cannot make the folder {}: {}", options_.folder, problem.message());
    PACELINE_ASSIGN_OR_RETURN(Ledger ledger, Ledger::open(options_.folder + "/cells.jsonl"));
    ReplaysBenchResult result;
    const auto all = static_cast<std::size_t>(options_.turns) * static_cast<std::size_t>(options_.jobs);
    for (int turn = 0; turn < options_.turns; ++turn) {
      for (int i = 0; i < options_.jobs; ++i) {
        const RandomJob job = random_job(options_.first_seed + static_cast<std::uint64_t>(i), options_.length);
        const std::string key = key_of(job, turn);
        if (!ledger.has(key)) {
          if (options_.on_cell) options_.on_cell(result.cells.size() + result.failures.size(), all, key);
          const auto cell = run_cell(job, key, turn);
          if (!cell.ok() && cell.status().kind() == ErrorKind::kCancelled) return cell.status();
          if (!cell.ok()) {
            result.failures.push_back(fmt::format("{}: {}", key, cell.status().message()));
            continue;
          }
          PACELINE_RETURN_IF_ERROR(ledger.add(*cell));
        }
        result.cells.push_back(ledger.cells().at(key));
      }
    }
    return result;
  }

 private:
  Result<Json> run_cell(const RandomJob& job, const std::string& key, int turn) {
    const std::string table = fmt::format("{}/job-{}.json", fs::absolute(options_.folder).string(), job.seed);
    std::ofstream(table) << replay::to_text(job.table, {{"model", fmt::format("random job {}", job.seed)}});
    PACELINE_ASSIGN_OR_RETURN(const auto lab, lab::Lab::create({.shape = {.rates = job.links}}));
    PACELINE_ASSIGN_OR_RETURN(const BytesPerSecond goodput, lab->goodput(0, 1));
    const double share = goodput.value / std::min(job.links[0].value, job.links[1].value);
    PACELINE_ASSIGN_OR_RETURN(const double predicted,
                              simulation::predict_job(job_of(job), job.schedule, cluster_of(job, share, options_), job.iterations));
    LabJob run{.commands = paceline_commands(options_.paceline, job.hosts(), HostRole::kWorkerAndServer, words_of(job, table)),
               .limit = from_seconds(60 + 10 * predicted),
               .interrupt = options_.interrupt};
    PACELINE_ASSIGN_OR_RETURN(const LabJobRun done, run_lab_job(*lab, run));
    const double measured = done.report.at("seconds");
    return Json{{"key", key},
                {"seed", job.seed},
                {"turn", turn},
                {"job", job.text()},
                {"hosts", job.hosts()},
                {"iterations", job.iterations},
                {"goodput_share", share},
                {"predicted_seconds", predicted},
                {"measured_seconds", measured},
                {"ratio", measured / predicted},
                {"report", done.report}};
  }

  const ReplaysBenchOptions& options_;
};

Json spread_of(const std::vector<const Json*>& cells, const char* name) {
  std::vector<double> values;
  for (const Json* cell : cells) values.push_back(cell->at(name));
  const Spread of = spread(values);
  return {{"median", of.median}, {"lowest", of.lowest}, {"highest", of.highest}};
}

}  // namespace

simulation::Cluster cluster_of(const RandomJob& job, double share, const ReplaysBenchOptions& options) {
  simulation::Cluster cluster{.workers = job.hosts(),
                              .servers = job.hosts(),
                              .layout = simulation::Cluster::Layout::kShared,
                              .start_up = options.start_up,
                              .processing = options.processing};
  for (const BytesPerSecond link : job.links) cluster.links.push_back({link.value * share});
  cluster.link = cluster.links.front();
  return cluster;
}

Result<ReplaysBenchResult> run_replays_bench(const ReplaysBenchOptions& options) { return Bench(options).run(); }

Json rows_of(const std::vector<Json>& cells) {
  std::vector<std::uint64_t> seeds;
  for (const Json& cell : cells) {
    if (std::ranges::find(seeds, cell.at("seed").get<std::uint64_t>()) == seeds.end()) seeds.push_back(cell.at("seed"));
  }
  Json rows = Json::array();
  for (const std::uint64_t seed : seeds) {
    std::vector<const Json*> of;
    for (const Json& cell : cells) {
      if (cell.at("seed") == seed) of.push_back(&cell);
    }
    rows.push_back({{"seed", seed},
                    {"job", of.front()->at("job")},
                    {"iterations", of.front()->at("iterations")},
                    {"predicted_seconds", spread_of(of, "predicted_seconds")},
                    {"measured_seconds", spread_of(of, "measured_seconds")},
                    {"ratio", spread_of(of, "ratio")}});
  }
  return rows;
}

Json summary_of_rows(const Json& rows) {
  std::vector<double> errors;
  for (const Json& row : rows) errors.push_back(std::abs(row.at("ratio").at("median").get<double>() - 1));
  if (errors.empty()) return {{"jobs", 0}};
  return {{"jobs", errors.size()},
          {"within_10_per_cent", std::ranges::count_if(errors, [](double error) { return error <= kClose; })},
          {"median_error", median(errors)},
          {"largest_error", std::ranges::max(errors)}};
}

}  // namespace paceline::bench

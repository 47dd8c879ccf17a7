#include "bench/sync/jobs_bench.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "bench/spread.h"

namespace paceline::bench {
namespace {

namespace fs = std::filesystem;
using Json = Ledger::Json;

struct Model {
  const char* name;
  std::vector<std::string> arguments;
  bool uneven;  // rank 0, a fast worker, does more iterations than the mean
};

const std::vector<Model>& models() {
  static const std::vector<Model> all = {
      {kContestants[0], {"--sync", "bsp"}, false},
      {kContestants[1], {"--sync", "asp"}, true},
      {kContestants[2], {"--sync", "ssp", "--staleness", "3"}, false},
      {kContestants[3], {"--sync", "elastic-bsp", "--objective", "span"}, true},
      {kContestants[4], {"--sync", "elastic-bsp", "--objective", "waiting-share"}, true},
  };
  return all;
}

// Four workers of speeds 1, 1, 0.5 and 0.25 share two cores: a real network's are slowed down to 0.4 of these, so that all of them
// together need little more than one core and nobody waits for a processor.
constexpr const char* kReplaySpeeds = "1,1,0.5,0.25";
constexpr const char* kNetworkSpeeds = "0.4,0.4,0.2,0.1";

// The rate falls to nothing by the end of the job, so that final accuracies compare what was learnt, not who was interrupted where.
constexpr const char* kRate = "cosine:0.1,total=400";

// 20 ms of computing in ten layers, 400 000 parameters.
Json replay_table() {
  Json layers = Json::array();
  for (int i = 1; i <= 10; ++i)
    layers.push_back({{"name", fmt::format("layer{}", i)}, {"parameters", 40'000}, {"forward_s", 0.0007}, {"backward_s", 0.0013}});
  return {{"layers", layers}};
}

Status write_table(const std::string& file) {
  std::error_code problem;
  if (fs::exists(file, problem)) return {};
  std::ofstream(file) << replay_table().dump(1) << "\n";
  if (!fs::exists(file, problem)) return error(ErrorKind::kBadRequest, "cannot write the table {}", file);
  return {};
}

std::vector<std::string> arguments_of(const JobsBenchOptions& options, const SyncCell& cell, const Model& model) {
  std::vector<std::string> words = {"--workers", "4",        "--servers", "2",      "--schedule",
                                    "p3",        "--jitter", "0.1",       "--seed", std::to_string(cell.seed)};
  const auto add = [&](std::initializer_list<std::string> more) { words.insert(words.end(), more); };
  if (cell.part == "replay") {
    add({"--model", "replay:" + options.table, "--speed", kReplaySpeeds, "--iterations", options.quick ? "20" : "150"});
  } else {
    add({"--model", "lenet", "--dataset", "mnist-5k", "--speed", kNetworkSpeeds, "--mini-batch", "16", "--learning-rate", kRate,
         "--iterations", options.quick ? "20" : "400", "--evaluate-every", model.uneven ? "30" : "10", "--evaluate-late"});
  }
  words.insert(words.end(), model.arguments.begin(), model.arguments.end());
  if (!cell.trace.empty()) add({"--pace", cell.trace});
  return words;
}

std::string file_name(std::string name) {
  for (char& c : name) {
    if (std::string_view(" ()").find(c) != std::string_view::npos) c = '-';
  }
  return name;
}

// Of all workers' time, what they spent on `key`.
double share(const Json& report, const char* key) {
  double part = 0, whole = 0;
  for (const Json& worker : report["per_worker"]) {
    part += worker[key].get<double>();
    whole += worker["seconds"].get<double>();
  }
  return whole > 0 ? part / whole : 0;
}

Json spread_json(const std::vector<double>& values) {
  if (values.empty()) return nullptr;
  const Spread of = spread(values);
  return {{"median", of.median}, {"lowest", of.lowest}, {"highest", of.highest}};
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

Json row_of(const std::string& part, const std::string& contestant, const std::vector<const Json*>& cells) {
  const auto values = [&](const char* key) {
    std::vector<double> found;
    for (const Json* cell : cells) {
      if (const Json& value = (*cell)[key]; value.is_number()) found.push_back(value);
    }
    return found;
  };
  const std::vector<double> accuracy = values("accuracy"), reached = values("time_to_goal");
  return {{"part", part},
          {"contestant", contestant},
          {"seeds", cells.size()},
          {"samples_per_second", spread_json(values("samples_per_second"))},
          {"waiting_share", spread_json(values("waiting_share"))},
          {"waiting_barrier_share", spread_json(values("waiting_barrier_share"))},
          {"seconds", spread_json(values("seconds"))},
          {"accuracy", spread_json(accuracy)},
          {"mean_accuracy", accuracy.empty() ? Json() : Json(mean(accuracy))},
          {"time_to_goal", spread_json(reached)},
          {"reached_goal", reached.size()},
          {"of_bsp", nullptr}};
}

void compare(Json& row, const Json& bsp) {
  const auto ratio = [&](const char* key) { return row[key]["median"].get<double>() / bsp[key]["median"].get<double>(); };
  row["of_bsp"] = {{"samples_per_second", ratio("samples_per_second")}, {"waiting_share", ratio("waiting_share")}};
  row["of_bsp"]["mean_accuracy"] = row["mean_accuracy"].is_null() || bsp["mean_accuracy"].is_null()
                                       ? Json()
                                       : Json(row["mean_accuracy"].get<double>() - bsp["mean_accuracy"].get<double>());
}

}  // namespace

std::vector<SyncCell> sync_cells(const JobsBenchOptions& options) {
  std::vector<SyncCell> cells;
  for (const std::string& part : options.parts) {
    for (int seed = 1; seed <= options.seeds; ++seed) {
      for (const Model& model : models()) {
        SyncCell cell{part, model.name, seed, {}, {}, {}};
        cell.key = fmt::format("{}{}, {}, seed {}", part, options.quick ? " (quick)" : "", model.name, seed);
        if (seed == 1) cell.trace = options.folder + "/trace-" + file_name(part + "-" + model.name) + ".jsonl";
        cell.arguments = arguments_of(options, cell, model);
        cells.push_back(std::move(cell));
      }
    }
  }
  return cells;
}

Json time_to(const Json& report, double goal) {
  for (const Json& evaluation : report["evaluations"]) {
    if (evaluation["accuracy"].is_number() && evaluation["accuracy"].get<double>() >= goal) return evaluation["seconds"];
  }
  return nullptr;
}

Result<JobsBenchResult> run_jobs_bench(const JobsBenchOptions& options) {
  PACELINE_RETURN_IF_ERROR(write_table(options.table));
  PACELINE_ASSIGN_OR_RETURN(Ledger ledger, Ledger::open(options.folder + "/cells.jsonl"));
  const std::vector<SyncCell> cells = sync_cells(options);
  JobsBenchResult result;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const SyncCell& cell = cells[i];
    if (!ledger.has(cell.key)) {
      if (options.on_cell) options.on_cell(i, cells.size(), cell.key);
      const auto report = options.train(cell.arguments);
      if (!report.ok() && report.status().kind() == ErrorKind::kCancelled) return report.status();
      if (!report.ok()) {
        result.failures.push_back(fmt::format("{}: {}", cell.key, report.status().message()));
        continue;
      }
      PACELINE_RETURN_IF_ERROR(ledger.add({{"key", cell.key},
                                           {"part", cell.part},
                                           {"contestant", cell.contestant},
                                           {"seed", cell.seed},
                                           {"samples_per_second", (*report)["samples_per_second"]},
                                           {"waiting_share", share(*report, "waiting")},
                                           {"waiting_barrier_share", share(*report, "waiting_barrier")},
                                           {"seconds", (*report)["seconds"]},
                                           {"accuracy", (*report)["accuracy"]},
                                           {"time_to_goal", time_to(*report, options.goal)},
                                           {"trace", cell.trace},
                                           {"report", *report}}));
    }
    result.cells.push_back(ledger.cells().at(cell.key));
  }
  return result;
}

Json sync_summary_of(const std::vector<Json>& cells) {
  Json rows = Json::array();
  std::vector<std::string> parts;
  for (const Json& cell : cells) {
    if (std::ranges::find(parts, cell["part"].get<std::string>()) == parts.end()) parts.push_back(cell["part"]);
  }
  for (const std::string& part : parts) {
    const std::size_t first = rows.size();
    for (const char* contestant : kContestants) {
      std::vector<const Json*> of;
      for (const Json& cell : cells) {
        if (cell["part"] == part && cell["contestant"] == contestant) of.push_back(&cell);
      }
      if (!of.empty()) rows.push_back(row_of(part, contestant, of));
    }
    if (rows.size() == first || rows[first]["contestant"] != kContestants[0]) continue;
    const Json bsp = rows[first];
    for (std::size_t i = first; i < rows.size(); ++i) compare(rows[i], bsp);
  }
  return rows;
}

}  // namespace paceline::bench

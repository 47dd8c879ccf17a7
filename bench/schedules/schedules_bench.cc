#include "bench/schedules/schedules_bench.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <tuple>

#include <unistd.h>

#include "base/checksum.h"
#include "base/job_key_file.h"
#include "bench/lab_job.h"
#include "bench/spread.h"

namespace paceline::bench {
namespace {

using Json = Ledger::Json;

constexpr std::int64_t kWarmUp = 4;  // iterations: connections open up, DDP orders its buckets, a tuned schedule profiles

class Bench {
 public:
  explicit Bench(const SchedulesBenchOptions& options) : options_(options) {}

  Result<SchedulesBenchResult> run() {
    PACELINE_ASSIGN_OR_RETURN(Ledger ledger, Ledger::open(options_.ledger));
    std::vector<Cell> cells = grid(options_.grid);
    for (Cell& cell : cells) {
      PACELINE_ASSIGN_OR_RETURN(const replay::LayerTable table, table_of(cell));
      // With the link's nominal rate, so that the number does not depend on a measurement.
      const auto bound = cost::iteration_lower_bound(loads_of(table, cell.contestant), cell.hosts, cell.link());
      cell.iterations = iterations_for(bound.lower_bound, options_.length);
    }
    SchedulesBenchResult result;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string key = cells[i].key();
      if (!ledger.has(key)) {
        if (options_.on_cell) options_.on_cell(i, cells.size(), key);
        const auto done = run_cell(cells[i]);
        if (!done.ok() && done.status().kind() == ErrorKind::kCancelled) return done.status();
        if (!done.ok()) {
          result.failures.push_back(fmt::format("{}: {}", key, done.status().message()));
          continue;
        }
        PACELINE_RETURN_IF_ERROR(ledger.add(*done));
      }
      result.cells.push_back(ledger.cells().at(key));
    }
    return result;
  }

 private:
  std::string path_of(const Cell& cell) const { return fmt::format("{}/{}.json", options_.tables, cell.model); }

  Result<replay::LayerTable> table_of(const Cell& cell) const {
    PACELINE_ASSIGN_OR_RETURN(replay::LayerTable table, replay::read_table(path_of(cell)));
    return replay::scaled(std::move(table), cell.scale);
  }

  // The lab of the last cell serves the next when it is the same.
  Result<const lab::Lab*> lab_for(const Cell& cell) {
    if (lab_ == nullptr || lab_->hosts() != cell.hosts || lab_->rate(0) != cell.link()) {
      lab_.reset();
      options_.shape.rates.assign(static_cast<std::size_t>(cell.hosts), cell.link());
      PACELINE_ASSIGN_OR_RETURN(lab_, lab::Lab::create({.shape = options_.shape}));
    }
    return lab_.get();
  }

  std::vector<lab::HostCommand> commands_of(const Cell& cell) const {
    const std::string iterations = std::to_string(kWarmUp + cell.iterations), scale = fmt::format("{:g}", cell.scale);
    if (const auto peer = peer_of(cell.contestant)) {
      const bool torch = peer->interpreter == PeerContestant::Interpreter::kTorch;
      std::vector<lab::HostCommand> commands;
      for (int host = 0; host < cell.hosts; ++host) {
        commands.push_back(
            {.host = host,
             .arguments = {torch ? options_.python : options_.mxnet, options_.peers + "/" + peer->script, "--table", path_of(cell),
                           "--scale", scale, "--iterations", iterations, "--rank", std::to_string(host), "--hosts",
                           std::to_string(cell.hosts), "--master", lab::address(0)}});
        auto& arguments = commands.back().arguments;
        arguments.insert(arguments.end(), peer->arguments.begin(), peer->arguments.end());
      }
      return commands;
    }
    std::vector<std::string> words = {"--model", "replay:" + path_of(cell), "--scale", scale, "--iterations", iterations};
    const auto loop = loop_of(cell.contestant);
    if (loop)
      words.insert(words.end(), {"--collective", loop->loop, "--algorithm", loop->algorithm});
    else
      words.insert(words.end(), {"--schedule", schedule_of(cell.contestant).schedule, "--wire", schedule_of(cell.contestant).wire});
    if (!cell.slice.empty()) words.insert(words.end(), {"--slice", cell.slice});
    words.insert(words.end(), options_.job_options.begin(), options_.job_options.end());
    const HostRole role = loop ? HostRole::kWorker : options_.apart ? HostRole::kApart : HostRole::kWorkerAndServer;
    return paceline_commands(options_.paceline, cell.hosts, role, words,
                             schedule_of(cell.contestant).encrypted ? options_.key : "");
  }

  Result<Json> run_cell(const Cell& cell) {
    PACELINE_ASSIGN_OR_RETURN(const replay::LayerTable table, table_of(cell));
    PACELINE_ASSIGN_OR_RETURN(const lab::Lab* const lab, lab_for(cell));
    PACELINE_ASSIGN_OR_RETURN(const BytesPerSecond goodput, lab->goodput(0, 1));
    if (schedule_of(cell.contestant).encrypted && !std::filesystem::exists(options_.key))
      PACELINE_RETURN_IF_ERROR(write_job_key(options_.key, JobKey::draw()));
    const cost::LowerBound bound = cost::iteration_lower_bound(loads_of(table, cell.contestant), cell.hosts, goodput);
    LabJob job;
    job.commands = commands_of(cell);
    job.warm_up = kWarmUp;
    job.sampled = cell.turn == 0;
    job.interrupt = options_.interrupt;
    job.limit = from_seconds(60 + 10 * bound.lower_bound * static_cast<double>(kWarmUp + cell.iterations));
    PACELINE_ASSIGN_OR_RETURN(const LabJobRun run, run_lab_job(*lab, job));
    const Spread iteration = spread(run.iteration_seconds);
    Json json = {
        {"key", cell.key()},
        {"model", cell.model},
        {"stands_for_bits_per_second", cell.stands_for},
        {"scale", cell.scale},
        {"hosts", cell.hosts},
        {"contestant", cell.name()},
        {"turn", cell.turn},
        {"iterations", cell.iterations},
        {"link_bytes_per_second", cell.link().value},
        {"goodput_bytes_per_second", goodput.value},
        {"lower_bound",
         {{"seconds", bound.lower_bound}, {"computation", bound.computation}, {"transfer", bound.transfer}, {"tail", bound.tail}}},
        {"iteration_seconds", {{"median", iteration.median}, {"lowest", iteration.lowest}, {"highest", iteration.highest}}},
        {"of_lower_bound", iteration.median / bound.lower_bound},
        {"processor_share", run.busy_seconds / run.window_seconds / static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN))},
        {"processor_seconds_per_gb", run.busy_seconds / (1e-9 * static_cast<double>(run.window_bytes.count))},
        {"cpu_seconds", run.cpu_seconds},
        {"bytes_sent", run.bytes.count},
        {"window", {{"seconds", run.window_seconds}, {"bytes_sent", run.window_bytes.count}}}};
    json["report"] = run.report;
    if (job.sampled) json["host_0"] = utilisation(run);
    return json;
  }

  // Of the last iterations, as bytes in each step of about 10 ms.
  static Json utilisation(const LabJobRun& run) {
    constexpr std::size_t kMost = 400;
    Json seconds = Json::array(), sent = Json::array(), received = Json::array();
    const std::size_t first = run.samples.size() > kMost ? run.samples.size() - kMost : 1;
    for (std::size_t i = std::max<std::size_t>(first, 1); i < run.samples.size(); ++i) {
      seconds.push_back(run.samples[i].seconds);
      sent.push_back((run.samples[i].traffic.sent - run.samples[i - 1].traffic.sent).count);
      received.push_back((run.samples[i].traffic.received - run.samples[i - 1].traffic.received).count);
    }
    return {{"seconds", seconds}, {"sent", sent}, {"received", received}};
  }

  SchedulesBenchOptions options_;
  std::unique_ptr<lab::Lab> lab_;
};

// Cells that differ only in their turn.
std::string group_of(const Json& cell) {
  return fmt::format("{} {:g} {:g} {} {} {}", cell["model"].get<std::string>(), cell["stands_for_bits_per_second"].get<double>(),
                     cell["scale"].get<double>(), cell["hosts"].get<int>(), cell["iterations"].get<int>(),
                     cell["contestant"].get<std::string>());
}

std::string hash_of(const Json& cell) {
  if (cell["report"].is_object() && cell["report"].contains("collective") && cell["report"]["collective"].is_object() &&
      cell["report"]["collective"].value("sum_order", "rank") != "rank")
    return "";
  return cell["report"].is_object() && cell["report"].contains("parameters_hash")
             ? cell["report"]["parameters_hash"].get<std::string>()
             : "";
}

// Of what the turns' reports have under this name: each number's median. Null where there is none.
Json medians_of(const std::vector<const Json*>& cells, const char* name) {
  std::map<std::string, std::vector<double>> numbers;
  for (const Json* const cell : cells) {
    const Json& report = (*cell)["report"];
    if (!report.is_object() || !report.value(name, Json()).is_object()) return {};
    for (const auto& [key, value] : report[name].items())
      if (value.is_number()) numbers[key].push_back(value.get<double>());
  }
  Json medians = Json::object();
  for (auto& [key, values] : numbers) medians[key] = median(values);
  return medians;
}

}  // namespace

Result<SchedulesBenchResult> run_schedules_bench(const SchedulesBenchOptions& options) { return Bench(options).run(); }

Json summary_of(const std::vector<Json>& cells) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<const Json*>> groups;
  for (const Json& cell : cells) {
    auto& group = groups[group_of(cell)];
    if (group.empty()) order.push_back(group_of(cell));
    group.push_back(&cell);
  }
  Json rows = Json::array();
  for (const std::string& name : order) {
    std::vector<double> times, ratios, bounds, computing, shares, costs;
    for (const Json* const cell : groups[name]) {
      times.push_back((*cell)["iteration_seconds"]["median"]);
      ratios.push_back((*cell)["of_lower_bound"]);
      bounds.push_back((*cell)["lower_bound"]["seconds"]);
      computing.push_back((*cell)["lower_bound"]["computation"]);
      shares.push_back((*cell)["processor_share"]);
      costs.push_back((*cell)["processor_seconds_per_gb"]);
    }
    const Json& first = *groups[name][0];
    const auto json = [](const Spread& one) {
      return Json{{"median", one.median}, {"lowest", one.lowest}, {"highest", one.highest}};
    };
    rows.push_back({{"model", first["model"]},
                    {"stands_for_bits_per_second", first["stands_for_bits_per_second"]},
                    {"hosts", first["hosts"]},
                    {"contestant", first["contestant"]},
                    {"turns", times.size()},
                    {"iteration_seconds", json(spread(times))},
                    {"of_lower_bound", json(spread(ratios))},
                    {"lower_bound_seconds", median(bounds)},
                    {"computation_seconds", median(computing)},
                    {"communication_seconds", std::max(0.0, median(times) - median(computing))},
                    {"phases", medians_of(groups[name], "phases")},
                    {"batching", medians_of(groups[name], "batching")},
                    {"processor_share", median(shares)},
                    {"processor_seconds_per_gb", median(costs)},
                    {"parameters_hash", hash_of(first).empty() ? Json() : Json(hash_of(first))}});
  }
  return rows;
}

Json loop_profile(const Json& rows) {
  const auto job_of = [](const Json& row) {
    return std::tuple(row["model"].get<std::string>(), row["stands_for_bits_per_second"].get<double>(), row["hosts"].get<int>());
  };
  // The paper's columns, and what they are here.
  static const std::vector<std::pair<std::string, std::string>> columns = {
      {"loop1-mst", "MST Alg.1"}, {"loop1-be", "BE Alg.1"}, {"loop3-overlap-be", "BE Overlap-Alg.3"}, {"loop1-lp", "LP Alg.1"},
      {"loop2-lp", "LP Alg.2"},   {"loop3-lp", "LP Alg.3"}, {"loop3-overlap-lp", "LP Overlap-Alg.3"}};
  Json profile = Json::array();
  const auto add = [&](const Json& row, const std::string& column) {
    const double communication = row["communication_seconds"], computation = row["computation_seconds"];
    profile.push_back({{"model", row["model"]},
                       {"stands_for_bits_per_second", row["stands_for_bits_per_second"]},
                       {"hosts", row["hosts"]},
                       {"column", column},
                       {"communication_seconds", communication},
                       {"computation_seconds", computation},
                       {"communication_share", communication / (communication + computation)}});
  };
  // Where a loop's column stands, behind those of the jobs before.
  const auto place_of = [&](const std::string& name) {
    return std::ranges::find(columns, name, [](const auto& each) { return each.first; }) - columns.begin();
  };
  for (std::size_t begin = 0, end = 0; begin < rows.size(); begin = end) {
    std::vector<const Json*> of_job;
    for (; end < rows.size() && job_of(rows[end]) == job_of(rows[begin]); ++end) {
      if (loop_of(rows[end]["contestant"])) of_job.push_back(&rows[end]);
    }
    std::ranges::stable_sort(of_job, {}, [&](const Json* row) { return place_of((*row)["contestant"]); });
    for (const Json* const row : of_job) {
      const std::string name = (*row)["contestant"];
      const auto place = static_cast<std::size_t>(place_of(name));
      add(*row, place < columns.size() ? columns[place].second : name);
    }
  }
  return profile;
}

std::vector<std::string> contradictions(const std::vector<Json>& cells) {
  std::map<std::string, const Json*> first;
  std::vector<std::string> found;
  for (const Json& cell : cells) {
    if (hash_of(cell).empty()) continue;
    const std::string wire = schedule_of(cell["contestant"]).wire;  // rounded, the values are others
    const std::string job = fmt::format("{} {} {} {} {}", cell["model"].dump(), cell["scale"].dump(), cell["hosts"].dump(),
                                        cell["iterations"].dump(), wire);
    const auto [seen, is_new] = first.emplace(job, &cell);
    if (!is_new && hash_of(*seen->second) != hash_of(cell)) {
      found.push_back(fmt::format("'{}' and '{}' gave different parameters: {} and {}", (*seen->second)["key"].get<std::string>(),
                                  cell["key"].get<std::string>(), hash_of(*seen->second), hash_of(cell)));
    }
  }
  return found;
}

double crc_seconds_per_gb() {
  const std::vector<std::byte> block(std::size_t{64} * 1024, std::byte{7});
  constexpr int kBlocks = 4000;
  const SystemClock clock;
  const TimePoint start = clock.now();
  std::uint32_t together = 0;
  for (int i = 0; i < kBlocks; ++i) together ^= crc32c(block) + static_cast<std::uint32_t>(i);
  const double taken = seconds(clock.now() - start);
  PACELINE_CHECK(together != 1, "used, so that it is computed");
  return 2 * taken / (1e-9 * kBlocks * static_cast<double>(block.size()));
}

}  // namespace paceline::bench

#include "paceline/bench_planner.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "base/text.h"
#include "bench/ledger.h"
#include "paceline/doctor/machine.h"
#include "paceline/profile/prediction.h"
#include "paceline/progress.h"
#include "paceline/train/trainer_program.h"

namespace paceline::cli {
namespace {

struct Options {
  bool quick = false;
  bool json = false;
  bool progress = false;
  std::string cells;  // file with one JSON line for each finished cell; "": none
};

// Where a network is calibrated, and where its prediction is judged.
struct Subject {
  std::string model;
  std::vector<std::int64_t> calibrate, judge;
};

std::vector<Subject> subjects(const Options& options) {
  if (options.quick) return {{"lenet", {4, 16}, {4, 8, 16}}, {"alexnet-32", {4, 16}, {8}}};
  return {{"lenet", {8, 32, 128}, {8, 16, 32, 64, 128}},
          {"resnet-20", {8, 32, 128}, {8, 16, 32, 64, 128}},
          {"alexnet-32", {8, 32, 128}, {8, 16, 32, 64, 128}},
          {"alexnet", {2, 8, 32}, {2, 4, 8, 16, 32}}};
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

struct Row {
  std::string model;
  std::int64_t mini_batch = 0;
  std::string convolutions;
  double predicted_s = 0, measured_s = 0, default_predicted_s = 0, default_measured_s = 0;
  bool interpolated = false;
  double error() const { return std::abs(predicted_s - measured_s) / measured_s; }
  double default_error() const { return std::abs(default_predicted_s - default_measured_s) / default_measured_s; }
  double gain() const { return default_measured_s / measured_s; }
};

class PlannerBench {
 public:
  // `finished`: what an earlier run measured and is not measured again; nothing: measure all, keep none.
  PlannerBench(const Options& options, std::optional<bench::Ledger> finished)
      : options_(options),
        finished_(std::move(finished)),
        subjects_(subjects(options)),
        memory_(this_machine().available_bytes / 3) {
    std::int64_t total = 0;
    for (const Subject& subject : subjects_)
      total += static_cast<std::int64_t>(2 * subject.calibrate.size() + subject.judge.size());
    bar_ = std::make_unique<ProgressBar>("bench planner", total,
                                         options.progress ? ShowProgress::kAlways : ShowProgress::kOnTerminal, clock_);
  }

  Result<std::vector<Row>> run() {
    for (const Subject& subject : subjects_) PACELINE_RETURN_IF_ERROR(judge(subject));
    bar_.reset();
    return rows_;
  }

 private:
  // Calibrates, then judges, with a second calibration in between, so that both see the same state of the machine. The choice comes
  // from the first, the prediction from both.
  Status judge(const Subject& subject) {
    std::vector<MeasuredStep> calibrations;
    for (const std::int64_t mini_batch : subject.calibrate)
      PACELINE_RETURN_IF_ERROR(calibrate(subject.model, mini_batch, "first", calibrations));
    const std::vector<MeasuredStep> first = calibrations;
    std::vector<Row> rows;
    for (std::size_t i = 0; i < std::max(subject.judge.size(), subject.calibrate.size()); ++i) {
      if (i < subject.calibrate.size())
        PACELINE_RETURN_IF_ERROR(calibrate(subject.model, subject.calibrate[i], "second", calibrations));
      if (i < subject.judge.size()) {
        PACELINE_ASSIGN_OR_RETURN(Row row,
                                  measured_row(subject, subject.judge[i], fastest_choice(predicted_step(first, subject.judge[i]))));
        rows.push_back(std::move(row));
      }
    }
    for (Row& row : rows) {
      const MeasuredStep step = predicted_step(calibrations, row.mini_batch);
      PACELINE_ASSIGN_OR_RETURN(const model::ConvolutionChoice choice, model::parse_convolutions(row.convolutions));
      row.predicted_s = predicted_seconds(step, choice);
      row.default_predicted_s = predicted_seconds(step, {});
      rows_.push_back(row);
    }
    return {};
  }

  Result<Json> measure(const std::string& cell, const Json& profile) {
    if (finished_ && finished_->has(cell)) return finished_->cells().at(cell).value("measurement", Json::object());
    Json measurement;
    PACELINE_RETURN_IF_ERROR(run_trainer({{"label", "bench"}, {"profile", profile}}, [&](const Json& line) {
      if (line.contains("measurement")) measurement = line["measurement"];
    }));
    if (!measurement.is_object()) return error(ErrorKind::kIo, "the trainer measured nothing");
    if (finished_) PACELINE_RETURN_IF_ERROR(finished_->add({{"key", cell}, {"measurement", measurement}}));
    return measurement;
  }

  Json request(const std::string& model, std::int64_t mini_batch) const {
    return {{"model", model}, {"mini_batch", mini_batch}, {"rounds", options_.quick ? 2 : 7}, {"memory", memory_}};
  }

  Status calibrate(const std::string& model, std::int64_t mini_batch, const char* pass, std::vector<MeasuredStep>& calibrations) {
    PACELINE_ASSIGN_OR_RETURN(const Json measured,
                              measure(fmt::format("{} {} calibration {}", model, mini_batch, pass), request(model, mini_batch)));
    bar_->update(++done_);
    PACELINE_ASSIGN_OR_RETURN(MeasuredStep step, read_step(measured, "the trainer's measurement"));
    calibrations.push_back(std::move(step));
    return {};
  }

  Result<Row> measured_row(const Subject& subject, std::int64_t mini_batch, const model::ConvolutionChoice& choice) {
    Row row{.model = subject.model, .mini_batch = mini_batch, .convolutions = to_text(choice)};
    Json profile = request(subject.model, mini_batch);
    profile["convolutions"] = row.convolutions;
    profile["rounds"] = options_.quick ? 3 : 15;
    PACELINE_ASSIGN_OR_RETURN(const Json measured,
                              measure(fmt::format("{} {} with {}", subject.model, mini_batch, row.convolutions), profile));
    bar_->update(++done_);
    row.default_measured_s = measured.value("step_s", 0.0);
    // Where the default is chosen everywhere there is nothing else to measure.
    row.measured_s = row.convolutions.empty() ? row.default_measured_s : measured.value("chosen_step_s", 0.0);
    row.interpolated = std::find(subject.calibrate.begin(), subject.calibrate.end(), mini_batch) == subject.calibrate.end();
    return row;
  }

  const Options& options_;
  const SystemClock clock_;
  std::optional<bench::Ledger> finished_;
  const std::vector<Subject> subjects_;
  const std::int64_t memory_;
  std::unique_ptr<ProgressBar> bar_;
  std::int64_t done_ = 0;
  std::vector<Row> rows_;
};

Json to_json(const std::vector<Row>& rows) {
  Json json = {{"fingerprint", fingerprint()}, {"rows", Json::array()}};
  std::vector<double> errors, default_errors, gains;
  for (const Row& row : rows) {
    errors.push_back(row.error());
    default_errors.push_back(row.default_error());
    gains.push_back(row.gain());
    json["rows"].push_back({{"model", row.model},
                            {"mini_batch", row.mini_batch},
                            {"interpolated", row.interpolated},
                            {"convolutions", row.convolutions},
                            {"predicted_s", row.predicted_s},
                            {"measured_s", row.measured_s},
                            {"error", row.error()},
                            {"default_predicted_s", row.default_predicted_s},
                            {"default_measured_s", row.default_measured_s},
                            {"default_error", row.default_error()},
                            {"gain", row.gain()}});
  }
  json["median_error"] = median(errors);
  json["median_default_error"] = median(default_errors);
  json["median_gain"] = median(gains);
  json["least_gain"] = gains.empty() ? Json(nullptr) : Json(*std::min_element(gains.begin(), gains.end()));
  return json;
}

void print(const std::vector<Row>& rows) {
  fmt::print(
      "One training step on this machine: predicted from other steps, and measured; default: LibTorch's choice of "
      "convolutions\n\n");
  fmt::print("{:<12} {:>10} {:>12} {:>12} {:>8} {:>12} {:>10}  {}\n", "network", "mini-batch", "predicted", "measured", "error",
             "default", "times fast", "convolutions that are not the default");
  for (const Row& row : rows) {
    fmt::print("{:<12} {:>10} {:>12} {:>12} {:>6.1f} % {:>12} {:>10.2f}  {}\n", row.model, row.mini_batch,
               to_text(from_seconds(row.predicted_s)), to_text(from_seconds(row.measured_s)), 100 * row.error(),
               to_text(from_seconds(row.default_measured_s)), row.gain(), row.convolutions.empty() ? "none" : row.convolutions);
  }
  const Json summary = to_json(rows);
  fmt::print(
      "\nmedian error {:.1f} %, of the default's prediction {:.1f} %; the choice is {:.2f} times as fast as the default in the "
      "median, {:.2f} at least\n",
      100 * summary["median_error"].get<double>(), 100 * summary["median_default_error"].get<double>(),
      summary["median_gain"].get<double>(), summary["least_gain"].get<double>());
}

int run(const Options& options) {
  std::optional<bench::Ledger> finished;
  if (!options.cells.empty()) {
    auto opened = bench::Ledger::open(options.cells);
    if (!opened.ok()) return report_error(opened.status());
    finished = std::move(*opened);
  }
  const auto rows = PlannerBench(options, std::move(finished)).run();
  if (!rows.ok()) return report_error(rows.status());
  if (options.json)
    fmt::print("{}\n", to_json(*rows).dump(2));
  else
    print(*rows);
  return kDone;
}

}  // namespace

void add_planner_bench(CLI::App& bench, Chosen& chosen) {
  CLI::App* command = bench.add_subcommand(
      "planner", "Predicted against measured time of a training step, and the chosen convolutions against LibTorch's choice");
  const auto options = std::make_shared<Options>();
  command->add_flag("--quick", options->quick, "Two networks, few steps: a minute, larger errors");
  command
      ->add_option("--cells", options->cells,
                   "One JSON line for each finished cell to this file; those that are there are not run again")
      ->option_text("FILE");
  command->add_flag("--json", options->json, "One JSON document; times in seconds");
  command->add_flag("--progress", options->progress, "Show progress even when standard error is no terminal");
  set_examples(*command, "  paceline bench planner --quick\n  paceline bench planner --cells planner.jsonl --json");
  command->callback([options, &chosen] { chosen.run = [options] { return run(*options); }; });
}

}  // namespace paceline::cli

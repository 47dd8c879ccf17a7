#include "benchmarks/planner.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>

#include <fmt/ranges.h>

#include "base/median.h"
#include "base/text.h"
#include "bench/ledger.h"
#include "paceline/machine.h"
#include "paceline/profile/cache.h"
#include "paceline/progress.h"
#include "paceline/train/trainer_program.h"
#include "planner/questions/step_time.h"

namespace paceline::cli {
namespace {

using planner::MeasuredStep;

struct Options {
  bool quick = false;
  bool json = false;
  bool progress = false;
  std::vector<std::string> models;  // none: all subjects
  int passes = 5;
  std::string cells;  // file with one JSON line for each finished cell; "": none
};

// Where a network is calibrated, and where its prediction is judged.
struct Subject {
  std::string model;
  std::vector<std::int64_t> calibrate, judge;
  int rounds = 2;  // of steps in each cell; the shorter, the more
};

std::vector<Subject> all_subjects(bool quick) {
  if (quick) return {{"lenet", {4, 16}, {4, 8, 16}}, {"alexnet-32", {4, 16}, {8}}};
  // The mini-batches of AlexNet are what one core does in seconds.
  return {{"lenet", {8, 32, 128}, {8, 16, 32, 64, 128}, 15},
          {"resnet-20", {8, 32, 128}, {8, 16, 32, 64, 128}, 5},
          {"alexnet-32", {4, 16, 64}, {4, 8, 16, 32, 64}, 5},
          {"alexnet", {1, 4, 16}, {1, 2, 4, 8, 16}, 3}};
}

Result<std::vector<Subject>> subjects(const Options& options) {
  const std::vector<Subject> all = all_subjects(options.quick);
  if (options.models.empty()) return all;
  std::vector<Subject> wanted;
  for (const std::string& model : options.models) {
    const auto found = std::find_if(all.begin(), all.end(), [&](const Subject& subject) { return subject.model == model; });
    if (found == all.end()) {
      std::vector<std::string> names;
      for (const Subject& subject : all) names.push_back(subject.model);
      return error(ErrorKind::kBadRequest, "--models has '{}'{}; legal: {}", model, suggestion(model, names),
                   fmt::join(names, ", "));
    }
    wanted.push_back(*found);
  }
  return wanted;
}

struct Row {
  std::string model;
  std::int64_t mini_batch = 0;
  std::string convolutions;
  double predicted_s = 0, measured_s = 0, default_predicted_s = 0, default_measured_s = 0;
  double gain = 1;  // median over the passes of default / chosen, which take turns in one process
  bool interpolated = false;
  double error() const { return std::abs(predicted_s - measured_s) / measured_s; }
  double default_error() const { return std::abs(default_predicted_s - default_measured_s) / default_measured_s; }
};

// The times of one mini-batch over the passes.
struct Judged {
  std::int64_t mini_batch = 0;
  model::ConvolutionChoice choice;
  double expected_s = 0;  // before anything was judged
  std::vector<double> chosen_s, default_s;
};

class PlannerBench {
 public:
  // `finished`: what an earlier run measured and is not measured again; nothing: measure all, keep none.
  PlannerBench(const Options& options, std::vector<Subject> subjects, std::optional<bench::Ledger> finished)
      : options_(options),
        finished_(std::move(finished)),
        subjects_(std::move(subjects)),
        memory_(this_machine().available_bytes / 3) {
    std::int64_t total = 0;
    for (const Subject& subject : subjects_)
      total += options_.passes * static_cast<std::int64_t>(subject.calibrate.size() + subject.judge.size());
    bar_ = std::make_unique<ProgressBar>("bench planner", total,
                                         options.progress ? ShowProgress::kAlways : ShowProgress::kOnTerminal, clock_);
  }

  Result<std::vector<Row>> run() {
    for (const Subject& subject : subjects_) PACELINE_RETURN_IF_ERROR(measure(subject));
    bar_.reset();
    return rows_;
  }

 private:
  // In each pass calibrations and what is judged take turns, so that both see the same states of the machine. The algorithms are
  // chosen by the first pass's calibrations and one run of whole steps, before anything is judged; the prediction comes from those
  // of all passes.
  Status measure(const Subject& subject) {
    std::vector<MeasuredStep> calibrations;
    for (const std::int64_t mini_batch : subject.calibrate)
      PACELINE_RETURN_IF_ERROR(calibrate(subject, mini_batch, 0, calibrations));
    std::vector<Judged> judged;
    for (const std::int64_t mini_batch : subject.judge) {
      const MeasuredStep step = planner::predicted_step(calibrations, mini_batch);
      judged.push_back({mini_batch, planner::fastest_choice(step), step.step_s, {}, {}});
    }
    for (Judged& one : judged) PACELINE_RETURN_IF_ERROR(confirm(subject, one));
    for (int pass = 0; pass < options_.passes; ++pass) {
      for (std::size_t i = 0; i < std::max(judged.size(), subject.calibrate.size()); ++i) {
        if (pass > 0 && i < subject.calibrate.size())
          PACELINE_RETURN_IF_ERROR(calibrate(subject, subject.calibrate[i], pass, calibrations));
        if (i < judged.size()) PACELINE_RETURN_IF_ERROR(judge(subject, pass, judged[i]));
      }
    }
    for (const Judged& one : judged) rows_.push_back(row_of(subject, one, planner::predicted_step(calibrations, one.mini_batch)));
    return {};
  }

  static Row row_of(const Subject& subject, const Judged& judged, const MeasuredStep& predicted) {
    const auto& measured_too = subject.calibrate;
    std::vector<double> ratios;
    for (std::size_t pass = 0; pass < judged.chosen_s.size(); ++pass)
      ratios.push_back(judged.default_s[pass] / judged.chosen_s[pass]);
    return {.model = subject.model,
            .mini_batch = judged.mini_batch,
            .convolutions = to_text(judged.choice),
            .predicted_s = planner::predicted_seconds(predicted, judged.choice),
            .measured_s = median(judged.chosen_s),
            .default_predicted_s = planner::predicted_seconds(predicted, {}),
            .default_measured_s = median(judged.default_s),
            .gain = median(ratios),
            .interpolated = std::find(measured_too.begin(), measured_too.end(), judged.mini_batch) == measured_too.end()};
  }

  Result<Json> measured(const std::string& what, const Json& profile) {
    const std::string cell = what + (options_.quick ? ", quick" : "");
    if (finished_ && finished_->has(cell)) return finished_->cells().at(cell).value("measurement", Json::object());
    Json measurement;
    PACELINE_RETURN_IF_ERROR(run_trainer({{"label", "bench"}, {"profile", profile}}, [&](const Json& line) {
      if (line.contains("measurement")) measurement = line["measurement"];
    }));
    if (!measurement.is_object()) return error(ErrorKind::kIo, "the trainer measured nothing");
    if (finished_) PACELINE_RETURN_IF_ERROR(finished_->add({{"key", cell}, {"measurement", measurement}}));
    return measurement;
  }

  Json request(const std::string& model, std::int64_t mini_batch, std::int64_t rounds) const {
    return {{"model", model}, {"mini_batch", mini_batch}, {"rounds", rounds}, {"memory", memory_}};
  }

  Status calibrate(const Subject& subject, std::int64_t mini_batch, int pass, std::vector<MeasuredStep>& calibrations) {
    const int rounds = pass == 0 && !options_.quick ? std::max(7, subject.rounds) : subject.rounds;  // the first pass also chooses
    PACELINE_ASSIGN_OR_RETURN(const Json found, measured(fmt::format("{} {} calibration {}", subject.model, mini_batch, pass),
                                                         request(subject.model, mini_batch, rounds)));
    bar_->update(++done_);
    PACELINE_ASSIGN_OR_RETURN(MeasuredStep step, planner::read_step(found, "the trainer's measurement"));
    calibrations.push_back(std::move(step));
    return {};
  }

  // Whole steps with `choice` and with the default, in turns.
  Result<Json> compared(const Subject& subject, const Judged& judged, const std::string& what, std::int64_t rounds) {
    Json profile = request(subject.model, judged.mini_batch, rounds);
    const std::string choice = to_text(judged.choice);
    profile["convolutions"] = choice;
    return measured(fmt::format("{} {} {} with {}", subject.model, judged.mini_batch, what, choice), profile);
  }

  // As `profile --convolutions` does: a choice that whole steps do not confirm is none.
  Status confirm(const Subject& subject, Judged& judged) {
    if (to_text(judged.choice).empty()) return {};
    PACELINE_ASSIGN_OR_RETURN(
        const Json found, compared(subject, judged, "confirmed", planner::rounds_to_confirm(judged.expected_s, subject.rounds)));
    PACELINE_ASSIGN_OR_RETURN(const double gain, planner::read_gain(found, "the trainer's measurement"));
    if (!planner::worth_a_choice(gain)) judged.choice.clear();
    return {};
  }

  Status judge(const Subject& subject, int pass, Judged& judged) {
    const std::string choice = to_text(judged.choice);
    PACELINE_ASSIGN_OR_RETURN(const Json found, compared(subject, judged, fmt::format("judged {}", pass), subject.rounds));
    bar_->update(++done_);
    judged.default_s.push_back(found.value("step_s", 0.0));
    // Where the default is chosen everywhere there is nothing else to measure.
    judged.chosen_s.push_back(found.value(choice.empty() ? "step_s" : "chosen_step_s", 0.0));
    return {};
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
  std::map<std::string, std::vector<double>> of_network;
  for (const Row& row : rows) {
    errors.push_back(row.error());
    of_network[row.model].push_back(row.error());
    default_errors.push_back(row.default_error());
    gains.push_back(row.gain);
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
                            {"gain", row.gain}});
  }
  json["median_error"] = median(errors);
  for (const auto& [model, found] : of_network) json["median_error_of"][model] = median(found);
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
               to_text(from_seconds(row.default_measured_s)), row.gain, row.convolutions.empty() ? "none" : row.convolutions);
  }
  const Json summary = to_json(rows);
  fmt::print("\n");
  for (const auto& [model, value] : summary["median_error_of"].items())
    fmt::print("{:<12} median error {:.1f} %\n", model, 100 * value.get<double>());
  fmt::print(
      "all          median error {:.1f} %, of the default's prediction {:.1f} %; the choice is {:.2f} times as fast as the default "
      "in the "
      "median, {:.2f} at least\n",
      100 * summary["median_error"].get<double>(), 100 * summary["median_default_error"].get<double>(),
      summary["median_gain"].get<double>(), summary["least_gain"].get<double>());
}

int run(const Options& options) {
  if (options.passes < 1 || options.passes > 100)
    return report_error(error(ErrorKind::kBadRequest, "--passes is {}; legal: 1 to 100", options.passes));
  auto wanted = subjects(options);
  if (!wanted.ok()) return report_error(wanted.status());
  std::optional<bench::Ledger> finished;
  if (!options.cells.empty()) {
    auto opened = bench::Ledger::open(options.cells);
    if (!opened.ok()) return report_error(opened.status());
    finished = std::move(*opened);
  }
  const auto rows = PlannerBench(options, *std::move(wanted), std::move(finished)).run();
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
  command->add_option("--models", options->models, "Of lenet, resnet-20, alexnet-32, alexnet, separated by commas (default: all)")
      ->delimiter(',');
  command->add_option("--passes", options->passes, "How often everything is measured, in turns; medians count")
      ->capture_default_str();
  command
      ->add_option("--cells", options->cells,
                   "One JSON line for each finished cell to this file; those that are there are not run again")
      ->option_text("FILE");
  command->add_flag("--json", options->json, "One JSON document; times in seconds");
  command->add_flag("--progress", options->progress, "Show progress even when standard error is no terminal");
  set_examples(*command,
               "  paceline bench planner --quick\n  paceline bench planner --models lenet,resnet-20 --cells planner.jsonl --json");
  command->callback([options, &chosen] { chosen.run = [options] { return run(*options); }; });
}

}  // namespace paceline::cli

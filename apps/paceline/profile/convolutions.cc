// `paceline profile --convolutions`: one fresh trainer process for each mini-batch, whose high-water mark of memory is then that
// step's. What has been measured on this machine before is taken from the cache.
#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "base/text.h"
#include "model/description.h"
#include "paceline/machine.h"
#include "paceline/profile/cache.h"
#include "paceline/profile/profile.h"
#include "paceline/progress.h"
#include "paceline/train/trainer_program.h"
#include "planner/questions/step_time.h"

namespace paceline::cli {
namespace {

using planner::MeasuredAlgorithm;
using planner::MeasuredLayer;
using planner::MeasuredStep;
using planner::Measurements;

// What the trainer measured; `what` stands before the progress bar.
Result<Json> measure(const ProfileOptions& options, const std::string& what, const Json& profile, const Clock& clock) {
  const auto show = options.progress ? ShowProgress::kAlways : ShowProgress::kOnTerminal;
  std::unique_ptr<ProgressBar> bar;
  Json measurement;
  PACELINE_RETURN_IF_ERROR(run_trainer({{"label", "profile"}, {"profile", profile}}, [&](const Json& line) {
    if (line.contains("measurement")) measurement = line["measurement"];
    if (!line.contains("progress")) return;
    if (bar == nullptr) bar = std::make_unique<ProgressBar>(what, line["progress"][1].get<std::int64_t>(), show, clock);
    bar->update(line["progress"][0].get<std::int64_t>());
  }));
  if (!measurement.is_object()) return error(ErrorKind::kIo, "the trainer measured nothing");
  return measurement;
}

// Every algorithm of every layer, and then whole steps with the fastest: what is fast among layers of its own kind may not be in a
// step.
Result<MeasuredStep> measure(const ProfileOptions& options, std::int64_t mini_batch, const Clock& clock) {
  const std::string what = fmt::format("{}, mini-batch {}", options.model, mini_batch);
  Json profile = {{"model", options.model},
                  {"mini_batch", mini_batch},
                  {"rounds", options.rounds},
                  {"memory", this_machine().available_bytes / 3}};
  PACELINE_ASSIGN_OR_RETURN(const Json layers, measure(options, what, profile, clock));
  PACELINE_ASSIGN_OR_RETURN(MeasuredStep step, planner::read_step(layers, "the trainer's measurement"));
  const std::string choice = to_text(planner::fastest_choice(step));
  if (choice.empty()) return step;
  profile["convolutions"] = choice;
  profile["rounds"] = planner::rounds_to_confirm(step.step_s, options.rounds);
  PACELINE_ASSIGN_OR_RETURN(const Json whole, measure(options, what + ", whole steps", profile, clock));
  PACELINE_ASSIGN_OR_RETURN(step.whole_gain, planner::read_gain(whole, "the trainer's measurement"));
  return step;
}

std::string cell(const MeasuredLayer& layer, model::ConvolutionAlgorithm algorithm) {
  for (const MeasuredAlgorithm& measured : layer.algorithms) {
    if (measured.algorithm == algorithm)
      return fmt::format("{:.2f} ms {:>9}", measured.seconds() * 1e3, to_text(Bytes{measured.workspace_bytes}));
  }
  return "-";
}

void print(const MeasuredStep& step) {
  fmt::print("{}, mini-batch {}: a step {:.1f} ms, of it no convolution {:.1f} ms; peak memory {}, of tensors {}\n", step.model,
             step.mini_batch, step.step_s * 1e3, step.rest_s * 1e3, to_text(Bytes{step.process_peak_bytes}),
             to_text(Bytes{step.tensors_peak_bytes}));
  if (step.layers.empty()) return;
  if (step.whole_gain > 0)
    fmt::print("  whole steps with each layer's fastest algorithm: {:.2f} times as fast{}\n", step.whole_gain,
               planner::worth_a_choice(step.whole_gain) ? "" : ", so the default stays");
  fmt::print("  {:<24}", "forward + backward");
  for (const auto algorithm : model::convolution_algorithms()) fmt::print("{:>22}", to_string(algorithm));
  fmt::print("\n");
  for (const MeasuredLayer& layer : step.layers) {
    fmt::print("  {:<24}", layer.name);
    for (const auto algorithm : model::convolution_algorithms()) fmt::print("{:>22}", cell(layer, algorithm));
    fmt::print("\n");
  }
}

Result<Measurements> run(ProfileOptions options) {
  if (options.mini_batches.empty()) options.mini_batches = {8, 16, 32, 64};
  PACELINE_ASSIGN_OR_RETURN(const model::ModelDescription network, model::describe(options.model));
  Cache cache = load_cache();
  if (!cache.notice.empty()) fmt::print(stderr, "paceline: {}; measuring anew\n", cache.notice);
  const SystemClock clock;
  const auto known = [&](std::int64_t mini_batch) {
    return std::ranges::find_if(cache.measurements.steps, [&](const MeasuredStep& step) {
      return step.model == options.model && step.mini_batch == mini_batch;
    });
  };
  std::vector<std::int64_t> left;
  for (const std::int64_t mini_batch : options.mini_batches) {
    const bool measured = !options.again && known(mini_batch) != cache.measurements.steps.end();
    if (!measured && std::ranges::find(left, mini_batch) == left.end()) left.push_back(mini_batch);
  }
  if (const double minutes = planner::seconds_to_measure(network, left, options.rounds) / 60; minutes >= 2) {
    fmt::print(stderr, "paceline: measuring {} takes about {:.0f} min; each mini-batch is kept once it is measured\n",
               options.model, minutes);
  }
  for (const std::int64_t mini_batch : left) {
    PACELINE_ASSIGN_OR_RETURN(MeasuredStep step, measure(options, mini_batch, clock));
    cache.measurements.put(std::move(step));
    PACELINE_RETURN_IF_ERROR(store_cache(cache.measurements));  // what is measured stays, whatever happens to the rest
  }
  Measurements wanted;
  for (const std::int64_t mini_batch : options.mini_batches) wanted.put(*known(mini_batch));
  return wanted;
}

}  // namespace

int profile_convolutions(const ProfileOptions& options) {
  const auto measured = run(options);
  if (!measured.ok()) return report_error(measured.status());
  if (options.json) {
    fmt::print("{}\n", to_json(*measured, fingerprint()).dump(1));
    return kDone;
  }
  for (const MeasuredStep& step : measured->steps) print(step);
  fmt::print("kept in {}\n", cache_path());
  return kDone;
}

}  // namespace paceline::cli

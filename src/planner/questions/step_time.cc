#include "planner/questions/step_time.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "base/check.h"

namespace paceline::planner {
namespace {

using model::ConvolutionAlgorithm;

constexpr double kWorthLeavingTheDefault = 0.95;  // of a layer's time
constexpr double kWorthAChoice = 0.98;            // of a step's

// Points (mini-batch, seconds), medians of those that lie above each other.
class Line {
 public:
  void add(std::int64_t mini_batch, double value) {
    std::vector<double>& values = points_[mini_batch];
    values.insert(std::upper_bound(values.begin(), values.end(), value), value);
  }
  std::size_t measured() const { return points_.size(); }

  double at(std::int64_t mini_batch) const {
    if (points_.size() == 1) return value(*points_.begin());
    auto right = points_.lower_bound(mini_batch);
    if (right == points_.end()) --right;
    if (right == points_.begin()) ++right;
    const auto left = std::prev(right);
    const double share = static_cast<double>(mini_batch - left->first) / static_cast<double>(right->first - left->first);
    return std::max(0.0, value(*left) + share * (value(*right) - value(*left)));
  }

 private:
  using Point = std::pair<const std::int64_t, std::vector<double>>;  // ascending
  static double value(const Point& point) {
    const std::vector<double>& values = point.second;
    return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
  }
  std::map<std::int64_t, std::vector<double>> points_;
};

const MeasuredAlgorithm* default_of(const MeasuredLayer& layer) {
  const auto found = std::ranges::find(layer.algorithms, ConvolutionAlgorithm::kDefault, &MeasuredAlgorithm::algorithm);
  return found == layer.algorithms.end() ? nullptr : &*found;
}

// Requires an algorithm. The first of equals.
const MeasuredAlgorithm& fastest_of(const MeasuredLayer& layer) {
  return *std::ranges::min_element(layer.algorithms, {}, &MeasuredAlgorithm::seconds);
}

// The default, what takes at most `share` of its time, and what has a smaller workspace, no faster than the default then.
void keep_below(double share, MeasuredLayer& layer) {
  const MeasuredAlgorithm* const found = default_of(layer);
  if (found == nullptr) return;
  const MeasuredAlgorithm usual = *found;
  const auto worth = [&](const MeasuredAlgorithm& one) {
    return one.algorithm == usual.algorithm || one.seconds() <= share * usual.seconds();
  };
  std::erase_if(layer.algorithms, [&](const auto& one) { return !worth(one) && one.workspace_bytes >= usual.workspace_bytes; });
  for (MeasuredAlgorithm& one : layer.algorithms) {
    if (worth(one) || one.seconds() >= usual.seconds()) continue;
    one.forward_s = usual.forward_s;
    one.backward_s = usual.backward_s;
  }
}

}  // namespace

MeasuredStep predicted_step(const std::vector<MeasuredStep>& calibrations, std::int64_t mini_batch) {
  PACELINE_CHECK(!calibrations.empty(), "no calibration to predict mini-batch {} from", mini_batch);
  Line whole, rest;
  std::map<std::string, std::map<ConvolutionAlgorithm, std::pair<Line, Line>>> layers;  // forward, backward
  for (const MeasuredStep& step : calibrations) {
    whole.add(step.mini_batch, step.step_s);
    rest.add(step.mini_batch, step.rest_s);
    for (const MeasuredLayer& layer : step.layers) {
      for (const MeasuredAlgorithm& measured : layer.algorithms) {
        auto& [forward, backward] = layers[layer.name][measured.algorithm];
        forward.add(step.mini_batch, measured.forward_s);
        backward.add(step.mini_batch, measured.backward_s);
      }
    }
  }
  MeasuredStep predicted;
  predicted.model = calibrations.front().model;
  predicted.mini_batch = mini_batch;
  predicted.step_s = whole.at(mini_batch);
  predicted.rest_s = rest.at(mini_batch);
  for (const MeasuredLayer& layer : calibrations.front().layers) {
    MeasuredLayer& one = predicted.layers.emplace_back(MeasuredLayer{layer.name, {}});
    for (const auto& [algorithm, lines] : layers[layer.name]) {
      if (lines.first.measured() == whole.measured())
        one.algorithms.push_back({algorithm, lines.first.at(mini_batch), lines.second.at(mini_batch), 0});
    }
  }
  return predicted;
}

bool worth_a_choice(double gain) { return gain * kWorthAChoice >= 1; }

std::int64_t rounds_to_confirm(double step_s, std::int64_t least) {
  return std::max(least, static_cast<std::int64_t>(std::min(100.0, 1 / step_s)));
}

MeasuredStep worthwhile(MeasuredStep step) {
  double usual = step.rest_s, fastest = step.rest_s;
  for (MeasuredLayer& layer : step.layers) {
    keep_below(kWorthLeavingTheDefault, layer);
    if (const MeasuredAlgorithm* const by_default = default_of(layer)) {
      usual += by_default->seconds();
      fastest += fastest_of(layer).seconds();
    }
  }
  if (fastest > kWorthAChoice * usual || (step.whole_gain > 0 && !worth_a_choice(step.whole_gain)))
    for (MeasuredLayer& layer : step.layers) keep_below(0, layer);
  return step;
}

model::ConvolutionChoice fastest_choice(const MeasuredStep& step) {
  model::ConvolutionChoice choice;
  for (const MeasuredLayer& layer : worthwhile(step).layers)
    if (!layer.algorithms.empty()) choice[layer.name] = fastest_of(layer).algorithm;
  return choice;
}

double predicted_seconds(const MeasuredStep& step, const model::ConvolutionChoice& choice) {
  double sum = step.rest_s;
  for (const MeasuredLayer& layer : step.layers) {
    const auto named = choice.find(layer.name);
    const auto wanted = named == choice.end() ? ConvolutionAlgorithm::kDefault : named->second;
    for (const MeasuredAlgorithm& measured : layer.algorithms) sum += measured.algorithm == wanted ? measured.seconds() : 0;
  }
  return sum;
}

const char* to_string(StepTime::By by) {
  constexpr const char* kNames[] = {"layers", "whole-steps", "both"};
  return kNames[static_cast<int>(by)];
}

StepTime step_time(const MeasuredStep& step, const model::ConvolutionChoice& choice) {
  const double summed = predicted_seconds(step, choice);
  const bool has_defaults =
      std::ranges::all_of(step.layers, [](const MeasuredLayer& layer) { return default_of(layer) != nullptr; });
  if (step.whole_gain == 0 || !has_defaults) return {summed, StepTime::By::kLayers};
  const bool is_default = std::ranges::all_of(choice, [](const auto& one) { return one.second == ConvolutionAlgorithm::kDefault; });
  if (is_default) return {step.step_s, StepTime::By::kWholeSteps};
  const model::ConvolutionChoice fastest = fastest_choice(step);
  if (choice == fastest) return {step.step_s / step.whole_gain, StepTime::By::kWholeSteps};
  const double usual = predicted_seconds(step, {}), most = usual - predicted_seconds(step, fastest);
  const double kept = most > 0 ? (step.step_s - step.step_s / step.whole_gain) / most : 1;
  return {step.step_s - kept * (usual - summed), StepTime::By::kBoth};
}

}  // namespace paceline::planner

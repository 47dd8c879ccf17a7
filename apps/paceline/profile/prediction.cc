#include "paceline/profile/prediction.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "base/check.h"

namespace paceline::cli {
namespace {

using model::ConvolutionAlgorithm;

constexpr double kWorthLeavingTheDefault = 0.95;

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

MeasuredLayer worthwhile(const MeasuredLayer& layer) {
  const auto usual = std::find_if(layer.algorithms.begin(), layer.algorithms.end(),
                                  [](const auto& measured) { return measured.algorithm == ConvolutionAlgorithm::kDefault; });
  if (usual == layer.algorithms.end()) return layer;
  MeasuredLayer kept{layer.name, {}};
  std::copy_if(layer.algorithms.begin(), layer.algorithms.end(), std::back_inserter(kept.algorithms), [&](const auto& measured) {
    return measured.algorithm == ConvolutionAlgorithm::kDefault || measured.workspace_bytes < usual->workspace_bytes ||
           measured.seconds() <= kWorthLeavingTheDefault * usual->seconds();
  });
  return kept;
}

model::ConvolutionChoice fastest_choice(const MeasuredStep& step) {
  model::ConvolutionChoice choice;
  for (const MeasuredLayer& measured : step.layers) {
    const MeasuredLayer layer = worthwhile(measured);
    const auto fastest =
        std::min_element(layer.algorithms.begin(), layer.algorithms.end(),
                         [](const MeasuredAlgorithm& a, const MeasuredAlgorithm& b) { return a.seconds() < b.seconds(); });
    if (fastest != layer.algorithms.end()) choice[layer.name] = fastest->algorithm;
  }
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

}  // namespace paceline::cli

#include "scheduling/live_profile.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace paceline::scheduling {
namespace {

// So many sizes are enough for a straight line.
constexpr std::size_t kMostSizes = 64;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void keep_last(std::vector<double>& history, double value) {
  if (history.size() == LiveProfile::kHistory) history.erase(history.begin());
  history.push_back(value);
}

void keep_last(std::vector<std::vector<double>>& history, const std::vector<double>& values) {
  for (std::size_t layer = 0; layer < values.size(); ++layer) keep_last(history[layer], values[layer]);
}

std::vector<double> medians(const std::vector<std::vector<double>>& history) {
  std::vector<double> of_layers;
  for (const auto& of_layer : history) of_layers.push_back(median(of_layer));
  return of_layers;
}

bool far(const std::vector<double>& now, const std::vector<double>& before) {
  double moved = 0, total = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    moved += std::abs(now[i] - before[i]);
    total += before[i];
  }
  return moved > LiveProfile::kWorthAPlan * total;
}

bool far_off(const BatchingProblem& now, const BatchingProblem& before) {
  return far({now.start_up}, {before.start_up}) || far(now.transfer, before.transfer) || far(now.compute, before.compute);
}

}  // namespace

Bounds batches_of(const BatchingProblem& problem, BatchingAlgorithm algorithm) {
  switch (algorithm) {
    case BatchingAlgorithm::kExact:
      break;
    case BatchingAlgorithm::kForwardGreedy:
      return forward_greedy(problem);
    case BatchingAlgorithm::kBackwardGreedy:
      return backward_greedy(problem).value_or(default_batching(problem));
    case BatchingAlgorithm::kIbatch:
      return ibatch(problem).bounds;
  }
  return exact_batching(problem);
}

LiveProfile::LiveProfile(std::vector<Bytes> bytes, BatchingAlgorithm algorithm, Sides sides)
    : bytes_(std::move(bytes)),
      algorithm_(algorithm),
      sides_(sides),
      times_(bytes_.size()),
      forward_(bytes_.size()),
      backward_(bytes_.size()) {}

void LiveProfile::on_gate(Layer layer, TimePoint entered, TimePoint opened) { times_.on_gate(layer, entered, opened); }

void LiveProfile::on_forward_done(TimePoint now) {
  if (!times_.on_forward_done(now)) return;
  keep_last(forward_, times_.forward());
  times_.clear_forward();
  ++passes_;
}

void LiveProfile::on_backward_begun(TimePoint now) { times_.on_backward_begun(now); }

void LiveProfile::on_gradient(Layer layer, TimePoint now) {
  on_forward_done(now);
  times_.on_gradient(layer, now);
}

void LiveProfile::on_backward_done(TimePoint now) {
  if (!times_.on_backward_done(now)) return;
  keep_last(backward_, times_.backward());
  times_.clear_backward();
}

void LiveProfile::on_asked() {
  asked_.clear();
  asked_with_.clear();
  for (std::size_t layer = 0; layer < bytes_.size(); ++layer) {
    const bool begins = !current_ || asked_.empty() || static_cast<int>(layer) == current_->bounds[asked_.size() - 1];
    if (begins) asked_.emplace_back();
    asked_.back().bytes += bytes_[layer].count;
    asked_.back().missing += bytes_[layer].count;
    asked_with_.push_back(asked_.size() - 1);
  }
  came_ = 0;
  last_pulled_.reset();
}

void LiveProfile::on_pulled(Layer layer, Bytes size, TimePoint now) {
  if (static_cast<std::size_t>(layer.index) >= asked_with_.size()) return;
  const std::size_t batch = asked_with_[static_cast<std::size_t>(layer.index)];
  asked_[batch].missing -= size.count;
  if (asked_[batch].missing > 0) return;
  // One that overtook another says nothing of either, nor does the one after them.
  const bool in_order = batch == came_;
  const auto before = std::exchange(last_pulled_, in_order ? std::optional(now) : std::nullopt);
  if (in_order) ++came_;
  if (!in_order || !before || now <= *before) return;
  const auto known = pulls_.find(asked_[batch].bytes);
  if (known == pulls_.end() && pulls_.size() == kMostSizes) return;
  keep_last(pulls_[asked_[batch].bytes], seconds(now - *before));
}

// Nothing as long as the pulls do not say what the link is like.
std::optional<BatchingProblem> LiveProfile::problem(cost::LinkFit& link) const {
  std::vector<cost::LinkSample> samples;
  for (const auto& [size, times] : pulls_) {
    for (const double time : times) samples.push_back({Bytes{size}, from_seconds(time)});
  }
  const auto fit = cost::fit_link(samples);
  if (!fit.ok()) return std::nullopt;
  link = *fit;
  BatchingProblem made;
  made.start_up = link.start_up;
  for (std::size_t layer = 0; layer < bytes_.size(); ++layer) {
    made.transfer.push_back(static_cast<double>(bytes_[layer].count) / link.bandwidth.value);
  }
  made.compute = medians(forward_);
  if (!validate(made).ok()) return std::nullopt;
  return made;
}

// A link costs the same in both directions. Nothing as long as no backward pass has been seen.
std::optional<BatchingProblem> LiveProfile::push_problem(const BatchingProblem& pulls) const {
  if (sides_ == Sides::kPulls || backward_.front().empty()) return std::nullopt;
  BatchingProblem made = pulls;
  made.compute = medians(backward_);
  if (!validate(made).ok()) return std::nullopt;
  return made;
}

bool LiveProfile::moved(const BatchingProblem& pulls, const std::optional<BatchingProblem>& pushes) const {
  if (pushes && (!current_->push || far_off(*pushes, current_->push->problem))) return true;
  return far_off(pulls, current_->problem);
}

std::optional<LiveProfile::Plan> LiveProfile::plan() {
  if (passes_ < kFirstPlanAfter || bytes_.empty()) return std::nullopt;
  cost::LinkFit link;
  auto pulls = problem(link);
  if (!pulls) return std::nullopt;
  auto pushes = push_problem(*pulls);
  if (current_ && !moved(*pulls, pushes)) return std::nullopt;
  Plan made{.bounds = batches_of(*pulls, algorithm_), .problem = *std::move(pulls), .link = link};
  made.makespan = makespan(made.problem, made.bounds);
  made.number = current_ ? current_->number + 1 : 1;
  if (pushes) {
    Bounds bounds = batches_of(*pushes, algorithm_);
    const double time = makespan(*pushes, bounds);
    made.push = Plan::Pushes{std::move(bounds), *std::move(pushes), time};
  }
  current_ = made;
  return made;
}

}  // namespace paceline::scheduling

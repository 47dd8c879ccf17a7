#include "scheduling/live_profile.h"

#include <algorithm>
#include <cmath>
#include <numeric>
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

double sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

bool far(double now, double before) { return std::abs(now - before) > LiveProfile::kWorthAPlan * before; }

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

LiveProfile::LiveProfile(std::vector<Bytes> bytes, std::int32_t requests, BatchingAlgorithm algorithm)
    : bytes_(std::move(bytes)), requests_(requests), algorithm_(algorithm), running_(bytes_.size()), seconds_(bytes_.size()) {}

void LiveProfile::compute(Duration spent) {
  if (computing_) running_[*computing_] += seconds(spent);
}

void LiveProfile::on_gate(Layer layer, TimePoint entered, TimePoint opened) {
  compute(entered - since_);
  computing_ = static_cast<std::size_t>(layer.index);
  since_ = opened;
}

void LiveProfile::on_forward_done(TimePoint now) {
  if (!computing_) return;
  compute(now - since_);
  computing_.reset();
  for (std::size_t layer = 0; layer < bytes_.size(); ++layer) keep_last(seconds_[layer], std::exchange(running_[layer], 0.0));
  ++passes_;
}

void LiveProfile::on_asked() { last_pulled_.reset(); }

void LiveProfile::on_pulled(Bytes size, TimePoint now) {
  const auto before = std::exchange(last_pulled_, now);
  if (!before || now <= *before) return;
  const auto known = pulls_.find(size.count);
  if (known == pulls_.end() && pulls_.size() == kMostSizes) return;
  keep_last(pulls_[size.count], seconds(now - *before));
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
  made.start_up = link.start_up * requests_;
  for (std::size_t layer = 0; layer < bytes_.size(); ++layer) {
    made.transfer.push_back(static_cast<double>(bytes_[layer].count) / link.bandwidth.value);
    made.compute.push_back(median(seconds_[layer]));
  }
  if (!validate(made).ok()) return std::nullopt;
  return made;
}

bool LiveProfile::moved(const BatchingProblem& now) const {
  const BatchingProblem& before = current_->problem;
  return far(now.start_up, before.start_up) || far(sum(now.transfer), sum(before.transfer)) ||
         far(sum(now.compute), sum(before.compute));
}

std::optional<LiveProfile::Plan> LiveProfile::plan() {
  if (passes_ < kFirstPlanAfter || bytes_.empty()) return std::nullopt;
  cost::LinkFit link;
  auto now = problem(link);
  if (!now || (current_ && !moved(*now))) return std::nullopt;
  Plan made{.bounds = batches_of(*now, algorithm_), .problem = std::move(*now), .link = link};
  made.makespan = makespan(made.problem, made.bounds);
  made.number = current_ ? current_->number + 1 : 1;
  current_ = made;
  return made;
}

}  // namespace paceline::scheduling

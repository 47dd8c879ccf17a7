#include "scheduling/live_profile.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/median.h"

namespace paceline::scheduling {
namespace {

// So many are enough for a straight line.
constexpr std::size_t kMostArrivals = 64;
// Of an iteration's bytes. Of the first ones a socket may have held much when they were seen, as if they had come in no time.
constexpr double kLeastArrived = 0.25;

void keep_last(std::vector<double>& history, double value) {
  if (history.size() == LiveProfile::kHistory) history.erase(history.begin());
  history.push_back(value);
}

void keep_last(std::vector<std::vector<double>>& history, const std::vector<double>& values) {
  for (std::size_t layer = 0; layer < values.size(); ++layer) keep_last(history[layer], values[layer]);
}

std::vector<double> medians(const std::vector<std::vector<double>>& history) {
  std::vector<double> of_layers;
  for (const auto& of_layer : history) of_layers.push_back(lower_median(of_layer));
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

LiveProfile::LiveProfile(std::vector<Bytes> bytes, BatchingAlgorithm algorithm, Sides sides, Duration message_start_up,
                         std::optional<Rank> own_server)
    : bytes_(std::move(bytes)),
      algorithm_(algorithm),
      sides_(sides),
      message_start_up_(message_start_up),
      own_server_(own_server),
      times_(bytes_.size()),
      forward_(bytes_.size()),
      backward_(bytes_.size()) {}

void LiveProfile::on_event(const wire::Event& event) {
  using wire::Happening;
  const Layer layer{static_cast<std::int32_t>(event.unit)};
  const TimePoint now = event.ended();
  switch (event.what) {
    case Happening::kGate:
      return times_.on_gate(layer, event.began(), now);
    case Happening::kForwardDone:
      return on_forward_done(now);
    case Happening::kBackwardBegun:
      return times_.on_backward_begun(now);
    case Happening::kGradient:
      on_forward_done(now);
      return times_.on_gradient(layer, now);
    case Happening::kBackwardDone:
      return on_backward_done(now);
    case Happening::kIterationDone:
      plan();
      return on_all_asked();
    case Happening::kReturning:
      if (Rank{event.peer} != own_server_) on_pull_begun(event.unit, now);
      return;
    case Happening::kPulled:
      if (Rank{event.peer} != own_server_) on_pulled(event.unit, Bytes{event.bytes}, now);
      return;
    default:
      return;
  }
}

void LiveProfile::on_forward_done(TimePoint now) {
  all_asked_ = false;
  if (!times_.on_forward_done(now)) return;
  keep_last(forward_, times_.forward());
  times_.clear_forward();
  ++passes_;
}

void LiveProfile::on_backward_done(TimePoint now) {
  if (!times_.on_backward_done(now)) return;
  keep_last(backward_, times_.backward());
  times_.clear_backward();
}

void LiveProfile::on_all_asked() {
  for (const cost::LinkSample& sample : arriving_by_) {
    if (static_cast<double>(sample.bytes.count) < kLeastArrived * static_cast<double>(arrived_)) continue;
    if (arrivals_.size() == kMostArrivals) arrivals_.erase(arrivals_.begin());
    arrivals_.push_back(sample);
  }
  arriving_by_.clear();
  all_asked_ = true;
  first_byte_.reset();
  arriving_.clear();
  arrived_ = 0;
}

void LiveProfile::on_pull_begun(std::uint32_t unit, TimePoint now) {
  if (!all_asked_) return;
  if (!first_byte_)
    first_byte_ = now;
  else if (arriving_.empty())
    *first_byte_ += std::min(now - last_byte_, message_start_up_);
  arriving_.push_back(unit);
}

void LiveProfile::on_pulled(std::uint32_t unit, Bytes size, TimePoint now) {
  if (std::erase(arriving_, unit) == 0) return;
  arrived_ += size.count;
  last_byte_ = now;
  if (arriving_.empty()) arriving_by_.push_back({Bytes{arrived_}, now - *first_byte_});
}

// Nothing as long as the pulls do not say what the link is like.
std::optional<BatchingProblem> LiveProfile::problem(cost::LinkFit& link) const {
  if (!round_trip_ || arrivals_.empty()) return std::nullopt;
  std::vector<cost::LinkSample> samples = arrivals_;
  for (cost::LinkSample& sample : samples) sample.time += *round_trip_;
  samples.push_back({Bytes{}, *round_trip_});
  const auto fit = cost::fit_link(samples);
  if (!fit.ok()) return std::nullopt;
  link = *fit;
  BatchingProblem made = problem_of(bytes_, link, medians(forward_));
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

void LiveProfile::plan() {
  if (passes_ < kFirstPlanAfter || bytes_.empty()) return;
  cost::LinkFit link;
  auto pulls = problem(link);
  if (!pulls) return;
  auto pushes = push_problem(*pulls);
  if (current_ && !moved(*pulls, pushes)) return;
  Plan made{.bounds = batches_of(*pulls, algorithm_), .problem = *std::move(pulls), .link = link};
  made.makespan = makespan(made.problem, made.bounds);
  made.number = current_ ? current_->number + 1 : 1;
  if (pushes) {
    Bounds bounds = batches_of(*pushes, algorithm_);
    const double time = makespan(*pushes, bounds);
    made.push = Plan::Pushes{std::move(bounds), *std::move(pushes), time};
  }
  current_ = std::move(made);
}

}  // namespace paceline::scheduling

#include "report/pace_record.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace paceline::report {
namespace {

// What the workers of a barrier wait together, and the time that they have together.
struct Waiting {
  double waited = 0, room = 0;
};

Waiting waiting_of(const std::vector<double>& arrivals) {
  const double last = *std::ranges::max_element(arrivals);
  Waiting waiting;
  for (const double arrival : arrivals) waiting.waited += last - arrival;
  waiting.room = last * static_cast<double>(arrivals.size());
  return waiting;
}

double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

}  // namespace

void PaceRecord::on_event(const wire::Event& event) {
  if (event.what == wire::Happening::kStarted) on_started(Rank{event.peer}, event.detail, event.ended());
  if (event.what == wire::Happening::kEnded) on_ended(Rank{event.peer}, event.iteration, event.ended());
}

void PaceRecord::on_started(Rank worker, std::int64_t staleness, TimePoint now) {
  if (!origin_) origin_ = now;
  const auto index = static_cast<std::size_t>(worker.value);
  if (running_.size() <= index) running_.resize(index + 1);
  running_[index] = {now, staleness};
  const auto place = std::min(static_cast<std::size_t>(staleness), kStalenessValues - 1);
  if (staleness_.size() <= place) staleness_.resize(place + 1);
  ++staleness_[place];
  largest_staleness_ = std::max(largest_staleness_, staleness);
}

void PaceRecord::on_ended(Rank worker, Iteration iteration, TimePoint now) {
  const auto index = static_cast<std::size_t>(worker.value);
  if (!tell_ || index >= running_.size()) return;
  tell_({{"rank", worker.value},
         {"iteration", iteration},
         {"began", seconds_at(running_[index].began)},
         {"ended", seconds_at(now)},
         {"staleness", running_[index].staleness}});
}

void PaceRecord::on_superstep(const sync::Superstep& superstep) {
  ++supersteps_;
  const auto [fewest, most] = std::ranges::minmax_element(superstep.iterations);
  if (*fewest != *most) ++uneven_supersteps_;
  for (std::size_t i = 0; i < superstep.workers.size(); ++i) {
    const auto index = static_cast<std::size_t>(superstep.workers[i].value);
    if (in_supersteps_.size() <= index) in_supersteps_.resize(index + 1);
    in_supersteps_[index] += superstep.iterations[i];
  }
  if (!superstep.predicted.empty()) {
    ++predictions_.supersteps;
    for (std::size_t i = 0; i < superstep.workers.size(); ++i) {
      const double error = superstep.arrived[i] - superstep.predicted[i];
      ++predictions_.arrivals;
      predictions_.error += error;
      predictions_.absolute_error += std::abs(error);
    }
    const Waiting expected = waiting_of(superstep.predicted), real = waiting_of(superstep.arrived);
    predictions_.length += *std::ranges::max_element(superstep.arrived);
    predictions_.waiting_predicted += expected.waited;
    predictions_.room_predicted += expected.room;
    predictions_.waiting_real += real.waited;
    predictions_.room_real += real.room;
  }
  if (!tell_) return;
  Json workers = Json::array();
  for (const Rank worker : superstep.workers) workers.push_back(worker.value);
  tell_({{"superstep", superstep.number},
         {"began", seconds_at(superstep.began)},
         {"ranks", std::move(workers)},
         {"iterations", superstep.iterations},
         {"predicted", superstep.predicted},
         {"arrived", superstep.arrived}});
}

Json PaceRecord::detail() const {
  const std::int64_t starts = std::accumulate(staleness_.begin(), staleness_.end(), std::int64_t{0});
  double sum = 0;
  for (std::size_t value = 0; value < staleness_.size(); ++value)
    sum += static_cast<double>(value) * static_cast<double>(staleness_[value]);
  Json detail{{"staleness",
               {{"histogram", staleness_}, {"mean", share(sum, static_cast<double>(starts))}, {"largest", largest_staleness_}}},
              {"supersteps", nullptr},
              {"prediction", nullptr}};
  if (supersteps_ > 0) {
    Json mean = Json::array();
    for (const std::int64_t iterations : in_supersteps_)
      mean.push_back(static_cast<double>(iterations) / static_cast<double>(supersteps_));
    detail["supersteps"] = {{"count", supersteps_}, {"uneven", uneven_supersteps_}, {"mean_iterations", std::move(mean)}};
  }
  if (predictions_.supersteps > 0) {
    const auto arrivals = static_cast<double>(predictions_.arrivals);
    detail["prediction"] = {{"supersteps", predictions_.supersteps},
                            {"mean_length", predictions_.length / static_cast<double>(predictions_.supersteps)},
                            {"mean_error", predictions_.error / arrivals},
                            {"mean_absolute_error", predictions_.absolute_error / arrivals},
                            {"waiting_share_predicted", share(predictions_.waiting_predicted, predictions_.room_predicted)},
                            {"waiting_share_real", share(predictions_.waiting_real, predictions_.room_real)},
                            {"longest_computation", seconds(longest_prediction_)}};
  }
  return detail;
}

}  // namespace paceline::report

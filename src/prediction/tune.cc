#include "prediction/tune.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/text.h"

namespace paceline::prediction {
namespace {

using scheduling::Cut;
using scheduling::Return;
using scheduling::ScheduleOptions;
using scheduling::WindowRule;

constexpr std::int64_t kEach = sizeof(float);

Bytes bytes_of(const wire::TensorTable& table) {
  Bytes sum;
  for (const wire::TensorInfo& tensor : table.tensors) sum += Bytes{tensor.elements() * kEach};
  return sum;
}

template <typename Value>
void add(std::vector<Value>& values, const Value& value) {
  if (std::ranges::find(values, value) == values.end()) values.push_back(value);
}

class Search {
 public:
  Search(const Job& job, const Cluster& cluster) : job_(job), cluster_(cluster) {}

  // Takes the schedule if it has not been tried and is worth it.
  Status attempt(const ScheduleOptions& schedule) {
    auto& candidates = choice_.candidates;
    if (std::ranges::any_of(candidates, [&](const Candidate& other) { return other.schedule == schedule; })) return {};
    PACELINE_ASSIGN_OR_RETURN(const Prediction predicted, predict(job_, schedule, cluster_));
    candidates.push_back({schedule, predicted});
    if (candidates.size() > 1 && predicted.iteration >= choice_.predicted.iteration * (1 - kWorthAnother)) return {};
    choice_.schedule = schedule;
    choice_.predicted = predicted;
    return {};
  }

  // Tries what becomes of the best one so far when `change` puts each of `values` into it.
  template <typename Value, typename Change>
  Status along(const std::vector<Value>& values, Change change) {
    const ScheduleOptions from = choice_.schedule;
    for (const Value& value : values) {
      ScheduleOptions candidate = from;
      change(candidate, value);
      PACELINE_RETURN_IF_ERROR(attempt(candidate));
    }
    return {};
  }

  const ScheduleOptions& best() const { return choice_.schedule; }
  Choice take() { return std::move(choice_); }

 private:
  const Job& job_;
  const Cluster& cluster_;
  Choice choice_;
};

std::string reason(const Choice& choice) {
  std::string text = fmt::format("predicted {}", to_text(from_seconds(choice.predicted.iteration)));
  if (choice.predicted.lower_bound > 0)
    text += fmt::format(", {:.3f} of the lower bound", choice.predicted.iteration / choice.predicted.lower_bound);
  const Candidate& first = choice.candidates.front();
  if (choice.schedule == first.schedule)
    return text + fmt::format("; none of {} other combinations is worth it", choice.candidates.size() - 1);
  return text + fmt::format("; of {} combinations; what the formulas alone say would take {}", choice.candidates.size(),
                            to_text(from_seconds(first.predicted.iteration)));
}

}  // namespace

ScheduleOptions by_formula(Bytes model, const Cluster& cluster, const scheduling::SliceLimits& limits, const Given& given) {
  // A node is a worker and a server; separate ones move as much as that many shared ones.
  const Bytes slice = scheduling::best_slice(
      {.nodes = cluster.workers, .model = model, .start_up = cluster.start_up, .link = cluster.link}, limits);
  const auto merge = static_cast<std::int64_t>(2 * (cluster.start_up + cluster.processing) * cluster.link.value) / kEach;
  ScheduleOptions options = scheduling::tuned();
  options.cut = {Cut::Kind::kSlices, given.slice.value_or(slice.count / kEach),
                 given.merge.value_or(std::min(merge, limits.largest.count / kEach))};
  options.window = given.window.value_or(WindowRule{});
  options.back = given.back.value_or(Return::kBroadcast);
  options.places = given.places.value_or(scheduling::OrderedPlaces{});
  return options;
}

// No whole tensors: predicted within a percent of the bound for VGG-19 on a slow link, they took a third longer, because nodes that
// are not exactly in step wait for each other's large tensors.
Grid candidates_of(const Job& job, const Cluster& cluster, const scheduling::SliceLimits& limits, const Given& given) {
  const ScheduleOptions first = by_formula(bytes_of(job.table), cluster, limits, given);
  Grid grid{{first.cut.elements}, {first.cut.merge}, {first.window}, {first.back}, {first.places}};
  if (!given.slice) {
    const std::int64_t slice = first.cut.elements, least = std::max<std::int64_t>(1, limits.smallest.count / kEach),
                       most = std::max<std::int64_t>(1, limits.largest.count / kEach);
    for (const std::int64_t size : {slice / 2, slice * 2, slice / 4, slice * 4}) add(grid.slices, std::clamp(size, least, most));
  }
  if (!given.merge) {
    add(grid.merges, std::int64_t{0});
    add(grid.merges, 4 * first.cut.merge);
  }
  if (!given.window) {
    for (const int milliseconds : {1, 4, 8}) add(grid.windows, WindowRule{.link_time = std::chrono::milliseconds(milliseconds)});
  }
  if (!given.back) {
    add(grid.backs, Return::kPullByLayer);
    add(grid.backs, Return::kPullInBatches);
  }
  if (!given.places) add(grid.places, {.worker_egress = false, .server_ingress = false, .server_egress = false});
  return grid;
}

Result<Choice> tune(const Job& job, const Cluster& cluster, const scheduling::SliceLimits& limits, const Given& given) {
  const Grid grid = candidates_of(job, cluster, limits, given);
  Search search(job, cluster);
  PACELINE_RETURN_IF_ERROR(search.attempt(by_formula(bytes_of(job.table), cluster, limits, given)));
  for (std::optional<ScheduleOptions> before; before != search.best();) {
    before = search.best();
    PACELINE_RETURN_IF_ERROR(search.along(grid.slices, [](ScheduleOptions& to, std::int64_t slice) { to.cut.elements = slice; }));
    PACELINE_RETURN_IF_ERROR(search.along(grid.merges, [](ScheduleOptions& to, std::int64_t merge) { to.cut.merge = merge; }));
    PACELINE_RETURN_IF_ERROR(search.along(grid.windows, [](ScheduleOptions& to, const WindowRule& window) { to.window = window; }));
    PACELINE_RETURN_IF_ERROR(search.along(grid.backs, [](ScheduleOptions& to, Return back) { to.back = back; }));
    PACELINE_RETURN_IF_ERROR(
        search.along(grid.places, [](ScheduleOptions& to, const scheduling::OrderedPlaces& places) { to.places = places; }));
  }
  Choice choice = search.take();
  choice.why = reason(choice);
  return choice;
}

}  // namespace paceline::prediction

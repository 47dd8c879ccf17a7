#include "planner/tuning/tune.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/text.h"

namespace paceline::tuning {
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

// Of the model, each way, over a node's link.
double moving(const simulation::Job& job, const simulation::Cluster& cluster) {
  const double nodes = cluster.workers;
  return 2 * (nodes - 1) / nodes * static_cast<double>(bytes_of(job.table).count) / cluster.link.value;
}

// On the slowest worker.
double computing(const simulation::Job& job) {
  return job::slowest(job.speed) * (std::accumulate(job.forward.begin(), job.forward.end(), 0.0) +
                                    std::accumulate(job.backward.begin(), job.backward.end(), 0.0));
}

template <typename Value>
void add(std::vector<Value>& values, const Value& value) {
  if (std::ranges::find(values, value) == values.end()) values.push_back(value);
}

class Search {
 public:
  Search(const simulation::Job& job, const simulation::Cluster& cluster, const Grid& grid)
      : job_(job), cluster_(cluster), grid_(grid) {}

  // From `first` on, one setting after the other, until none of them is worth changing. The best of all descents is chosen.
  Status descend(const ScheduleOptions& first) {
    PACELINE_ASSIGN_OR_RETURN(here_, predicted(first));
    for (std::optional<ScheduleOptions> before; before != here_.schedule;) {
      before = here_.schedule;
      PACELINE_RETURN_IF_ERROR(along(grid_.slices, [](ScheduleOptions& to, std::int64_t slice) { to.cut.elements = slice; }));
      PACELINE_RETURN_IF_ERROR(along(grid_.merges, [](ScheduleOptions& to, std::int64_t merge) { to.cut.merge = merge; }));
      PACELINE_RETURN_IF_ERROR(along(grid_.windows, [](ScheduleOptions& to, const WindowRule& window) { to.window = window; }));
      PACELINE_RETURN_IF_ERROR(along(grid_.backs, [](ScheduleOptions& to, Return back) { to.back = back; }));
      PACELINE_RETURN_IF_ERROR(
          along(grid_.places, [](ScheduleOptions& to, const scheduling::OrderedPlaces& places) { to.places = places; }));
    }
    if (!best_ || worth_it(here_, *best_)) best_ = here_;
    return {};
  }

  // Where slices, merging and window are all others, since one of them alone may help only together with the others: the
  // second-best size of slices, the least merging, the last window. Requires: descend() before.
  ScheduleOptions far_away() const {
    ScheduleOptions place = best_->schedule;
    double second = std::numeric_limits<double>::infinity();
    for (const Candidate& candidate : candidates_) {
      if (candidate.schedule.cut.elements == best_->schedule.cut.elements || candidate.predicted.iteration >= second) continue;
      second = candidate.predicted.iteration;
      place.cut.elements = candidate.schedule.cut.elements;
    }
    place.cut.merge = std::ranges::min(grid_.merges);
    place.window = grid_.windows.back();
    return place;
  }

  // The fastest of all combinations seen, where it is worth another than the best descent: steps each too small to be worth it add
  // up. Requires: descend() before.
  std::optional<ScheduleOptions> overlooked() const {
    const Candidate& seen = fastest();
    if (!worth_it(seen, *best_)) return std::nullopt;
    return seen.schedule;
  }

  // As fast with larger slices, so with fewer messages. Requires: descend() before.
  Status spare_messages() {
    const ScheduleOptions from = best_->schedule;
    const double least = fastest().predicted.iteration;
    const bool is_idle = moving(job_, cluster_) < kIdleLink * computing(job_);
    for (const std::int64_t slice : grid_.slices) {
      if (slice <= best_->schedule.cut.elements) continue;
      ScheduleOptions schedule = from;
      schedule.cut.elements = slice;
      PACELINE_ASSIGN_OR_RETURN(const Candidate candidate, predicted(schedule));
      const double fine = std::min(1.0, static_cast<double>(job_.table.elements()) / static_cast<double>(slice) / kFineSlices);
      const double allowed = least * (1 + kAsGood * (is_idle ? 1 : fine * fine));
      if (candidate.predicted.iteration <= allowed && candidate.predicted.messages < best_->predicted.messages) best_ = candidate;
    }
    return {};
  }

  // Requires: descend() before.
  Choice take() { return {best_->schedule, best_->predicted, std::move(candidates_), {}}; }

 private:
  const Candidate& fastest() const {
    return *std::ranges::min_element(candidates_, {}, [](const Candidate& seen) { return seen.predicted.iteration; });
  }

  static bool worth_it(const Candidate& candidate, const Candidate& than) {
    return candidate.predicted.iteration < than.predicted.iteration * (1 - kWorthAnother);
  }

  Result<Candidate> predicted(const ScheduleOptions& schedule) {
    const auto known = std::ranges::find(candidates_, schedule, &Candidate::schedule);
    if (known != candidates_.end()) return *known;
    PACELINE_ASSIGN_OR_RETURN(const simulation::Prediction prediction, predict(job_, schedule, cluster_));
    candidates_.push_back({schedule, prediction});
    return candidates_.back();
  }

  // Tries what becomes of the place reached so far when `change` puts each of `values` into it.
  template <typename Value, typename Change>
  Status along(const std::vector<Value>& values, Change change) {
    const ScheduleOptions from = here_.schedule;
    for (const Value& value : values) {
      ScheduleOptions schedule = from;
      change(schedule, value);
      PACELINE_ASSIGN_OR_RETURN(const Candidate candidate, predicted(schedule));
      if (worth_it(candidate, here_)) here_ = candidate;
    }
    return {};
  }

  const simulation::Job& job_;
  const simulation::Cluster& cluster_;
  const Grid& grid_;
  Candidate here_;
  std::optional<Candidate> best_;
  std::vector<Candidate> candidates_;
};

std::string reason(const Choice& choice) {
  std::string text = fmt::format("predicted {}", to_text(from_seconds(choice.predicted.iteration)));
  if (choice.predicted.lower_bound > 0)
    text += fmt::format(", {:.3f} of the lower bound", choice.predicted.iteration / choice.predicted.lower_bound);
  const Candidate& first = choice.candidates.front();
  if (choice.schedule == first.schedule)
    return text + fmt::format("; none of {} other combinations is worth it", choice.candidates.size() - 1);
  text += fmt::format("; of {} combinations; what the formulas alone say would take {}", choice.candidates.size(),
                      to_text(from_seconds(first.predicted.iteration)));
  if (choice.predicted.messages < first.predicted.messages)
    text += fmt::format(", with {:.3g} times as many messages", first.predicted.messages / choice.predicted.messages);
  return text;
}

}  // namespace

double messages_of(const wire::TensorTable& table, const ScheduleOptions& schedule, std::int32_t workers) {
  const std::int64_t largest = schedule.cut.elements;  // 0: tensors stay whole, but for a few
  const double pieces = largest > 0 ? static_cast<double>(bytes_of(table).count) / static_cast<double>(largest * kEach) : 0;
  return 2.0 * workers * (pieces + static_cast<double>(table.tensors.size()));
}

ScheduleOptions by_formula(Bytes model, const simulation::Cluster& cluster, const scheduling::SliceLimits& limits,
                           const Given& given) {
  // A node is a worker and a server; separate ones move as much as that many shared ones.
  const Bytes slice = scheduling::best_slice(
      {.nodes = cluster.workers, .model = model, .start_up = cluster.start_up, .link = cluster.link}, limits);
  const double passed = 2 * (cluster.start_up + cluster.processing) * cluster.link.value;  // while two messages start
  const auto merge = static_cast<std::int64_t>(std::min(passed, static_cast<double>(limits.largest.count))) / kEach;
  ScheduleOptions options = scheduling::tuned();
  options.cut = {Cut::Kind::kSlices, given.slice.value_or(slice.count / kEach), given.merge.value_or(merge)};
  options.window = given.window.value_or(WindowRule{});
  options.back = given.back.value_or(Return::kBroadcast);
  options.batching = given.batching.value_or(options.batching);
  options.push = given.push.value_or(options.push);
  options.places = given.places.value_or(scheduling::OrderedPlaces{});
  return options;
}

// No whole tensors: predicted within a percent of the bound for VGG-19 on a slow link, they took a third longer, because nodes that
// are not exactly in step wait for each other's large tensors.
Grid candidates_of(const simulation::Job& job, const simulation::Cluster& cluster, const scheduling::SliceLimits& limits,
                   const Given& given) {
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

Result<Choice> tune(const simulation::Job& job, const simulation::Cluster& cluster, const scheduling::SliceLimits& limits,
                    const Given& given) {
  const Grid grid = candidates_of(job, cluster, limits, given);
  Search search(job, cluster, grid);
  PACELINE_RETURN_IF_ERROR(search.descend(by_formula(bytes_of(job.table), cluster, limits, given)));
  PACELINE_RETURN_IF_ERROR(search.descend(search.far_away()));
  while (const auto place = search.overlooked()) PACELINE_RETURN_IF_ERROR(search.descend(*place));
  PACELINE_RETURN_IF_ERROR(search.spare_messages());
  Choice choice = search.take();
  choice.why = reason(choice);
  return choice;
}

}  // namespace paceline::tuning

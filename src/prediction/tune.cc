#include "prediction/tune.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace paceline::prediction {
namespace {

using scheduling::Cut;
using scheduling::Return;
using scheduling::ScheduleOptions;

constexpr std::int64_t kEach = sizeof(float);

ScheduleOptions schedule_of(std::int64_t slice, std::int64_t merge, Return back) {
  ScheduleOptions options = scheduling::tuned();
  options.cut = {Cut::Kind::kSlices, slice, merge};
  options.back = back;
  return options;
}

Bytes bytes_of(const wire::TensorTable& table) {
  Bytes sum;
  for (const wire::TensorInfo& tensor : table.tensors) sum += Bytes{tensor.elements() * kEach};
  return sum;
}

const char* text_of(Return back) { return back == Return::kBroadcast ? "broadcast" : "pulled layer by layer"; }

std::string reason(const Choice& choice) {
  const Candidate& first = choice.candidates.front();
  std::string text =
      fmt::format("slices of {}, {} merged, {}: predicted {}", to_text(Bytes{choice.schedule.cut.elements * kEach}),
                  choice.schedule.cut.merge == 0 ? "nothing" : "up to " + to_text(Bytes{choice.schedule.cut.merge * kEach}),
                  text_of(choice.schedule.back), to_text(from_seconds(choice.predicted.iteration)));
  if (choice.predicted.lower_bound > 0)
    text += fmt::format(", {:.3f} of the lower bound", choice.predicted.iteration / choice.predicted.lower_bound);
  if (choice.schedule == first.schedule) return text + fmt::format("; none of {} others is faster", choice.candidates.size() - 1);
  return text + fmt::format("; the formulas' slices of {} take {}", to_text(Bytes{first.schedule.cut.elements * kEach}),
                            to_text(from_seconds(first.predicted.iteration)));
}

}  // namespace

ScheduleOptions by_formula(Bytes model, const Cluster& cluster, const scheduling::SliceLimits& limits, const Given& given) {
  // A node is a worker and a server; separate ones move as much as that many shared ones.
  const Bytes slice = scheduling::best_slice(
      {.nodes = cluster.workers, .model = model, .start_up = cluster.start_up, .link = cluster.link}, limits);
  const auto merge = static_cast<std::int64_t>(2 * cluster.start_up * cluster.link.value) / kEach;
  return schedule_of(given.slice.value_or(slice.count / kEach), given.merge.value_or(std::min(merge, limits.largest.count / kEach)),
                     Return::kBroadcast);
}

Result<Choice> tune(const Job& job, const Cluster& cluster, const scheduling::SliceLimits& limits, const Given& given) {
  const ScheduleOptions first = by_formula(bytes_of(job.table), cluster, limits, given);
  std::vector<ScheduleOptions> tried = {first};
  const auto add = [&](std::int64_t slice, std::int64_t merge, Return back) {
    slice = given.slice.value_or(std::clamp(slice, std::max<std::int64_t>(1, limits.smallest.count / kEach),
                                            std::max<std::int64_t>(1, limits.largest.count / kEach)));
    const ScheduleOptions candidate = schedule_of(slice, given.merge.value_or(merge), back);
    if (std::ranges::find(tried, candidate) == tried.end()) tried.push_back(candidate);
  };
  const std::int64_t slice = first.cut.elements, merge = first.cut.merge;
  for (const std::int64_t size : {slice, slice / 2, slice * 2, slice / 4, slice * 4}) {
    for (const std::int64_t merged : {merge, std::int64_t{0}, 4 * merge}) add(size, merged, Return::kBroadcast);
  }
  add(slice, merge, Return::kPullByLayer);
  // Whole tensors, cut only to balance the servers: best where a message costs much and there is little to overtake.
  const std::int64_t whole = std::max<std::int64_t>(1, bytes_of(job.table).count / kEach);
  for (const Return back : {Return::kBroadcast, Return::kPullByLayer}) {
    const ScheduleOptions candidate = schedule_of(given.slice.value_or(whole), given.merge.value_or(merge), back);
    if (std::ranges::find(tried, candidate) == tried.end()) tried.push_back(candidate);
  }

  Choice choice;
  for (const ScheduleOptions& schedule : tried) {
    PACELINE_ASSIGN_OR_RETURN(const Prediction predicted, predict(job, schedule, cluster));
    choice.candidates.push_back({schedule, predicted});
    if (choice.candidates.size() > 1 && predicted.iteration >= choice.predicted.iteration * (1 - kWorthAnother)) continue;
    choice.schedule = schedule;
    choice.predicted = predicted;
  }
  choice.why = reason(choice);
  return choice;
}

}  // namespace paceline::prediction

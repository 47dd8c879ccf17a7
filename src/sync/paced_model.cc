#include "sync/paced_model.h"

#include <algorithm>

namespace paceline::sync {

Status PacedModel::on_push(Rank worker, std::int32_t unit, Iteration iteration, std::vector<Update>& updates) {
  return updates_.on_push(worker, unit, iteration, updates);
}

Status PacedModel::on_start_asked(Rank worker, Iteration iteration, TimePoint now, std::vector<Start>& starts) {
  const WorkerProgress* progress = workers_.find(worker);
  const bool ran = progress != nullptr && progress->started > progress->ended;
  PACELINE_RETURN_IF_ERROR(workers_.ask(worker, iteration));
  if (ran) on_ended(worker, now);
  start_waiting(now, starts);
  return {};
}

Status PacedModel::enter(Rank worker, Iteration first, Iteration earliest) {
  PACELINE_RETURN_IF_ERROR(workers_.join(worker, first, earliest));
  updates_.on_joined(worker, first);
  on_entered(worker, first);
  return {};
}

Status PacedModel::on_joined(Rank worker, Iteration first) { return enter(worker, first, earliest_join()); }

Iteration PacedModel::earliest_join() const { return std::max(workers_.ended_by_all(), updates_.newest_summed()) + 1; }

Result<Decisions> PacedModel::on_left(Rank worker, TimePoint now) {
  PACELINE_RETURN_IF_ERROR(workers_.leave(worker));
  on_gone(worker);
  Decisions decisions;
  updates_.on_left(worker, decisions.updates);
  start_waiting(now, decisions.starts);
  return decisions;
}

std::optional<Wait> PacedModel::waits_for(Rank worker) const {
  const WorkerProgress* progress = workers_.find(worker);
  if (progress == nullptr || !progress->wanted) return {};
  Wait wait{*progress->wanted, {}, {}};
  for (const auto& [other, other_progress] : workers_.all()) {
    const Iteration until = awaited_of(other, wait.iteration);
    if (other_progress.ended >= until) continue;
    wait.behind.push_back(other);
    wait.until.push_back(until);
  }
  return wait;
}

void PacedModel::start_waiting(TimePoint now, std::vector<Start>& starts) {
  before_starts(now);
  const std::size_t before = starts.size();
  for (const auto& [worker, progress] : workers_.all()) {
    if (progress.wanted && *progress.wanted <= limit_of(worker))
      starts.push_back({worker, *progress.wanted, begins_superstep(worker, *progress.wanted)});
  }
  for (const Start& start : std::span(starts).subspan(before)) {
    workers_[start.worker].started = start.iteration;
    workers_[start.worker].wanted.reset();
    on_started(start.worker, now);
  }
}

}  // namespace paceline::sync

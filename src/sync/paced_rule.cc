#include "sync/paced_rule.h"

namespace paceline::sync {

Status PacedRule::on_start_asked(Rank worker, Iteration iteration, TimePoint now, std::vector<Start>& starts) {
  const WorkerProgress* progress = workers_.find(worker);
  const bool ran = progress != nullptr && progress->started > progress->ended;
  PACELINE_RETURN_IF_ERROR(workers_.ask(worker, iteration));
  if (ran) on_ended(worker, now);
  look_for_starts(worker, now, starts);
  return {};
}

void PacedRule::look_for_starts(Rank worker, TimePoint now, std::vector<Start>& starts) {
  if (before_starts(now) == Concerns::kEverybody)
    start_all_waiting(now, starts);
  else
    start_if_waiting(worker, now, starts);
}

Status PacedRule::enter(Rank worker, Iteration first, Iteration earliest) {
  PACELINE_RETURN_IF_ERROR(workers_.join(worker, first, earliest));
  on_entered(worker, first);
  return {};
}

Status PacedRule::on_joined(Rank worker, Iteration first) { return enter(worker, first, earliest_join()); }

Status PacedRule::on_left(Rank worker, TimePoint now, std::vector<Start>& starts) {
  PACELINE_RETURN_IF_ERROR(workers_.leave(worker));
  on_gone(worker);
  before_starts(now);
  start_all_waiting(now, starts);
  return {};
}

std::optional<Wait> PacedRule::waits_for(Rank worker) const {
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

void PacedRule::start_if_waiting(Rank worker, TimePoint now, std::vector<Start>& starts) {
  WorkerProgress& progress = workers_[worker];
  if (!progress.wanted || *progress.wanted > limit_of(worker)) return;
  const Iteration iteration = *progress.wanted;
  starts.push_back({worker, iteration, begins_superstep(worker, iteration)});
  progress.started = iteration;
  progress.wanted.reset();
  on_started(worker, now);
}

void PacedRule::start_all_waiting(TimePoint now, std::vector<Start>& starts) {
  for (const auto& [worker, progress] : workers_.all()) start_if_waiting(worker, now, starts);
}

}  // namespace paceline::sync

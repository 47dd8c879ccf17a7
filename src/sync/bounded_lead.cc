#include "sync/bounded_lead.h"

#include <algorithm>
#include <limits>

namespace paceline::sync {
namespace {

constexpr std::int64_t kUnbounded = std::numeric_limits<std::int64_t>::max();

std::int64_t lead_of(const SyncOptions& options) {
  switch (options.kind) {
    case SyncKind::kBsp:
      return 0;
    case SyncKind::kSsp:
      return options.staleness;
    default:
      return kUnbounded;
  }
}

}  // namespace

BoundedLead::BoundedLead(const SyncOptions& options, std::int32_t units)
    : kind_(options.kind),
      lead_(lead_of(options)),
      updates_(units, options.kind == SyncKind::kBsp ? std::numeric_limits<Iteration>::max() : 0, options.scale) {}

Delivery BoundedLead::delivery() const {
  switch (kind_) {
    case SyncKind::kBsp:
      return Delivery::kToAll;
    case SyncKind::kAsp:
      return Delivery::kToPusher;
    default:
      return Delivery::kAtStart;
  }
}

Status BoundedLead::on_push(Rank worker, std::int32_t unit, Iteration iteration, std::vector<Update>& updates) {
  return updates_.on_push(worker, unit, iteration, updates);
}

Status BoundedLead::on_start_asked(Rank worker, Iteration iteration, TimePoint /*now*/, std::vector<Start>& starts) {
  PACELINE_RETURN_IF_ERROR(workers_.ask(worker, iteration));
  start_waiting(starts);
  return {};
}

Status BoundedLead::on_joined(Rank worker, Iteration first) {
  PACELINE_RETURN_IF_ERROR(workers_.join(worker, first, earliest_join()));
  updates_.on_joined(worker, first);
  return {};
}

Iteration BoundedLead::earliest_join() const { return std::max(workers_.ended_by_all(), updates_.newest_summed()) + 1; }

Result<Decisions> BoundedLead::on_left(Rank worker, TimePoint /*now*/) {
  PACELINE_RETURN_IF_ERROR(workers_.leave(worker));
  Decisions decisions;
  updates_.on_left(worker, decisions.updates);
  start_waiting(decisions.starts);
  return decisions;
}

std::optional<Wait> BoundedLead::waits_for(Rank worker) const {
  const WorkerProgress* progress = workers_.find(worker);
  if (progress == nullptr || !progress->wanted) return {};
  Wait wait{*progress->wanted, {}, {}};
  const Iteration until = wait.iteration - 1 - lead_;
  for (const auto& [other, other_progress] : workers_.all()) {
    if (other_progress.ended >= until) continue;
    wait.behind.push_back(other);
    wait.until.push_back(until);
  }
  return wait;
}

std::int64_t BoundedLead::ahead(Rank worker) const {
  const WorkerProgress* progress = workers_.find(worker);
  if (progress == nullptr) return 0;
  return std::max<std::int64_t>(0, progress->started - 1 - workers_.ended_by_all());
}

void BoundedLead::start_waiting(std::vector<Start>& starts) {
  const std::size_t before = starts.size();
  const Iteration slowest = workers_.ended_by_all();
  for (const auto& [worker, progress] : workers_.all()) {
    if (!progress.wanted || (lead_ != kUnbounded && *progress.wanted - 1 - lead_ > slowest)) continue;
    starts.push_back({worker, *progress.wanted});
  }
  for (const Start& start : std::span(starts).subspan(before)) {
    workers_[start.worker].started = start.iteration;
    workers_[start.worker].wanted.reset();
  }
}

}  // namespace paceline::sync

#include "sync/elastic_bsp.h"

#include <algorithm>

#include "sync/barrier.h"

namespace paceline::sync {

ElasticBsp::ElasticBsp(const SyncOptions& options, std::int32_t units, Iteration first)
    : options_(options), first_(first), updates_(units, first + options.history - 1, options.scale) {}

Status ElasticBsp::add_initial(Rank worker) {
  PACELINE_RETURN_IF_ERROR(workers_.join(worker, first_, first_));
  updates_.on_joined(worker, first_);
  plans_.insert({worker, {first_ - 1, first_, IntervalHistory(static_cast<std::size_t>(options_.history)), {}}});
  return {};
}

Status ElasticBsp::on_push(Rank worker, std::int32_t unit, Iteration iteration, std::vector<Update>& updates) {
  return updates_.on_push(worker, unit, iteration, updates);
}

Status ElasticBsp::on_start_asked(Rank worker, Iteration iteration, TimePoint now, std::vector<Start>& starts) {
  const WorkerProgress* progress = workers_.find(worker);
  const bool ran = progress != nullptr && progress->started > progress->ended;
  PACELINE_RETURN_IF_ERROR(workers_.ask(worker, iteration));
  Plan& plan = plans_.at(worker);
  if (ran) plan.intervals.add(std::max(now - plan.started, Duration::zero()));
  start_waiting(now, starts);
  return {};
}

Status ElasticBsp::on_joined(Rank worker, Iteration first) {
  PACELINE_RETURN_IF_ERROR(workers_.join(worker, first, earliest_join()));
  updates_.on_joined(worker, first);
  plans_.insert({worker, {first - 1, first - 1, IntervalHistory(static_cast<std::size_t>(options_.history)), {}}});
  return {};
}

Iteration ElasticBsp::earliest_join() const {
  return std::max({first_ - 1, workers_.ended_by_all(), updates_.newest_summed()}) + 1;
}

Result<Decisions> ElasticBsp::on_left(Rank worker, TimePoint now) {
  PACELINE_RETURN_IF_ERROR(workers_.leave(worker));
  plans_.erase(worker);
  Decisions decisions;
  updates_.on_left(worker, decisions.updates);
  start_waiting(now, decisions.starts);
  return decisions;
}

std::optional<Wait> ElasticBsp::waits_for(Rank worker) const {
  const WorkerProgress* progress = workers_.find(worker);
  if (progress == nullptr || !progress->wanted) return {};
  Wait wait{*progress->wanted, {}, {}};
  for (const auto& [other, other_progress] : workers_.all()) {
    const Iteration barrier = plans_.at(other).barrier;
    if (other_progress.ended >= barrier) continue;
    wait.behind.push_back(other);
    wait.until.push_back(barrier);
  }
  return wait;
}

std::int64_t ElasticBsp::ahead(Rank worker) const {
  const WorkerProgress* progress = workers_.find(worker);
  if (progress == nullptr) return 0;
  const Plan& own = plans_.at(worker);
  std::int64_t most = 0;
  for (const auto& [other, other_progress] : workers_.all()) {
    const Plan& plan = plans_.at(other);
    if (plan.barrier == plan.base) continue;  // stands at the barrier already
    most = std::max(most, (progress->started - 1 - own.base) - (other_progress.ended - plan.base));
  }
  return most;
}

bool ElasticBsp::at_barrier() const {
  return std::all_of(workers_.all().begin(), workers_.all().end(),
                     [this](const auto& entry) { return entry.second.ended >= plans_.at(entry.first).barrier; });
}

void ElasticBsp::plan_superstep() {
  std::vector<Rank> members;
  for (const auto& [worker, progress] : workers_.all()) {
    Plan& plan = plans_.at(worker);
    plan.base = plan.barrier = progress.ended;
    if (progress.wanted) members.push_back(worker);  // all but those that joined and have not come yet
  }
  const std::vector<std::int64_t> lengths = superstep_lengths(members);
  for (std::size_t m = 0; m < members.size(); ++m) plans_.at(members[m]).barrier += lengths[m];
}

std::vector<std::int64_t> ElasticBsp::superstep_lengths(const std::vector<Rank>& workers) const {
  const std::vector<std::int64_t> one_each(workers.size(), 1);
  if (workers.empty()) return one_each;
  std::vector<double> intervals;
  for (Rank worker : workers) {
    const Plan& plan = plans_.at(worker);
    const bool like_bsp = plan.base < first_ - 1 + options_.history;
    if (like_bsp || plan.intervals.empty()) return one_each;
    intervals.push_back(seconds(plan.intervals.typical()));
  }
  // Times count from the barrier, where all start.
  const auto ends = EndTimes::predicted(std::vector<double>(workers.size(), 0.0), intervals, options_.lookahead);
  if (!ends.ok()) return one_each;  // more events than a sweep should take
  return zip_line(*ends, options_.objective, 0).iterations;
}

void ElasticBsp::start_waiting(TimePoint now, std::vector<Start>& starts) {
  if (at_barrier()) plan_superstep();
  const std::size_t before = starts.size();
  for (const auto& [worker, progress] : workers_.all()) {
    if (progress.wanted && *progress.wanted <= plans_.at(worker).barrier) starts.push_back({worker, *progress.wanted});
  }
  for (const Start& start : std::span(starts).subspan(before)) {
    workers_[start.worker].started = start.iteration;
    workers_[start.worker].wanted.reset();
    plans_.at(start.worker).started = now;
  }
}

}  // namespace paceline::sync

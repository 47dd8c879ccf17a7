#include "sync/elastic_bsp.h"

#include <algorithm>

#include "sync/barrier.h"

namespace paceline::sync {

std::vector<Iteration> answer(const BarrierQuestion& question) {
  std::vector<Iteration> barrier = question.ended;
  // Times count from the last barrier, where all start.
  const auto ends =
      EndTimes::predicted(std::vector<double>(question.intervals.size(), 0.0), question.intervals, question.lookahead);
  // One each when no interval is known, and when there are more events than a sweep should take.
  const std::vector<std::int64_t> lengths =
      ends.ok() ? zip_line(*ends, question.objective, 0).iterations : std::vector<std::int64_t>(barrier.size(), 1);
  for (std::size_t i = 0; i < barrier.size(); ++i) barrier[i] += lengths[i];
  return barrier;
}

ElasticBsp::ElasticBsp(const SyncOptions& options, Iteration first) : options_(options), first_(first) {}

Status ElasticBsp::add_initial(Rank worker) {
  PACELINE_RETURN_IF_ERROR(enter(worker, first_, first_));
  plans_.at(worker).member = true;
  plans_.at(worker).barrier = first_;
  return {};
}

void ElasticBsp::on_entered(Rank worker, Iteration first) {
  plans_.insert(
      {worker,
       {.base = first - 1, .barrier = {}, .next = {}, .intervals = IntervalHistory(static_cast<std::size_t>(options_.history))}});
}

void ElasticBsp::on_ended(Rank worker, TimePoint now) {
  Plan& plan = plans_.at(worker);
  plan.ended = now;
  plan.intervals.add(std::max(now - plan.started, Duration::zero()));
}

void ElasticBsp::on_started(Rank worker, TimePoint now) {
  plans_.at(worker).started = now;
  if (!began_) began_ = now;
}

std::int64_t ElasticBsp::ahead(Rank worker) const {
  const WorkerProgress* progress = find(worker);
  if (progress == nullptr) return 0;
  const Iteration own = progress->started - 1 - plans_.at(worker).base;
  std::int64_t most = 0;
  for (const auto& [other, other_progress] : workers()) {
    const Plan& plan = plans_.at(other);
    if (plan.member) most = std::max(most, own - (other_progress.ended - plan.base));
  }
  return most;
}

Iteration ElasticBsp::limit_of(Rank worker) const {
  const Plan& plan = plans_.at(worker);
  if (!plan.member) return plan.base;
  return plan.barrier.value_or(plan.base + 1);
}

Iteration ElasticBsp::awaited_of(Rank other, Iteration /*wanted*/) const { return limit_of(other); }

bool ElasticBsp::begins_superstep(Rank worker, Iteration iteration) const { return iteration == plans_.at(worker).base + 1; }

Status ElasticBsp::on_barrier(Rank worker, Iteration barrier, TimePoint now, std::vector<Start>& starts) {
  const auto found = plans_.find(worker);
  if (found == plans_.end()) return {};
  Plan& plan = found->second;
  // Where this server is a barrier behind the one that predicts, the answer is for the superstep to come.
  const bool early = !plan.member || plan.barrier;
  const Iteration base = early ? plan.barrier.value_or(plan.base) : plan.base;
  if ((early && plan.next) || barrier <= base || barrier - base > options_.lookahead) {
    return error(ErrorKind::kBadRequest, "worker {} was told of a barrier after iteration {}; legal are {} to {}{}", worker.value,
                 barrier, base + 1, base + options_.lookahead, early && plan.next ? ", and not yet" : "");
  }
  (early ? plan.next : plan.barrier) = barrier;
  if (!early) look_for_starts(worker, now, starts);
  return {};
}

PacedRule::Concerns ElasticBsp::before_starts(TimePoint now) {
  const bool wanted = std::ranges::any_of(workers(), [](const auto& entry) { return entry.second.wanted.has_value(); });
  if (!wanted || !at_barrier()) return Concerns::kNobodyElse;
  finish_superstep();
  begin_superstep(now);
  return Concerns::kEverybody;
}

bool ElasticBsp::at_barrier() const {
  return std::ranges::all_of(workers(), [this](const auto& entry) {
    const Plan& plan = plans_.at(entry.first);
    return !plan.member || (plan.barrier && entry.second.ended >= *plan.barrier);
  });
}

void ElasticBsp::finish_superstep() {
  Superstep done{
      .number = superstep_, .began = began_.value_or(TimePoint{}), .workers = {}, .iterations = {}, .predicted = {}, .arrived = {}};
  for (const auto& [worker, plan] : plans_) {
    if (!plan.member) continue;
    done.workers.push_back(worker);
    done.iterations.push_back(*plan.barrier - plan.base);
    if (plan.expected > 0) done.predicted.push_back(plan.expected * static_cast<double>(done.iterations.back()));
    done.arrived.push_back(seconds(plan.ended - done.began));
  }
  if (done.workers.empty()) return;
  if (done.predicted.size() < done.workers.size()) done.predicted.clear();
  finished_ = std::move(done);
}

void ElasticBsp::begin_superstep(TimePoint now) {
  ++superstep_;
  began_ = now;
  question_ = {.workers = {}, .ended = {}, .intervals = {}, .lookahead = options_.lookahead, .objective = options_.objective};
  for (const auto& [worker, progress] : workers()) {
    Plan& plan = plans_.at(worker);
    plan.base = progress.ended;
    plan.member = progress.wanted.has_value();  // all but those that joined and have not come yet
    plan.barrier = std::exchange(plan.next, std::nullopt);
    if (!plan.member) continue;
    question_->workers.push_back(worker);
    question_->ended.push_back(plan.base);
  }
  const bool predicted = can_predict();
  for (const Rank worker : question_->workers) {
    Plan& plan = plans_.at(worker);
    plan.expected = predicted ? seconds(plan.intervals.typical()) : 0;
    if (predicted) question_->intervals.push_back(plan.expected);
  }
}

bool ElasticBsp::can_predict() const {
  return std::ranges::all_of(question_->workers, [this](Rank worker) {
    const Plan& plan = plans_.at(worker);
    return plan.base >= first_ - 1 + options_.history && !plan.intervals.empty();
  });
}

}  // namespace paceline::sync

// Whole jobs of slow, pausing, leaving and joining workers against each pace rule, in virtual time.
#include <algorithm>
#include <deque>
#include <map>
#include <queue>
#include <random>
#include <tuple>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "sync/pace_rule.h"

namespace paceline::sync {
namespace {

TimePoint at(double s) { return TimePoint(from_seconds(s)); }

// Runs a job of slow, pausing, leaving and joining workers against one rule, and judges it from outside: it keeps its own books of
// who has ended what.
class VirtualJob {
 public:
  VirtualJob(const SyncOptions& options, std::uint64_t seed) : options_(options), random_(seed) {
    const auto workers = static_cast<std::int32_t>(pick(1, 6));
    std::vector<Rank> ranks;
    for (std::int32_t r = 0; r < workers; ++r) ranks.push_back({r});
    rule_ = std::move(make_pace_rule(options, {ranks, 1})).value();
    for (Rank rank : ranks) enter(rank, 1);
    left_to_join_ = pick(0, 3);
    if (left_to_join_ > 0) schedule(kJoin, Rank{workers}, real(0, 20));
  }

  // "" when every worker has run to its end, else what went wrong.
  std::string run() {
    for (std::int64_t steps = 0; !events_.empty() && problem_.empty(); ++steps) {
      if (steps > 100'000) return "the run does not end";
      const Event event = events_.top();
      events_.pop();
      now_ = event.time;
      if (event.kind == kJoin) join(event.worker);
      if (event.kind == kAsk) iteration_ended(event.worker);
      if (event.kind == kLeave) leave(event.worker);
      if (event.kind == kAnswer) answer_oldest();
      // A prediction takes its time, mostly less than an iteration.
      for (auto question = rule_->take_question(); question; question = rule_->take_question()) {
        questions_.push_back(*std::move(question));
        schedule(kAnswer, Rank{-1}, real(0, 0.3));
      }
    }
    if (problem_.empty() && !live_.empty()) return fmt::format("worker {} never came to its end", live_.begin()->first.value);
    return problem_;
  }

 private:
  enum Kind { kJoin, kAsk, kLeave, kAnswer };
  struct Event {
    double time;
    std::int64_t number;
    Kind kind;
    Rank worker;
    bool operator<(const Event& other) const { return std::tie(other.time, other.number) < std::tie(time, number); }
  };
  struct Live {
    Iteration first;
    Iteration running = 0;  // 0: none
    Iteration ended;
    Iteration last;  // leaves after it
    double pace;
    std::map<Rank, std::int64_t> started_meanwhile;  // by others, during the running iteration
  };

  std::int64_t pick(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random_);
  }
  double real(double least, double most) { return std::uniform_real_distribution<double>(least, most)(random_); }
  void schedule(Kind kind, Rank worker, double delay) { events_.push({now_ + delay, ++numbers_, kind, worker}); }

  void enter(Rank rank, Iteration first) {
    live_[rank] = {.first = first, .ended = first - 1, .last = first + pick(0, 25), .pace = real(0.1, 4)};
    schedule(kAsk, rank, real(0, 1));
    if (pick(0, 4) == 0) schedule(kLeave, rank, real(0, 30));  // killed, wherever it then is
  }

  void join(Rank rank) {
    const Iteration first = rule_->earliest_join();
    if (!rule_->on_joined(rank, first).ok()) problem_ = "a legal join was refused";
    enter(rank, first);
    if (--left_to_join_ > 0) schedule(kJoin, Rank{rank.value + 1}, real(0, 20));
  }

  void iteration_ended(Rank rank) {
    const auto found = live_.find(rank);
    if (found == live_.end()) return;  // killed meanwhile
    Live& worker = found->second;
    if (worker.running > 0) {
      worker.ended = worker.running;
      worker.running = 0;
      if (worker.ended == worker.last) return leave(rank);
    }
    std::vector<Start> starts;
    if (!rule_->on_start_asked(rank, worker.ended + 1, at(now_), starts).ok()) problem_ = "a legal ask was refused";
    start(starts);
  }

  void leave(Rank rank) {
    if (!live_.contains(rank)) return;
    live_.erase(rank);
    std::vector<Start> starts;
    if (!rule_->on_left(rank, at(now_), starts).ok()) problem_ = "a legal leave was refused";
    start(starts);
  }

  void answer_oldest() {
    const BarrierQuestion question = questions_.front();
    questions_.pop_front();
    const std::vector<Iteration> barriers = answer(question);
    for (std::size_t i = 0; i < barriers.size(); ++i) {
      std::vector<Start> starts;
      const Status told = rule_->on_barrier(question.workers[i], barriers[i], at(now_), starts);
      if (!told.ok()) problem_ = told.message();
      start(starts);
    }
  }

  void start(const std::vector<Start>& starts) {
    for (const Start& start : starts) {
      const auto found = live_.find(start.worker);
      if (found == live_.end() || found->second.ended + 1 != start.iteration || found->second.running != 0) {
        problem_ = fmt::format("worker {} was started at {}", start.worker.value, start.iteration);
        return;
      }
      found->second.running = start.iteration;
      found->second.started_meanwhile.clear();
      const double pause = pick(0, 15) == 0 ? real(0, 40) : 0;
      schedule(kAsk, start.worker, found->second.pace * real(0.8, 1.2) + pause);
    }
    for (const Start& start : starts) judge(start);
  }

  void judge(const Start& start) {
    std::int64_t bound = 0;
    if (options_.kind == SyncKind::kSsp) bound = options_.staleness;
    if (options_.kind == SyncKind::kElasticBsp) bound = options_.lookahead - 1;
    if (options_.kind != SyncKind::kAsp && rule_->ahead(start.worker) > bound) {
      problem_ = fmt::format("worker {} is {} ahead, bound {}", start.worker.value, rule_->ahead(start.worker), bound);
    }
    for (auto& [other, worker] : live_) {
      if (other == start.worker || worker.running == 0) continue;
      if (++worker.started_meanwhile[start.worker] > bound + 1 && options_.kind == SyncKind::kElasticBsp) {
        problem_ =
            fmt::format("worker {} started {} iterations during one of worker {}", start.worker.value, bound + 2, other.value);
      }
    }
    if (options_.kind != SyncKind::kBsp && options_.kind != SyncKind::kSsp) return;
    for (const auto& [other, worker] : live_) {
      if (start.iteration - 1 - worker.ended > bound) {
        problem_ = fmt::format("worker {} started {} while worker {} had ended {}", start.worker.value, start.iteration,
                               other.value, worker.ended);
      }
    }
  }

  SyncOptions options_;
  std::mt19937_64 random_;
  std::unique_ptr<PaceRule> rule_;
  std::deque<BarrierQuestion> questions_;
  std::map<Rank, Live> live_;
  std::priority_queue<Event> events_;
  std::int64_t left_to_join_ = 0;
  std::int64_t numbers_ = 0;
  double now_ = 0;
  std::string problem_;
};

TEST(PaceRule, EveryRandomRunEndsWithinItsStaleness) {
  for (std::uint64_t seed = 0; seed < 8'000; ++seed) {  // 2 000 of each kind
    const auto step = static_cast<std::int64_t>(seed / 4);
    const SyncOptions options[] = {{},
                                   {.kind = SyncKind::kAsp},
                                   {.kind = SyncKind::kSsp, .staleness = step % 5},
                                   {.kind = SyncKind::kElasticBsp,
                                    .lookahead = 1 + step % 9,
                                    .objective = step % 2 == 0 ? Objective::kSpan : Objective::kWaitingShare,
                                    .history = 1 + step % 4}};
    const SyncOptions& chosen = options[seed % 4];
    EXPECT_EQ(VirtualJob(chosen, seed).run(), "") << to_text(chosen.kind) << " seed " << seed;
  }
}

}  // namespace
}  // namespace paceline::sync

// ElasticBSP: supersteps whose end is predicted. Between two barriers a worker runs on to its own count of iterations; the counts
// are chosen so that, by the workers' recent intervals, all reach theirs at nearly the same time.
//
// Decisions where the paper is silent:
// - The first `history` iterations are BSP: one each, gradients summed. After that pushes are applied on arrival.
// - At a barrier everybody starts at once. Where the next one lies is answered meanwhile (take_question, on_barrier), and matters
//   only to a worker that has ended its first iteration since.
// - An interval runs from a worker's start of an iteration to its end, so that waiting at a barrier is not taken for computing. All
//   workers start a superstep together, so the barrier's time is the last end that the prediction begins from.
// - A worker that joins stands at the current barrier from the start. It counts from the next one on, if it has asked by then.
//   While a worker has no interval, supersteps are one iteration long.
// - A worker that leaves is no longer waited for; the others' counts stay.
#pragma once

#include "sync/interval_history.h"
#include "sync/paced_rule.h"

namespace paceline::sync {

class ElasticBsp final : public PacedRule {
 public:
  // options: validated. first: the first iteration of the workers that are there from the beginning.
  ElasticBsp(const SyncOptions& options, Iteration first);

  // Before any other event: a worker that is there from the beginning.
  Status add_initial(Rank worker);

  SyncKind kind() const override { return SyncKind::kElasticBsp; }
  Delivery delivery() const override { return Delivery::kAtStart; }
  Iteration summed_until() const override { return first_ + options_.history - 1; }
  std::int64_t ahead(Rank worker) const override;
  std::optional<BarrierQuestion> take_question() override { return std::exchange(question_, std::nullopt); }
  Status on_barrier(Rank worker, Iteration barrier, TimePoint now, std::vector<Start>& starts) override;
  std::int64_t superstep() const override { return superstep_; }
  std::optional<Superstep> take_finished() override { return std::exchange(finished_, std::nullopt); }

 private:
  struct Plan {
    Iteration base = 0;                      // ended at the last barrier
    bool member = false;                     // of this superstep
    std::optional<Iteration> barrier, next;  // ended at the next barrier and the one after, as far as known
    IntervalHistory intervals;
    double expected = 0;  // seconds of an iteration, as this superstep was predicted with; 0: it was not
    TimePoint started{}, ended{};
  };

  Iteration limit_of(Rank worker) const override;
  Iteration awaited_of(Rank other, Iteration wanted) const override;
  Concerns before_starts(TimePoint now) override;
  bool begins_superstep(Rank worker, Iteration iteration) const override;
  void on_entered(Rank worker, Iteration first) override;
  void on_ended(Rank worker, TimePoint now) override;
  void on_started(Rank worker, TimePoint now) override;
  void on_gone(Rank worker) override { plans_.erase(worker); }

  bool at_barrier() const;
  void finish_superstep();
  void begin_superstep(TimePoint now);
  bool can_predict() const;

  SyncOptions options_;
  Iteration first_;
  std::int64_t superstep_ = 1;
  std::optional<TimePoint> began_;  // the running superstep
  std::map<Rank, Plan> plans_;      // of live workers
  std::optional<BarrierQuestion> question_;
  std::optional<Superstep> finished_;
};

}  // namespace paceline::sync

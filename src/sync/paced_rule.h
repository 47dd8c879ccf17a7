// What all pace rules have in common: who takes part, how far each is, and the starts of workers that wait. A rule says how far a
// worker may go.
#pragma once

#include "sync/pace_rule.h"
#include "sync/workers.h"

namespace paceline::sync {

class PacedRule : public PaceRule {
 public:
  Status on_start_asked(Rank worker, Iteration iteration, TimePoint now, std::vector<Start>& starts) final;
  Status on_joined(Rank worker, Iteration first) final;
  Iteration earliest_join() const final { return workers_.ended_by_all() + 1; }
  Status on_left(Rank worker, TimePoint now, std::vector<Start>& starts) final;
  std::optional<Wait> waits_for(Rank worker) const final;

 protected:
  // Whose limits an event may have changed.
  enum class Concerns { kNobodyElse, kEverybody };

  const std::map<Rank, WorkerProgress>& workers() const { return workers_.all(); }
  const WorkerProgress* find(Rank worker) const { return workers_.find(worker); }
  Iteration ended_by_all() const { return workers_.ended_by_all(); }
  // Something has changed for the worker: starts it, and others whom that concerns, if they wait and may go on.
  void look_for_starts(Rank worker, TimePoint now, std::vector<Start>& starts);
  // Takes part from the beginning, whatever the others' progress.
  Status enter(Rank worker, Iteration first, Iteration earliest);

  // The last iteration that the worker may start now.
  virtual Iteration limit_of(Rank worker) const = 0;
  // What `other` must have ended before somebody may start `wanted`, which is beyond the limit.
  virtual Iteration awaited_of(Rank other, Iteration wanted) const = 0;
  // A worker has ended an iteration or was told of a barrier, or is gone; starts are looked for next.
  virtual Concerns before_starts(TimePoint now) = 0;
  virtual bool begins_superstep(Rank /*worker*/, Iteration /*iteration*/) const { return false; }
  virtual void on_entered(Rank /*worker*/, Iteration /*first*/) {}
  virtual void on_ended(Rank /*worker*/, TimePoint /*now*/) {}
  virtual void on_started(Rank /*worker*/, TimePoint /*now*/) {}
  virtual void on_gone(Rank /*worker*/) {}

 private:
  void start_if_waiting(Rank worker, TimePoint now, std::vector<Start>& starts);
  void start_all_waiting(TimePoint now, std::vector<Start>& starts);

  Workers workers_;
};

}  // namespace paceline::sync

// What all synchronisation models have in common: who takes part, which pushes are summed, and the starts of workers that wait. A
// model says how far a worker may go.
#pragma once

#include "sync/sync_model.h"
#include "sync/unit_updates.h"
#include "sync/workers.h"

namespace paceline::sync {

class PacedModel : public SyncModel {
 public:
  Status on_push(Rank worker, std::int32_t unit, Iteration iteration, std::vector<Update>& updates) final;
  Status on_start_asked(Rank worker, Iteration iteration, TimePoint now, std::vector<Start>& starts) final;
  Status on_joined(Rank worker, Iteration first) final;
  Iteration earliest_join() const final;
  Result<Decisions> on_left(Rank worker, TimePoint now) final;
  std::optional<Wait> waits_for(Rank worker) const final;

 protected:
  explicit PacedModel(UnitUpdates updates) : updates_(std::move(updates)) {}

  const std::map<Rank, WorkerProgress>& workers() const { return workers_.all(); }
  const WorkerProgress* find(Rank worker) const { return workers_.find(worker); }
  Iteration ended_by_all() const { return workers_.ended_by_all(); }
  // Starts everybody who waits and may go on.
  void start_waiting(TimePoint now, std::vector<Start>& starts);
  // Takes part from the beginning, whatever the others' progress.
  Status enter(Rank worker, Iteration first, Iteration earliest);

  // The last iteration that the worker may start now.
  virtual Iteration limit_of(Rank worker) const = 0;
  // What `other` must have ended before somebody may start `wanted`, which is beyond the limit.
  virtual Iteration awaited_of(Rank other, Iteration wanted) const = 0;
  // Something has changed; starts are looked for next.
  virtual void before_starts(TimePoint now) = 0;
  virtual bool begins_superstep(Rank /*worker*/, Iteration /*iteration*/) const { return false; }
  virtual void on_entered(Rank /*worker*/, Iteration /*first*/) {}
  virtual void on_ended(Rank /*worker*/, TimePoint /*now*/) {}
  virtual void on_started(Rank /*worker*/, TimePoint /*now*/) {}
  virtual void on_gone(Rank /*worker*/) {}

 private:
  Workers workers_;
  UnitUpdates updates_;
};

}  // namespace paceline::sync

// ElasticBSP: supersteps whose end is predicted. Between two barriers a worker runs on to its own count of iterations; the counts
// are chosen so that, by the workers' recent intervals, all reach theirs at nearly the same time.
//
// Decisions where the paper is silent:
// - The first `history` iterations are BSP: one each, gradients summed. After that pushes are applied on arrival.
// - An interval runs from a worker's start of an iteration to its end, so that waiting at a barrier is not taken for computing. All
//   workers start a superstep together, so the barrier's time is the last end that the prediction begins from.
// - A worker that joins stands at the current barrier from the start. It counts from the next one on, if it has asked by then.
// While a
//   worker has no interval, supersteps are one iteration long.
// - A worker that leaves is no longer waited for; the others' counts stay.
#pragma once

#include <map>

#include "sync/interval_history.h"
#include "sync/sync_model.h"
#include "sync/unit_updates.h"
#include "sync/workers.h"

namespace paceline::sync {

class ElasticBsp final : public SyncModel {
 public:
  // options: validated. first: the first iteration of the workers that are there from the beginning.
  ElasticBsp(const SyncOptions& options, std::int32_t units, Iteration first);

  // Before any other event: a worker that is there from the beginning.
  Status add_initial(Rank worker);

  SyncKind kind() const override { return SyncKind::kElasticBsp; }
  Delivery delivery() const override { return Delivery::kAtStart; }
  Status on_push(Rank worker, std::int32_t unit, Iteration iteration, std::vector<Update>& updates) override;
  Status on_start_asked(Rank worker, Iteration iteration, TimePoint now, std::vector<Start>& starts) override;
  Status on_joined(Rank worker, Iteration first) override;
  Iteration earliest_join() const override;
  Result<Decisions> on_left(Rank worker, TimePoint now) override;
  std::optional<Wait> waits_for(Rank worker) const override;
  std::int64_t ahead(Rank worker) const override;

 private:
  struct Plan {
    Iteration base = 0;     // ended at the last barrier
    Iteration barrier = 0;  // ended at the next one; == base: not part of this superstep
    IntervalHistory intervals;
    TimePoint started;  // of the running iteration
  };

  bool at_barrier() const;
  void plan_superstep();
  std::vector<std::int64_t> superstep_lengths(const std::vector<Rank>& workers) const;
  void start_waiting(TimePoint now, std::vector<Start>& starts);

  SyncOptions options_;
  Iteration first_;
  Workers workers_;
  UnitUpdates updates_;
  std::map<Rank, Plan> plans_;  // of live workers
};

}  // namespace paceline::sync

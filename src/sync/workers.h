// The live workers of a pace rule: how far each is and what it wants. Part of the models; the checks of events that all
// rules share are here once.
#pragma once

#include <map>
#include <optional>

#include "sync/pace_rule.h"

namespace paceline::sync {

struct WorkerProgress {
  Iteration ended = 0;
  Iteration started = 0;            // the last iteration that it was allowed to start; `ended` when it has none running
  std::optional<Iteration> wanted;  // asked for, not yet started
};

class Workers {
 public:
  // Refused with kBadRequest: a worker that is live already; an iteration before `earliest`.
  Status join(Rank worker, Iteration first, Iteration earliest);
  // Refused: not live, not the iteration after the one that is running, asked twice.
  Status ask(Rank worker, Iteration iteration);
  // Refused: not live.
  Status leave(Rank worker);

  const std::map<Rank, WorkerProgress>& all() const { return workers_; }
  WorkerProgress& operator[](Rank worker) { return workers_.at(worker); }
  const WorkerProgress* find(Rank worker) const;

  // Ended by every live worker; with none, by the farthest that has left.
  Iteration ended_by_all() const { return slowest_; }

 private:
  void find_slowest();

  std::map<Rank, WorkerProgress> workers_;
  Iteration farthest_left_ = 0;
  Iteration slowest_ = 0;
  std::size_t at_slowest_ = 0;  // workers that have ended no more than that
};

}  // namespace paceline::sync

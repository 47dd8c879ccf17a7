// Sees at what pace the workers of a job run, as one server sees it: an iteration begins when the synchronisation model lets the
// worker start it, and ends when all its pushes are there. Called by Server inside its events; calls nothing back.
#pragma once

#include "sync/pace_rule.h"

namespace paceline::exchange {

class PaceObserver {
 public:
  virtual ~PaceObserver() = default;
  // `staleness`: ended iterations that the worker is ahead of the slowest (PaceRule::ahead).
  virtual void on_started(Rank worker, Iteration iteration, std::int64_t staleness, TimePoint now) = 0;
  virtual void on_ended(Rank worker, Iteration iteration, TimePoint now) = 0;
  virtual void on_superstep(const sync::Superstep& superstep) = 0;
};

}  // namespace paceline::exchange

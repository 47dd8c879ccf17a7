// Which pushes of a unit make an update: each on its own, or those of all live workers together. Part of the synchronisation
// models.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "sync/sync_model.h"

namespace paceline::sync {

class UnitUpdates {
 public:
  // Pushes of iterations up to `summed_until` are summed over the live workers, later ones are applied on arrival.
  UnitUpdates(std::int32_t units, Iteration summed_until, GradientScale scale);

  void on_joined(Rank worker, Iteration first);
  // What was only waiting for `worker`. Its own pushes stay in.
  std::vector<Update> on_left(Rank worker);
  Result<std::vector<Update>> on_push(Rank worker, std::int32_t unit, Iteration iteration);

  // The largest iteration that is summed and that some push has reached; 0 before the first.
  Iteration newest_summed() const { return newest_summed_; }

 private:
  struct Worker {
    Iteration first = 1;
    std::vector<Iteration> pushed;  // per unit: the last iteration
  };

  bool complete(std::int32_t unit, Iteration iteration) const;
  Update summed(std::int32_t unit, Iteration iteration, std::vector<Rank> contributors) const;

  Iteration summed_until_;
  GradientScale scale_;
  Iteration newest_summed_ = 0;
  std::map<Rank, Worker> workers_;                               // live
  std::vector<std::map<Iteration, std::vector<Rank>>> waiting_;  // per unit: pushes that wait for others
};

}  // namespace paceline::sync

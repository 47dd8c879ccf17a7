// Which pushes of a unit make an update: each on its own, or those of all live workers together. Part of the synchronisation
// models.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sync/sync_model.h"

namespace paceline::sync {

class UnitUpdates {
 public:
  // Pushes of iterations up to `summed_until` are summed over the live workers, later ones are applied on arrival.
  UnitUpdates(std::int32_t units, Iteration summed_until, GradientScale scale);

  // Requires: not live; first is after every iteration that the worker pushed before it left.
  void on_joined(Rank worker, Iteration first);
  // Appends what was only waiting for `worker`, which is live. Its own pushes stay in.
  void on_left(Rank worker, std::vector<Update>& updates);
  // Appends at most one update. Allocates nothing itself.
  Status on_push(Rank worker, std::int32_t unit, Iteration iteration, std::vector<Update>& updates);

  // The largest iteration that is summed and that some push has reached; 0 before the first.
  Iteration newest_summed() const { return newest_summed_; }

 private:
  // A worker from one joining to its leaving. Afterwards it is kept while a push of it waits for others.
  struct Member {
    Rank rank;
    Iteration first = 1;
    bool live = true;
    std::vector<Iteration> pushed;  // per unit: the last iteration
  };

  std::size_t live_members() const;
  bool complete(std::size_t unit, Iteration iteration) const;
  std::optional<Iteration> waiting(const Member& member, std::size_t unit) const;
  std::optional<Iteration> first_waiting(std::size_t unit) const;
  Update summed(std::size_t unit, Iteration iteration);
  void forget_members();

  Iteration summed_until_;
  GradientScale scale_;
  Iteration newest_summed_ = 0;
  std::vector<Member> members_;     // by rank, then first
  std::vector<Iteration> summed_;   // per unit: the last iteration that was summed
  std::vector<Rank> contributors_;  // to the updates that were given last
};

}  // namespace paceline::sync

// What all workers must do and have alike while they train, where each steps by itself: which steps they leave out, and what each
// tells of its settings and parameters after some iterations. Compares what they tell and names the first difference, so that no
// job in which ranks have parted ends well. Pure; owned by the coordinator's loop.
//
// Nothing is told of a step that is made: a worker that is known to have passed an iteration, and has not told that it left the
// step out, has made it. So a worker tells that before anything else of that iteration or a later one.
#pragma once

#include <map>
#include <vector>

#include "base/quantity.h"
#include "base/status.h"
#include "wire/control.h"

namespace paceline::membership {

// Errors, kBadRequest with the code "parted": the sentence names two ranks, the iteration and what differs. `worker` exists.
class AlikeLedger {
 public:
  // workers: at least 1.
  explicit AlikeLedger(std::int32_t workers) : passed_(static_cast<std::size_t>(workers), 0) {}

  // `worker` has gone on from `iteration` without a step.
  Status on_left_out(Rank worker, Iteration iteration);
  // What `worker` has after `iteration`, as (what, how it is there). An empty text is compared with nothing. Compared with what
  // another one has told of the same iteration.
  Status on_told(Rank worker, Iteration iteration, wire::Settings what);
  // `worker` has told which steps it left out up to `iteration`.
  Status on_passed(Rank worker, Iteration iteration);

 private:
  // Of the iteration that all have passed, which some may still tell of, or a later one.
  struct Open {
    std::vector<Rank> left_out;
    Rank teller;
    wire::Settings told;  // by the first who told
  };

  Status check(Iteration iteration, const Open& open) const;
  Status advance(Rank worker, Iteration iteration);  // and looks at all that is open
  void forget();

  std::vector<Iteration> passed_;  // by rank
  std::map<Iteration, Open> open_;
};

}  // namespace paceline::membership

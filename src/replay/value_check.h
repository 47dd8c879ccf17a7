// Says whether the parameters that a replaying worker gets back are those that they must be. Pure; training thread.
//
// BSP: bit for bit what the sum and the optimizer make of all workers' gradients, computed for one period (values.h) in plain
// loops. The sum is taken in the order in which the job adds (collectives/training/gradient_additions.h): of every such order there
// is one period. With the other models each push is applied on its own, as it comes, so that a worker cannot know which ones a
// value holds; but every gradient is a positive multiple of the same direction, so a value must lie on the line from the initial
// value along the direction, everywhere as far along it (within rounding), at least as far as its own pushes (of what is summed
// over the workers: its share) and as what it saw before.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "collectives/training/gradient_additions.h"
#include "job/spec.h"
#include "replay/values.h"
#include "training/reference_update.h"

namespace paceline::replay {

class ValueCheck {
 public:
  // `settings`: validated, of a replay. `rank`: whose pushes are known.
  static Result<ValueCheck> make(const job::JobSpec& settings, Rank rank, std::int32_t workers);

  // All workers have pushed their gradients of `iteration`, which follows the last one (the first: 1).
  Status on_iteration(Iteration iteration);

  // How the job adds.
  const collectives::GradientAdditions& additions() const { return additions_; }

  // A part of the arena that the caller checks by itself, of one unit and one of its runs: in which order it is added, and where
  // its values were on their line when they were last seen.
  struct Part {
    std::size_t order = 0;
    float along = 0;
  };
  // Elements offset, offset + 1, ... of the arena. Returns the index in `values` of the first wrong one, and what is expected
  // there.
  struct Difference {
    std::size_t index = 0;
    float expected = 0;
  };
  std::optional<Difference> find_difference(std::int64_t offset, std::span<const float> values, Part& part) const;

 private:
  ValueCheck(Values values, const training::UpdateRules& rules, collectives::GradientAdditions additions, Rank rank,
             std::int32_t workers);
  std::optional<Difference> find_off_line(std::int64_t offset, std::span<const float> values, Part& part) const;

  Values values_;
  Rank rank_;
  bool exact_ = true;
  double rate_ = 0;
  sync::SyncOptions sync_;
  double own_ = 0;  // how far this worker's pushes alone have moved the values along the direction
  collectives::GradientAdditions additions_;
  struct Expected {
    training::ReferenceUpdate update;
    std::vector<float> period;
  };
  std::vector<Expected> expected_;  // by order
  std::vector<std::vector<float>> gradients_;
};

}  // namespace paceline::replay

// In which order a job adds its workers' gradients, element by element, for whoever computes the same bits by other means. Plain
// data, any thread.
#pragma once

#include <optional>
#include <vector>

#include "collectives/plan/additions.h"
#include "collectives/training/loop_options.h"
#include "collectives/training/unit_flags.h"
#include "scheduling/unit_plan.h"

namespace paceline::collectives {

class GradientAdditions {
 public:
  // `training`: valid; nothing: servers, which add in rank order. `verdict`: whether the job tells verdicts.
  GradientAdditions(const std::optional<TrainingOptions>& training, std::int32_t workers, bool verdict = false);

  // The different orders, at least one.
  const std::vector<Additions>& orders() const { return orders_; }

  // The unit's elements, run by run: each as long as all are added in one order.
  struct Run {
    std::int64_t elements = 0;  // above 0
    std::size_t order = 0;      // index into orders()
  };
  std::vector<Run> runs_of(const scheduling::Unit& unit) const;

 private:
  UnitFlags flags_;
  std::vector<Additions> orders_;
  std::vector<std::size_t> of_part_;  // empty: all elements are added in one order
};

}  // namespace paceline::collectives

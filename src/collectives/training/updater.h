// Updates parameters with the sums of all workers' gradients, with the arithmetic of a parameter server (paramserver/core): the sum
// times 1 / workers, a look at whether it is finite, one optimizer step, so that the bits are the same. Holds the optimizer's state
// of all units. Pure; one owner.
//
// Work is cut into pieces of at most kPieceElements, so that a loop can do something else between two of them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "paramserver/core/job_plan.h"
#include "tensor/exact_square_sum.h"

namespace paceline::collectives {

class Updater {
 public:
  static constexpr std::int64_t kPieceElements = 131'072;

  enum class Role { kUpdates, kNever };  // kNever: no memory is spent on optimizer state
  Updater(std::shared_ptr<const paramserver::JobPlan> plan, Role role);

  // The pieces of a unit.
  std::uint32_t pieces(std::uint32_t unit) const { return first_piece_[unit + 1] - first_piece_[unit]; }

  // `sum`: the unit's elements, which become the mean in place, and behind them of each part how many workers used it. Parts that
  // nobody used are left alone, here and in step(). With JobPlan::holds_updates this also counts for decide(). Errors: kCorrupt
  // when the mean is not finite and the job is to stop then.
  Status make_mean(std::uint32_t unit, std::uint32_t piece, Iteration iteration, std::span<float> sum);
  // holds_updates: make_mean has been called for all pieces of all units, and no step of the iteration yet.
  enum class Verdict { kStep, kSkip };
  Verdict decide();
  // make_mean has been called. `sum` and `parameters` are the unit's.
  void step(std::uint32_t unit, std::uint32_t piece, Iteration iteration, std::span<float> sum, std::span<float> parameters);

  // Optimizer state of a part, as the planes that tensor::step takes for all of its elements, and how many updates it has had. For
  // checkpoints: between two iterations. Role::kNever: no state, and nothing to import.
  struct PartState {
    std::vector<float> state;
    std::int64_t steps = 0;
  };
  PartState export_part(std::uint32_t part) const;
  // Requires as many numbers of state as export_part gives.
  void import_part(std::uint32_t part, const PartState& from);

  // Why this worker's gradient of the unit must not be used, naming it; success when it is finite, or the policy is another one.
  Status check_own(Rank self, std::uint32_t unit, std::uint32_t unused_parts, Iteration iteration,
                   std::span<const float> gradient) const;

 private:
  struct Piece {
    std::uint32_t part = 0;  // index into UnitPlan::parts
    std::uint32_t part_in_unit = 0;
    std::int64_t offset = 0, elements = 0;  // in the unit
    std::size_t state = 0;                  // where its optimizer state begins
  };

  const Piece& piece_of(std::uint32_t unit, std::uint32_t piece) const { return pieces_[first_piece_[unit] + piece]; }
  // Calls visit(place in the state of the whole part, place in state_, numbers) for each plane of each piece of the part.
  template <typename Visit>
  void for_each_run(std::uint32_t part, Visit visit) const;
  std::string part_text(std::uint32_t part) const;
  bool used(const Piece& piece, std::uint32_t unit, std::span<const float> sum) const;

  std::shared_ptr<const paramserver::JobPlan> plan_;
  std::vector<Piece> pieces_;
  std::vector<std::uint32_t> first_piece_;  // by unit; one more at the end
  std::vector<float> state_;
  std::vector<std::int64_t> steps_;  // by part
  tensor::ExactSquareSum squares_;
  float coefficient_ = 1;
  Verdict verdict_ = Verdict::kStep;
};

}  // namespace paceline::collectives

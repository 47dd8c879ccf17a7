// One worker's side of training without servers: which collective operation of which unit begins when, when a unit may be updated,
// and which layers may run. Pure: events in, actions out; no thread, clock, memory of parameters, or loop. Whoever drives it owns
// it.
//
// The units of the job's plan (scheduling/unit_plan.h) are the buckets. A round belongs to an iteration and takes each unit through
//
//   reduce      the gradients of all workers become one sum, on the root or everywhere (loop_options.h)
//   update      on the ranks that have the sum; not before backward is over, because it may still read the parameters
//   broadcast   of the new weights, where the loop says so
//
// All ranks begin the same operations in the same order, whatever the order in which gradients are finished or sums arrive: with
// overlap the reduces from the last unit to the first, as each is ready and all before it have begun; without overlap in forward
// order when backward is over. Then the broadcasts in forward order. A round's operations are all over before the next round
// begins.
//
// With clipping or skipping (JobPlan::holds_updates) no unit is updated before the sums of all units have been looked at.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collectives/training/loop_options.h"
#include "paramserver/core/job_plan.h"
#include "paramserver/core/worker_core.h"

namespace paceline::collectives {

class LoopCore {
 public:
  struct Action {
    enum class Kind : std::uint8_t {
      kReduce,     // begin the unit's reduce or allreduce
      kInspect,    // holds_updates: look at the unit's sum, then on_inspected()
      kUpdate,     // update the unit's parameters with its sum, then on_updated
      kBroadcast,  // begin the broadcast of the unit's parameters
    };
    Kind kind = Kind::kReduce;
    std::uint32_t unit = 0;
    bool operator==(const Action&) const = default;
  };
  using Actions = std::vector<Action>;

  LoopCore(std::shared_ptr<const paramserver::JobPlan> plan, Rank self, TrainingOptions options);

  // The round before the first iteration: rank 0's parameters go to all.
  void on_start(TimePoint now, Actions& actions);

  // The gradient of `tensor` of the current iteration is final; `complete` gets the units that it was the last one of, whose
  // gradients are then staged (on_staged). kBadRequest: no such tensor, or twice. Requires takes_gradients().
  Status on_gradient_ready(std::uint32_t tensor, std::vector<std::uint32_t>& complete);
  // Backward of `iteration` is over; `unused` are the tensors without a gradient, `complete` as above. Requires takes_gradients()
  // and all_open(iteration). kBadRequest, naming tensor or iteration, and nothing changes: not the current iteration, a tensor that
  // is neither ready nor unused, or both. After it the units are staged and on_free follows.
  Status on_backward_done(Iteration iteration, std::span<const std::uint32_t> unused, std::vector<std::uint32_t>& complete);
  // The units' gradients stand where they are reduced.
  void on_staged(std::span<const std::uint32_t> units, TimePoint now, Actions& actions);
  // Everything is staged and nobody reads the parameters: the iteration counts on.
  void on_free(TimePoint now, Actions& actions);

  void on_reduced(std::uint32_t unit, TimePoint now, Actions& actions);
  enum class Inspection { kMore, kAll };  // kAll: the updates begin
  Inspection on_inspected(Actions& actions);
  void on_updated(std::uint32_t unit, TimePoint now, Actions& actions);
  void on_broadcast_begins(std::uint32_t unit, TimePoint now);  // the first bytes of it have come
  void on_broadcast(std::uint32_t unit, TimePoint now, Actions& actions);

  // Which parts of the unit had no gradient on this rank in the iteration whose round it is (bits).
  std::uint32_t unused_parts(std::uint32_t unit) const { return units_[unit].unused_parts; }
  // Who the round's broadcast comes from.
  Rank broadcast_root() const { return starting_ ? Rank{0} : root_; }
  bool updates_here() const { return updates_here_; }
  // Whether this rank has updated every unit in the round.
  bool all_updated() const;

  // The iteration whose gradients are awaited; on_free counts it on.
  Iteration current() const { return current_; }
  // Of the round that is under way, or the last one.
  Iteration round() const { return round_; }
  // Whether the round of the current iteration is under way or may begin: all operations of the one before are over.
  bool takes_gradients() const { return round_ == current_ || (open_operations_ == 0 && missing_ == 0); }
  // Whether forward of `layer` in `iteration` <= current() may run; without overlap: when all layers may.
  bool layer_open(Layer layer, Iteration iteration) const;
  bool all_open(Iteration iteration) const { return iteration < current_ || (iteration == current_ && missing_ == 0); }
  // When the last unit that the open gate of `layer` waited for was complete.
  TimePoint opened_at(Layer layer) const;
  // For messages: a unit that the gate of `layer` (of nothing: of all) waits for, and what is not over of it; or, when nothing is
  // missing, one with an operation under way.
  std::string describe_missing(std::optional<Layer> layer) const;

  // The training thread stood at the gate of `layer` (nothing: of all) from `entered` to `opened`.
  void account_gate(std::optional<Layer> layer, Iteration iteration, TimePoint entered, TimePoint opened);
  void account_bytes(std::int64_t sent, std::int64_t received);
  // Everything since the last call. push: gradients on their way to the sum. pull: broadcasts. wait: for a broadcast to begin.
  paramserver::Account take_account(TimePoint now);

 private:
  struct BusyTime {
    std::int64_t running = 0;
    TimePoint since{};
    Duration total{};
    void begin(TimePoint now);
    void end(TimePoint now);
    Duration take(TimePoint now);
  };
  struct Unit {
    std::uint32_t awaited_parts = 0;  // whose gradients are not ready in the current iteration
    std::uint32_t unused_parts = 0;   // bits
    bool staged = false, reduced = false, updated = false;
    bool complete = true;  // holds the round's value
    TimePoint reduced_at{}, updated_at{}, broadcast_began_at{}, complete_at{};
  };
  enum class TensorState : std::uint8_t { kAwaited, kReady, kUnused };

  scheduling::UnitRange units_of(std::optional<Layer> layer) const;
  Status check_backward(Iteration iteration, std::span<const std::uint32_t> unused) const;
  void settle(std::uint32_t tensor, TensorState state, std::vector<std::uint32_t>& complete);
  void begin_reduce(std::uint32_t unit, TimePoint now, Actions& actions);
  void begin_broadcasts(TimePoint now, Actions& actions);
  void after_sum(std::uint32_t unit, Actions& actions);
  void complete(std::uint32_t unit, TimePoint now);
  std::uint32_t count() const { return static_cast<std::uint32_t>(units_.size()); }

  std::shared_ptr<const paramserver::JobPlan> plan_;
  Rank self_, root_;
  TrainingOptions options_;
  bool updates_here_;
  bool starting_ = false;    // the round before the first iteration
  bool broadcasts_ = false;  // this round
  bool free_ = true;         // nobody reads the parameters
  Iteration current_, round_;
  std::vector<Unit> units_;
  std::vector<TensorState> tensors_;
  std::uint32_t reduces_begun_ = 0, broadcasts_begun_ = 0;  // in this round
  std::uint32_t inspected_ = 0;
  std::int64_t open_operations_ = 0;      // reduces and broadcasts that have begun, of this rank
  std::vector<std::int64_t> missing_in_;  // by layer: units that are not complete
  std::int64_t missing_ = 0;              // of all
  BusyTime reducing_, broadcasting_;
  paramserver::Account account_;
};

}  // namespace paceline::collectives

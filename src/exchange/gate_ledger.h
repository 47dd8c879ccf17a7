// Which gradients of an iteration are there, and which layers may run. One for each worker, however its gradients travel: by
// servers (push_ledger.h) or by collectives (collectives/training/round_ledger.h). Pure: no thread, clock or memory of tensors;
// whoever drives it owns it.
//
// One iteration i. The training side tells each tensor's gradient in any order, and at the end of backward the tensors that have
// none; each call answers which units are complete by it. Then next_iteration() counts on. Whoever carries the units away and
// values back tells when a unit's value is there; when a layer has all it waits for, its forward of iteration i + 1 may run.
//
// O(1) but where something else is said.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/quantity.h"
#include "base/status.h"
#include "job/plan.h"

namespace paceline::exchange {

class GateLedger {
 public:
  enum class Rule : std::uint8_t { kOwnUnits, kEverything };  // what a layer's forward waits for
  // A unit of which all gradients are known, and the parts that have none (bits).
  struct Complete {
    std::uint32_t unit = 0, unused_parts = 0;
    bool operator==(const Complete&) const = default;
  };

  // Of a tensor's units those from the first one on server `self` % servers on come first, so that not all workers push to the same
  // one at once (P3, section 4).
  GateLedger(std::shared_ptr<const job::Plan> plan, Rank self, Rule rule);

  // --- gradients ---

  // For those who copy a gradient before they tell it: it comes now, and no other thread's of the same tensor. kBadRequest: as
  // on_gradient(), or nobody has waited for the values of its layer in this iteration (on_waited); the initial ones count as waited
  // for.
  Status begin_gradient(std::uint32_t tensor);
  // It does not come after all, and may come again.
  void withdraw_gradient(std::uint32_t tensor);
  // The gradient of `tensor` of the current iteration is final; `complete` gets the units that it was the last one of. Their
  // gradients are read until on_free. kBadRequest: no such tensor, a frozen one, or twice. O(units of the tensor)
  Status on_gradient(std::uint32_t tensor, std::vector<Complete>& complete);
  // Backward of `iteration` is over; `unused` are the tensors without a gradient; `complete` as above. kBadRequest, naming tensor
  // or iteration, and nothing changes: not the current iteration, gates still closed, a tensor that is neither ready nor unused, or
  // both. Tensors without elements and frozen ones may be left out. O(tensors)
  Status on_backward_done(Iteration iteration, std::span<const std::uint32_t> unused, std::vector<Complete>& complete);
  // Whether on_backward_done would find each tensor ready or unused once those of `held_back` are ready too. Errors: as there.
  Status check_backward(Iteration iteration, std::span<const std::uint32_t> unused, std::span<const std::uint32_t> held_back);
  // Worker `who` computes nothing after `last`. Where all workers go in step (not job::Plan::uneven()) nobody can go on alone, so
  // with something of a later iteration told check_together() is kBadRequest, naming both.
  void on_worker_done(Rank who, Iteration last);
  Status check_together() const;
  // Gradients of the next iteration may come. Requires all_open(current()). O(units)
  void next_iteration();
  // Nobody reads the unit's gradient any more. Requires that it has one, and was complete.
  void on_free(std::uint32_t unit);

  // The iteration whose gradients are awaited.
  Iteration current() const { return current_; }
  // Whether something of it has been told; whether something is told or comes.
  bool begun() const { return settled_ > 0; }
  bool in_backward() const { return begun() || coming_ > 0; }
  // Whether the layer's gradients (all gradients) may be overwritten.
  bool free(Layer layer) const { return undelivered_[static_cast<std::size_t>(layer.index)] == 0; }
  bool free() const { return undelivered_total_ == 0; }
  // Whether this tensor's may; others of its layer may be on their way. O(units of the tensor)
  bool free_of(std::uint32_t tensor) const;
  // A unit whose gradient is still being read. O(units)
  std::optional<std::uint32_t> undelivered() const;

  // --- gates ---

  // The unit's value of one iteration more is there, first the initial one.
  void on_value(std::uint32_t unit);
  // Somebody has waited for the values of `layer` (of all layers) that the current iteration is computed with.
  void on_waited(std::optional<Layer> layer);

  // Whether forward of `layer` in `iteration` <= current() may run; of all layers.
  bool open(Layer layer, Iteration iteration) const;
  bool all_open(Iteration iteration) const { return iteration < current_ || (iteration == current_ && missing_ == 0); }
  // The newest iteration whose value of the unit is there.
  Iteration held(std::uint32_t unit) const { return units_[unit].held; }
  // The units whose values the gate of `layer` (of nothing: of all layers) waits for.
  scheduling::UnitRange awaited(std::optional<Layer> layer) const;
  // One of them whose value of iteration current() - 1 has not come, for messages. O(units)
  std::optional<std::uint32_t> missing(std::optional<Layer> layer) const;

  const job::Plan& plan() const { return *plan_; }

 private:
  // A simulation has one for each unit of each of thousands of workers.
  struct UnitState {
    Iteration held = -1;
    std::uint32_t unused_parts = 0;  // bits, in the current iteration
    std::uint16_t borrowed = 0;      // messages that read its gradient
    std::uint8_t awaited_parts = 0;  // whose gradients are not known in the current iteration
  };
  enum class TensorState : std::uint8_t {
    kAwaited,
    kComing,
    kReady,
    kUnused,
    kFrozen,
    kNamed
  };  // kNamed: only while unused tensors are checked

  struct Done {
    Rank worker;
    Iteration last = 0;
  };

  Status check_gradient(std::uint32_t tensor) const;
  Status came_twice(std::uint32_t tensor) const;
  Status check_iteration_of(Iteration iteration) const;
  Status check_unused(Iteration iteration, std::span<const std::uint32_t> unused);
  Status check_all_known(Iteration iteration) const;
  void settle(std::uint32_t tensor, TensorState state, std::vector<Complete>& complete);
  void settle_unit(std::uint32_t tensor, std::uint32_t unit, bool used, std::vector<Complete>& complete);
  void count(const scheduling::Unit& unit, std::vector<std::int64_t>& by_layer, std::int64_t change) const;
  void begin_iteration();

  std::shared_ptr<const job::Plan> plan_;
  Rank self_;
  Rule rule_;
  Iteration current_;
  std::size_t settled_ = 0;   // tensors, in the current iteration
  std::size_t coming_ = 0;    // likewise
  std::optional<Done> done_;  // the first worker that computes no more
  std::vector<UnitState> units_;
  std::vector<TensorState> tensors_;
  std::vector<Iteration> waited_;          // by layer: the last iteration whose values somebody has waited for
  std::vector<std::int64_t> missing_in_;   // by layer: units without a value of iteration current - 1
  std::int64_t missing_ = 0;               // the same of all layers
  std::vector<std::int64_t> undelivered_;  // by layer: units whose gradients are being read
  std::int64_t undelivered_total_ = 0;
};

}  // namespace paceline::exchange

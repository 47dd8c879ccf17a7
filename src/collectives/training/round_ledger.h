// One worker's side of training without servers: which collective operation of which unit begins when, and when a unit may be
// updated. Steps the gate ledger of the same worker (exchange/gate_ledger.h), which says what is complete and which layers
// may run. Pure: events in, actions out; no thread, clock, memory of parameters, or loop. Whoever drives it owns it.
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
// With clipping or skipping (job::Plan::holds_updates) no unit is updated before the sums of all units have been looked at.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectives/training/loop_options.h"
#include "exchange/gate_ledger.h"
#include "wire/event.h"

namespace paceline::collectives {

// What a layer's forward waits for in the loop.
inline exchange::GateLedger::Rule gate_rule(const TrainingOptions& options) {
  using Rule = exchange::GateLedger::Rule;
  return overlaps(options.loop) ? Rule::kOwnUnits : Rule::kEverything;
}

class RoundLedger {
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

  // `gates` is the worker's, made with gate_rule(options), outlives it, and belongs to the same owner. `events` hears of the
  // stations of each unit's way, and outlives it too; null: nobody does.
  RoundLedger(exchange::GateLedger& gates, Rank self, TrainingOptions options, wire::EventSink* events = nullptr);

  // The round before the first iteration: rank 0's parameters go to all.
  void on_start(TimePoint now, Actions& actions);

  // The unit's gradient stands where it is reduced, so that its own place is free. The first one of an iteration begins its round;
  // takes_gradients() held when it was told.
  void on_staged(const exchange::GateLedger::Complete& complete, TimePoint now, Actions& actions);
  // Everything is staged, and nobody reads the parameters.
  void on_free(TimePoint now, Actions& actions);

  void on_reduced(std::uint32_t unit, TimePoint now, Actions& actions);
  enum class Inspection { kMore, kAll };  // kAll: the updates begin
  Inspection on_inspected(Actions& actions);
  void on_updated(std::uint32_t unit, TimePoint now, Actions& actions);
  void on_broadcast_begins(std::uint32_t unit, TimePoint now);  // the first bytes of it have come
  void on_broadcast(std::uint32_t unit, TimePoint now);

  // Whether the round of the gate ledger's iteration is under way or may begin: all operations of the one before are over.
  bool takes_gradients() const { return gates_.begun() || (gates_.all_open(gates_.current()) && open_operations_ == 0); }
  // Who the round's broadcast comes from.
  Rank broadcast_root() const { return starting_ ? Rank{0} : root_; }
  bool updates_here() const { return updates_here_; }
  // Whether this rank has updated every unit in the round.
  bool all_updated() const { return !starting_ && updated_ == count(); }
  // The iteration of the round that is under way, or of the last one.
  Iteration round() const { return round_; }
  // For messages: what is not over of `unit`; of nothing: of the round.
  std::string describe(std::optional<std::uint32_t> unit) const;

 private:
  struct Unit {
    bool staged = false, reduced = false, updated = false, returning = false;
  };

  void begin_round();
  void begin_reduce(std::uint32_t unit, TimePoint now, Actions& actions);
  void begin_broadcasts(TimePoint now, Actions& actions);
  void after_sum(std::uint32_t unit, Actions& actions);
  void complete(std::uint32_t unit, TimePoint now);
  void tell(wire::Happening what, std::uint32_t unit, TimePoint now) const;
  // Of the round; frozen ones take part in the first alone.
  std::uint32_t count() const { return starting_ ? static_cast<std::uint32_t>(units_.size()) : plan().units().moving; }
  const job::Plan& plan() const { return gates_.plan(); }

  exchange::GateLedger& gates_;
  wire::EventSink* events_;
  Rank self_, root_;
  TrainingOptions options_;
  bool updates_here_;
  bool starting_ = false;    // the round before the first iteration
  bool broadcasts_ = false;  // this round
  bool free_ = true;         // nobody reads the parameters
  Iteration round_;
  std::vector<Unit> units_;
  std::uint32_t reduces_begun_ = 0, broadcasts_begun_ = 0, inspected_ = 0, updated_ = 0;  // units, in this round
  std::int64_t open_operations_ = 0;  // reduces and broadcasts that have begun, of this rank
};

}  // namespace paceline::collectives

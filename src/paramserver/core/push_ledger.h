// What one worker of a job with servers pushes and asks for and when, and which values it takes. Steps the gate ledger of the same
// worker (gate_ledger.h), which says what is complete. Pure: events and messages in (wire/messages.h), messages out; no thread,
// clock, memory of parameters, or loop. Whoever drives it owns it.
//
// One iteration i. The units that the gate ledger calls complete come in (on_complete), then the end of backward
// (on_backward_done). The ledger answers with pushes and pulls as the schedule says. Values labelled i come back; when a layer has
// all of them, its forward of iteration i + 1 may run.
//
// Two rules keep the protocol simple for servers. No unit of iteration i is pushed before all values labelled i - 1 have come (a
// gate has waited for them anyway, except for layers that this forward did not use); and a value is accepted only for a unit whose
// push it answers.
//
// Where a value is received: straight into the parameters once backward of its iteration is over (nobody reads them until the gate
// opens); before that into a staging area, because backward may still read the parameters. What was staged is copied when the gate
// opens.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/quantity.h"
#include "base/status.h"
#include "exchange/gate_ledger.h"
#include "paramserver/core/send.h"
#include "scheduling/batching.h"
#include "wire/event.h"

namespace paceline::paramserver {

// What a layer's forward waits for with the schedule.
inline exchange::GateLedger::Rule gate_rule(const scheduling::ScheduleOptions& schedule) {
  return schedule.back == scheduling::Return::kPullAtOnce ? exchange::GateLedger::Rule::kEverything
                                                          : exchange::GateLedger::Rule::kOwnUnits;
}

// One value like several.
inline wire::Values as_values(const wire::Value& value) { return {value.unit, value.unit, value.iteration}; }
inline wire::Values as_values(const wire::Values& values) { return values; }

class PushLedger {
 public:
  // `gates` is the worker's, outlives it, and belongs to the same owner. `events` hears of the stations of each unit's way, and
  // outlives it too; null: nobody does.
  PushLedger(exchange::GateLedger& gates, Rank worker, wire::EventSink* events = nullptr);

  // Rank 0 has the initial values; all others wait for them. Before anything else.
  void on_initial_received(std::uint32_t unit);  // rank 0: the server has it

  // GateLedger has called these units complete in the current iteration.
  void on_complete(std::span<const exchange::GateLedger::Complete> units, TimePoint now, std::vector<Send>& sends);
  // Backward of iteration current() is over, and all of its units have been told; it counts on.
  void on_backward_done(TimePoint now, std::vector<Send>& sends);

  // Plan::uneven(): this worker computes no more. The values that every worker's pushes have gone into are awaited as if a push
  // of iteration current() were to be answered; current() counts on. The gate ledger counts on by itself.
  void on_finished();

  enum class Place : std::uint8_t { kParameters, kStaging };
  // Values begin to come, and are complete. kBadRequest: not these units' server, a wrong size, or not awaited.
  Result<Place> on_begin(Rank server, const wire::Value& value, std::uint64_t bytes, TimePoint now) {
    return on_begin(server, as_values(value), bytes, now);
  }
  Result<Place> on_begin(Rank server, const wire::Values& values, std::uint64_t bytes, TimePoint now);
  Status on(Rank server, const wire::Value& value, TimePoint now, std::vector<Send>& sends) {
    return on_values(server, as_values(value), value.update_micros, now, sends);
  }
  Status on(Rank server, const wire::Values& values, TimePoint now, std::vector<Send>& sends) {
    return on_values(server, values, 0, now, sends);
  }
  // The units that Values mean.
  std::span<const std::uint32_t> units_of(const wire::Values& values) const;

  // Return::kNotifyAndPull. kBadRequest: it was not due.
  Status on(Rank server, const wire::Notify& notify, TimePoint, std::vector<Send>& sends);

  // Return::kPullInBatches: which layers' values are asked for together, when all their gradients are pushed (with kAtEnd: when the
  // servers have all gradients of the iteration): from the current
  // iteration on, of which no gradient may have been told. Until then every layer for itself, as kPullByLayer always has it;
  // kPullAtOnce has one batch of all layers.
  void set_batches(const scheduling::Bounds& bounds);
  // PushWhen::kInBatches: what is pushed together, likewise.
  void set_push_batches(const scheduling::Bounds& bounds);

  // The server has received the push of `unit` (of one with a gradient), or the batch that begins with it. Returns its units.
  // `sends`: the requests that waited for it.
  std::span<const std::uint32_t> on_push_delivered(std::uint32_t unit, TimePoint now, std::vector<Send>& sends);

  // The iteration that is pushed.
  Iteration current() const { return current_; }
  // Whether a layer that the values belong to may run.
  bool any_open(const wire::Values& values) const;

  // A unit of `units` whose value stands complete in the staging area, marked as taken; the caller copies it. None: nothing left.
  std::optional<std::uint32_t> take_staged(scheduling::UnitRange units);

  const job::Plan& plan() const { return gates_.plan(); }
  Rank rank() const { return worker_; }

 private:
  // A simulation has one for each unit of each of thousands of workers.
  struct UnitState {
    Iteration pushed = -1;           // newest push sent
    Iteration arriving = -1;         // label that is coming; -1: none
    std::uint32_t unused_parts = 0;  // bits, of the newest push
    std::uint32_t push_last = 0;     // last unit of the message that its newest push is the first of
    bool notified = false;           // of the update that its newest push went into
    bool staging = false;            // where `arriving` goes
    bool staged = false;             // the newest value waits in the staging area
  };

  void flush(TimePoint now, std::vector<Send>& sends);
  void push(std::uint32_t unit, TimePoint now, std::vector<Send>& sends);
  void push_batch(std::size_t batch, TimePoint now, std::vector<Send>& sends);
  void push_run(std::span<const std::uint32_t> units, TimePoint now, std::vector<Send>& sends);
  void begin_push(std::uint32_t unit, TimePoint now);
  void count_pushed(std::uint32_t unit, std::vector<Send>& sends);
  bool asks_after_pushes() const;
  void ask_if_delivered(std::vector<Send>& sends);
  void begin_batches();
  void check_batches_may_change() const;
  void begin_iteration();
  void tell(TimePoint now, const wire::Event& event) const;
  scheduling::UnitRange begun_in(std::size_t layer) const;
  void settle(const exchange::GateLedger::Complete& complete, TimePoint now, std::vector<Send>& sends);
  Status check_value(Rank server, std::uint32_t unit) const;
  Status check_values(Rank server, const wire::Values& values) const;
  Status on_values(Rank server, const wire::Values& values, std::uint32_t micros, TimePoint now, std::vector<Send>& sends);
  Send to_home(std::uint32_t unit, const wire::Message& message) const {
    return {.to = plan_.units().units[unit].server, .message = message};
  }

  exchange::GateLedger& gates_;
  wire::EventSink* events_;
  const job::Plan& plan_;
  Rank worker_;
  Iteration current_;
  std::vector<UnitState> units_;
  std::vector<exchange::GateLedger::Complete>
      waiting_;                          // of the current iteration, not pushed yet, in the order in which they were complete
  std::size_t settled_ = 0;              // units of it that were
  std::vector<std::int64_t> to_push_;    // by layer: units begun in it and not pushed in the current iteration
  std::vector<std::int64_t> to_notify_;  // by layer: units begun in it and not notified since the last pull of it
  struct PullBatch {
    std::vector<wire::Pull> requests;  // without the iteration
    int layers = 0, awaited = 0;       // in which units begin; of them not pushed in the current iteration
  };
  std::vector<PullBatch> pull_batches_;      // where values are pulled; kNotifyAndPull has none
  std::vector<std::size_t> batch_of_layer_;  // likewise
  std::vector<wire::Pull> held_;             // requests that wait until the servers have all gradients
  struct PushBatch {
    std::vector<std::vector<std::uint32_t>> of_server;  // its units, ascending
    std::size_t awaited = 0;                            // units without all their gradients, in the current iteration
  };
  std::vector<PushBatch> push_batches_;     // kInBatches
  std::vector<std::size_t> batch_of_unit_;  // kInBatches
};

}  // namespace paceline::paramserver

// One worker's side of a parameter server: what it pushes and asks for and when, which values have come, and which layers may run.
// Pure: events in, actions out; no thread, clock, memory of parameters, or loop. Whoever drives it owns it.
//
// One iteration i. The training side tells each tensor's gradient (on_gradient_ready, any order: priority comes from the layer) and
// at the end of backward the tensors that have none (on_backward_done). The core answers with pushes and pulls as the schedule
// says. Values labelled i come back; when a layer has all of them, its forward of iteration i + 1 may run (layer_open).
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
#include "paramserver/core/job_plan.h"
#include "scheduling/batching.h"

namespace paceline::paramserver {

struct WorkerAction {
  enum class Kind : std::uint8_t {
    kPush,       // the gradient of `unit`, or that it has none in this iteration, when `detail` names all parts
    kPushBatch,  // the gradients of the units from `unit` to `detail` that live on the server of `unit`, all parts of all of them
    kPull,       // ask for the values labelled `iteration` of the units from `unit` to `detail` that live on the server of `unit`
  };
  Kind kind = Kind::kPush;
  std::uint32_t unit = 0;
  Iteration iteration = 0;
  std::uint32_t detail = 0;  // as in wire::MessageHead
};

// Where the training thread's time went at gates, and what was hidden; seconds since the last account. Exposed parts add up to the
// time that the gates took. At a gate, of the unit that came last: until its own push was received = push; from then until its
// value began to come = wait, of which at most the server's own time for the unit = update; from then on = pull.
struct Account {
  Duration push{}, pull{}, wait{}, update{};
  Duration overlapped_push{}, overlapped_pull{};  // time with at least one push (pull) on its way, less the exposed part
  // Payload. With WireOptions::drops() whoever sends the pushes counts them.
  std::int64_t bytes_pushed = 0, bytes_pulled = 0;

  Account& operator+=(const Account& other);
};

class WorkerCore {
 public:
  WorkerCore(std::shared_ptr<const JobPlan> plan, Rank worker);

  // Rank 0 has the initial values; all others wait for them. Before anything else.
  void on_initial_received(std::uint32_t unit);  // rank 0: the server has it

  // The gradient of `tensor` of the current iteration is final. kBadRequest: no such tensor, or twice.
  Status on_gradient_ready(std::uint32_t tensor, TimePoint now, std::vector<WorkerAction>& actions);
  // Backward of `iteration` is over; `unused` are the tensors without a gradient. Requires all_open(iteration). kBadRequest, naming
  // tensor or iteration, and nothing changes: not the current iteration, gates still closed, a tensor that is neither ready nor
  // unused, or both. Tensors without elements may be left out.
  Status on_backward_done(Iteration iteration, std::span<const std::uint32_t> unused, TimePoint now,
                          std::vector<WorkerAction>& actions);

  // JobPlan::uneven(): this worker computes no more. The values that every worker's pushes have gone into are awaited as if a push
  // of iteration current() were to be answered; current() counts on. Requires all_open(current()).
  void on_finished();

  enum class Place : std::uint8_t { kParameters, kStaging };
  // What comes as one message: the values of the units from `unit` to `last` that live on the sender.
  struct Values {
    std::uint32_t unit = 0, last = 0;
    Iteration label = 0;
  };
  // Values begin to come, and are complete. kBadRequest: not these units' server, a wrong size, or not awaited.
  Result<Place> on_value_begin(Rank server, const Values& values, std::uint64_t bytes, TimePoint now);
  Status on_value(Rank server, const Values& values, std::uint32_t micros, TimePoint now, std::vector<WorkerAction>& actions);
  // The units that Values mean.
  std::span<const std::uint32_t> units_of(const Values& values) const;

  // The server says that `unit` has the value labelled `label` (Return::kNotifyAndPull). kBadRequest: it was not due.
  Status on_notify(Rank server, std::uint32_t unit, Iteration label, std::vector<WorkerAction>& actions);

  // Return::kPullInBatches: which layers' values are asked for together, when all their gradients are pushed: from the current
  // iteration on, of which no gradient may have been told. Until then every layer for itself, as kPullByLayer always has it;
  // kPullAtOnce has one batch of all layers.
  void set_batches(const scheduling::Bounds& bounds);
  // PushWhen::kInBatches: what is pushed together, likewise.
  void set_push_batches(const scheduling::Bounds& bounds);

  // The units from `unit` to `last` that live on the server of `unit`.
  std::span<const std::uint32_t> units_between(std::uint32_t unit, std::uint32_t last) const;

  // The server has received the push of `unit` (of one with a gradient), or the batch that begins with it. Returns its units.
  std::span<const std::uint32_t> on_push_delivered(std::uint32_t unit, TimePoint now);

  // The iteration whose gradients are awaited; backward_done counts it on.
  Iteration current() const { return current_; }
  // Whether forward of `layer` in `iteration` <= current() may run. With Return::kPullAtOnce: when all layers may.
  bool layer_open(Layer layer, Iteration iteration) const;
  // Whether a layer that the values belong to may run.
  bool any_open(const Values& values) const;
  bool all_open(Iteration iteration) const { return iteration < current_ || (iteration == current_ && missing_ == 0); }
  // Whether no push borrows the layer's gradients (all gradients) any more.
  bool gradients_free(Layer layer) const { return undelivered_[static_cast<std::size_t>(layer.index)] == 0; }
  bool gradients_free() const { return undelivered_total_ == 0; }
  // When the last value of those that the open gate of `layer` waited for was complete.
  TimePoint opened_at(Layer layer) const;
  // What a closed gate waits for, for messages: a unit whose value labelled current() - 1 has not come.
  std::optional<std::uint32_t> missing_unit(scheduling::UnitRange units) const;
  std::optional<std::uint32_t> undelivered_unit() const;

  // The units whose values the gate of `layer` (of nothing: of all layers) waits for.
  scheduling::UnitRange units_of(std::optional<Layer> layer) const;

  // A unit of `units` whose value stands complete in the staging area, marked as taken; the caller copies it. None: nothing left.
  std::optional<std::uint32_t> take_staged(scheduling::UnitRange units);

  // The training thread stood at the gate of `layer` (nothing: of all layers) of `iteration` from `entered` to `opened`.
  void account_gate(std::optional<Layer> layer, Iteration iteration, TimePoint entered, TimePoint opened);
  // Everything since the last call.
  Account take_account(TimePoint now);

  const JobPlan& plan() const { return *plan_; }
  Rank rank() const { return worker_; }

 private:
  // Time during which at least one of something was under way.
  struct BusyTime {
    std::int64_t running = 0;
    TimePoint since{};
    Duration total{};
    void begin(TimePoint now);
    void end(TimePoint now);
    Duration take(TimePoint now);
  };
  struct UnitState {
    std::uint32_t awaited_parts = 0;  // whose gradients are not ready in the current iteration
    std::uint32_t unused_parts = 0;   // bits, in the current iteration
    Iteration notified = -1;          // label of the newest notification
    Iteration arrived = -1;           // label of the newest complete value
    Iteration arriving = -1;          // label that is coming; -1: none
    Iteration pushed = -1;            // newest push sent
    std::uint32_t micros = 0;
    std::uint32_t push_last = 0;  // last unit of the message that its newest push is the first of
    bool staging = false;         // where `arriving` goes
    bool staged = false;          // the newest value waits in the staging area
    bool borrowed = false;        // the push has not been delivered
    TimePoint push_delivered{}, value_began{}, value_complete{};
  };
  enum class TensorState : std::uint8_t { kAwaited, kReady, kUnused };

  Status check_backward(Iteration iteration, std::span<const std::uint32_t> unused) const;
  void flush(TimePoint now, std::vector<WorkerAction>& actions);
  void push(std::uint32_t unit, TimePoint now, std::vector<WorkerAction>& actions);
  void push_batch(std::size_t batch, TimePoint now, std::vector<WorkerAction>& actions);
  void push_run(std::span<const std::uint32_t> units, TimePoint now, std::vector<WorkerAction>& actions);
  void begin_push(std::uint32_t unit, TimePoint now);
  void count_pushed(std::uint32_t unit, std::vector<WorkerAction>& actions);
  void begin_batches();
  void check_batches_may_change() const;
  void begin_iteration();
  scheduling::UnitRange begun_in(std::size_t layer) const;
  void arrived(std::uint32_t unit, Iteration label);
  void settle(std::uint32_t tensor, std::uint32_t unit, TimePoint now, std::vector<WorkerAction>& actions);
  void pull(scheduling::UnitRange units, std::vector<WorkerAction>& actions) const;
  Status check_value(Rank server, std::uint32_t unit) const;
  Status check_values(Rank server, const Values& values) const;

  std::shared_ptr<const JobPlan> plan_;
  Rank worker_;
  Iteration current_;
  std::vector<UnitState> units_;
  std::vector<TensorState> tensors_;
  std::vector<std::uint32_t> waiting_;   // tensors that have not been pushed yet, in the order they became ready or unused
  std::vector<std::int64_t> to_push_;    // by layer: units begun in it and not pushed in the current iteration
  std::vector<std::int64_t> to_notify_;  // by layer: units begun in it and not notified since the last pull of it
  struct PullBatch {
    std::vector<WorkerAction> requests;  // without the iteration
    int layers = 0, awaited = 0;         // in which units begin; of them not pushed in the current iteration
  };
  std::vector<PullBatch> pull_batches_;      // where values are pulled; kNotifyAndPull has none
  std::vector<std::size_t> batch_of_layer_;  // likewise
  struct PushBatch {
    std::vector<std::vector<std::uint32_t>> of_server;  // its units, ascending
    std::size_t awaited = 0;                            // units without all their gradients, in the current iteration
  };
  std::vector<PushBatch> push_batches_;     // kInBatches
  std::vector<std::size_t> batch_of_unit_;  // kInBatches
  std::vector<std::int64_t> missing_in_;    // by layer: units without a value labelled current - 1
  std::int64_t missing_ = 0;                // the same of all layers
  std::vector<std::int64_t> undelivered_;   // by layer
  std::int64_t undelivered_total_ = 0;
  BusyTime pushing_, pulling_;
  Account account_;
};

}  // namespace paceline::paramserver

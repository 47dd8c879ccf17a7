// One server of a parameter server: the values and optimizer state of its units, what workers have pushed and not yet been applied,
// and who waits for which value. Pure: events in, actions out; no thread, clock, socket or loop. Owned by one progress loop.
//
// One push lives like this. `place_for_push` gives the memory into which the gradient is received straight from the network;
// `on_push` tells the synchronisation model; the updates it names are made at once: sum in rank order times scale, finite check,
// one optimizer step with the rate of that iteration. The new value goes out as `SendValue` actions: to all whom it is due
// (Return::kBroadcast), or to those who have asked or will ask.
//
// With clipping or NonFinitePolicy::kSkip the sums of an iteration are kept until every unit on every server has its sum; servers
// tell each other their exact square sums (SendSquareSum), and then all units are updated.
//
// A value's label (MessageHead::iteration) is the iteration that its receiver has completed with it: in BSP the number of updates
// of the unit, as all workers know it; in ASP the iteration of the push it answers; with Delivery::kAtStart the iteration before
// the start. A worker that has a label of i - 1 for a layer may start that layer's forward of iteration i.
//
// Memory. Gradients are received into pooled buffers and given back once summed. A worker pushes nothing of iteration i before it
// has all values of i - 1, so a unit never waits with more than one gradient per worker. Values are sent from where they stand. In
// BSP a value has been received by all workers before any of them pushes towards the next version; in the other models, and
// whenever an acknowledgement is late, an update that finds its value still being sent works on a copy, and the old one is given
// back when delivered. Nothing is allocated per message once the pools are warm; errors and skipped iterations make their messages.
//
// With a narrow codec (wire_options.h) gradients stay as they came until they are summed, in float32, and of each new value one
// rounded copy is made and sent to everybody; the value itself, which checkpoints hold, is never sent. With dropping the few
// elements that came are added up, whichever workers sent them.
//
// Events that do not fit (another iteration, size, unit or worker, twice the same) are refused with kBadRequest and change nothing.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "base/status.h"
#include "paramserver/core/buffer_pool.h"
#include "paramserver/core/job_plan.h"
#include "paramserver/core/pace_observer.h"
#include "sync/sync_model.h"
#include "tensor/exact_square_sum.h"
#include "tensor/sparse.h"

namespace paceline::paramserver {

struct ServerAction {
  enum class Kind : std::uint8_t {
    kSendValue,          // `payload`, the value of `unit` labelled `iteration`, to worker `to`
    kSendValues,         // `payload`, the values of this server's units from `unit` to `last`, one behind the other
    kNotify,             // that `unit` has the value labelled `iteration`, to worker `to`
    kSendSquareSum,      // `payload`, this server's part of `iteration`, to server `to`
    kIterationComplete,  // every unit has been updated (or skipped) for `iteration`, and none further: the moment to save. Before
                         // it, this event's values have not left. BSP only.
    kMiniBatch,          // mini-batch number `iteration` is for the `unit`-th iteration of worker `to`; both from 1
    kSkipped,            // `failure` says whose gradient made `iteration` change nothing
    kStop,               // the job must end because of `failure`
  };
  Kind kind = Kind::kSendValue;
  Rank to;
  std::uint32_t unit = 0, last = 0;
  Iteration iteration = 0;
  // kSendValue, kSendValues: stays as it is until on_delivered(ticket). kSendSquareSum: until the next iteration but one is
  // complete, which cannot be before it has been received.
  std::span<const std::byte> payload;
  std::uint64_t ticket = 0;
  Status failure;
};

class ServerCore {
 public:
  // `sync` was made for this server's units (JobPlan::units().of_server[server.value], in this order) and all workers from
  // options().first.
  ServerCore(std::shared_ptr<const JobPlan> plan, Rank server, std::unique_ptr<sync::SyncModel> sync);

  // Rank 0's initial value of a unit, labelled first - 1. Once per unit; it is sent on to all other workers as soon as it is there.
  Result<std::span<float>> place_for_initial(Rank worker, std::uint32_t unit, Iteration label, std::uint64_t bytes);
  Status on_initial(Rank worker, std::uint32_t unit, Iteration label, TimePoint now, std::vector<ServerAction>& actions);

  // A gradient begins to arrive: the place for its `bytes` bytes, in whole floats, valid until on_push or on_left.
  Result<std::span<float>> place_for_push(Rank worker, std::uint32_t unit, Iteration iteration, std::uint64_t bytes);
  // It is there; or, when `unused_parts` has the bits of all parts, there is none. Parts that a worker did not use in `iteration`
  // contribute zeros, whatever the gradient holds there. A part that no worker of an update used is not updated (no momentum, no
  // decay, no step), but the unit's version counts on.
  Status on_push(Rank worker, std::uint32_t unit, Iteration iteration, std::uint32_t unused_parts, TimePoint now,
                 std::vector<ServerAction>& actions);

  // The worker asks for the values labelled `label` (or later) of this server's units from `unit` to `last`: answered at once or
  // when all of them exist, by one kSendValue or kSendValues.
  Status on_pull(Rank worker, std::uint32_t unit, std::uint32_t last, Iteration label, std::vector<ServerAction>& actions);

  // Another server's part of `iteration`.
  Status on_square_sum(Rank server, Iteration iteration, std::span<const std::byte> payload, std::vector<ServerAction>& actions);

  // ElasticBSP. The pacing server (JobPlan::pacing_server) takes the question after each of its events, answers it on any thread,
  // and tells itself and all others; on the others questions stay where they are.
  std::optional<sync::BarrierQuestion> take_question() { return sync_->take_question(); }
  Status on_barrier(Rank worker, Iteration barrier, TimePoint now, std::vector<ServerAction>& actions);

  // JobPlan::uneven(): the worker has got the values of its last iteration, `last`, and computes no more. When the last worker is
  // done all get the values that every push has gone into, labelled with the iteration that the worker would have come to next.
  Status on_done(Rank worker, Iteration last, TimePoint now, std::vector<ServerAction>& actions);

  // Tells `observer` from here on; it outlives the core.
  void observe(PaceObserver& observer) { observer_ = &observer; }

  // `worker` has received the value that was sent to it with this ticket. Once per kSendValue and kSendValues; not after on_left,
  // which implies it. kSendSquareSum needs none.
  void on_delivered(Rank worker, std::uint64_t ticket);

  // The worker is lost or done. What it had pushed completely stays counted; half-received gradients are forgotten; nothing is sent
  // to it.
  Status on_left(Rank worker, TimePoint now, std::vector<ServerAction>& actions);

  // For checkpoints, on the loop that owns this object. `state` is as in tensor/optimizer.h: planes of elements() floats each.
  struct PartSnapshot {
    std::uint32_t part = 0;  // index into UnitPlan::parts
    std::span<const float> value;
    std::span<const float> state;
    Iteration version = 0;   // iterations counted
    std::int64_t steps = 0;  // updates made
  };
  PartSnapshot export_part(std::uint32_t part) const;
  // Before the first push. Sizes must fit; version must be first - 1; 0 <= steps.
  Status import_part(const PartSnapshot& snapshot);

  struct Counters {
    std::int64_t gradient_bytes = 0,
                 gradient_bytes_high = 0;  // received gradients and held sums: now, and the most there ever were
    std::int64_t value_copies = 0;         // updates that found their value still being sent
    std::int64_t updates = 0, skipped_units = 0;
  };
  const Counters& counters() const { return counters_; }
  const sync::SyncModel& sync() const { return *sync_; }
  const JobPlan& plan() const { return *plan_; }
  Rank rank() const { return server_; }
  bool paces() const { return server_ == plan_->pacing_server(); }

 private:
  static constexpr std::uint32_t kNoBuffer = BufferPool::kNone;
  static constexpr Iteration kNone = -1;
  static constexpr std::uint32_t kNoBatch = ~std::uint32_t{0};

  // What is between one worker and one unit.
  struct Slot {
    Iteration pushed = 0;         // latest iteration received completely
    Iteration receiving = kNone;  // iteration of the gradient that is arriving
    Iteration answered = kNone;   // latest label sent
    Iteration due = kNone;        // latest label there is for this worker
    Iteration asked = kNone;      // label it has asked for and not got
    std::uint32_t gradient = kNoBuffer;
    std::size_t gradient_bytes = 0;
    std::uint32_t kept = kNoBuffer;  // the value of a barrier, which the worker has not asked for yet
    std::uint32_t unused_parts = 0;  // bits
    std::uint32_t batch = kNoBatch;  // index into batches_ of what it has asked for together with others
  };
  struct PartState {
    std::int64_t steps = 0;
    std::vector<float> state;  // planes of the part's elements each
  };
  struct UnitState {
    std::uint32_t value = kNoBuffer;
    std::uint32_t narrow = kNoBuffer;  // the value as it is sent with a narrow codec; none before somebody wants it
    std::uint32_t sum = kNoBuffer;     // kept until the iteration is released; none when no worker used the unit
    std::uint32_t used_parts = 0;      // bits: whose sum is there
    bool receiving_initial = false;
    bool initialised = false;
    Iteration version = 0;
    std::int64_t pushes = 0;  // applied
    std::vector<PartState> parts;
  };
  struct Batch {  // a pull of several units that waits for some of them
    std::uint32_t unit = 0, last = 0;
    std::size_t missing = 0;  // 0: this place is free
  };
  struct SquarePart {
    Iteration iteration = kNone;
    tensor::ExactSquareSum sum;
  };

  Status check(Rank worker, std::uint32_t unit) const;
  Status check_initial(Rank worker, std::uint32_t unit, Iteration label) const;
  Status check_push(Rank worker, std::uint32_t unit, Iteration iteration) const;
  Status finish_push(Rank worker, std::uint32_t unit, Iteration iteration, TimePoint now, std::vector<ServerAction>& actions);
  void apply(const sync::Update& update, std::vector<ServerAction>& actions);
  bool gather_sources(std::uint32_t part, const sync::Update& update);
  std::optional<Status> non_finite(std::uint32_t part, const sync::Update& update, std::span<const float> sum) const;
  bool apply_part(std::uint32_t part, const sync::Update& update, std::vector<ServerAction>& actions);
  void step(std::uint32_t part, Iteration iteration, std::span<const float> gradient);
  void keep_sum(std::uint32_t unit, const sync::Update& update, std::vector<ServerAction>& actions);
  bool keep_part(std::uint32_t part, const sync::Update& update, std::vector<ServerAction>& actions);
  void try_release(std::vector<ServerAction>& actions);
  void release_unit(std::uint32_t unit, Iteration iteration, float coefficient);
  void release(const tensor::ExactSquareSum& squares, std::vector<ServerAction>& actions);
  void count_version(std::uint32_t unit, Iteration iteration, std::vector<ServerAction>& actions);
  Iteration rate_iteration(std::uint32_t unit, const sync::Update& update) const;
  void begin_pace(TimePoint now, std::vector<ServerAction>& actions);
  void observe_starts(TimePoint now);
  Status count_push(Rank worker, Iteration iteration, TimePoint now, std::vector<ServerAction>& actions);
  void hand_out(Rank worker, std::vector<ServerAction>& actions);
  void start(TimePoint now, std::vector<ServerAction>& actions);
  void keep_value(std::uint32_t unit, Rank worker);
  void forget_kept(Slot& at);
  Status leave_pace(Rank worker, TimePoint now, std::vector<ServerAction>& actions);
  void send_final_values(std::vector<ServerAction>& actions);
  void offer(std::uint32_t unit, Rank worker, Iteration label, std::vector<ServerAction>& actions);
  void offer_to_all(std::uint32_t unit, Iteration label, std::vector<ServerAction>& actions);
  void send(std::uint32_t unit, Rank worker, Iteration label, std::vector<ServerAction>& actions);
  void send_batch(std::uint32_t batch, Rank worker, Iteration label, std::vector<ServerAction>& actions);
  std::uint32_t take_batch(const Batch& batch);
  void add_in_flight(Rank worker, std::uint32_t buffer);
  std::uint32_t take_buffer(std::size_t floats);  // for gradients and sums, counted
  void give_back(std::uint32_t& buffer, std::size_t floats);
  void give_back_gradient(std::uint32_t unit, Rank worker);
  std::uint32_t sent_value(std::uint32_t unit);
  std::span<const std::byte> payload_of(std::uint32_t buffer, std::size_t bytes) const;
  tensor::ConstTensorView received(const void* gradient, std::uint32_t part) const;
  tensor::SparseSource received_sparse(const Slot& at, std::uint32_t part) const;
  bool fits(std::uint32_t unit, std::uint64_t bytes) const;
  void sum_sources(std::span<float> sum, double scale) const;
  std::span<float> writable_value(std::uint32_t unit);

  // Where the part lies in its unit.
  const scheduling::Part& planned_part(std::uint32_t part) const { return plan_->units().parts[part]; }
  template <typename T>
  std::span<T> part_of(std::span<T> of_unit, std::uint32_t part) const {
    const scheduling::Part& planned = planned_part(part);
    return of_unit.subspan(static_cast<std::size_t>(planned.offset - plan_->units().units[planned.unit].offset),
                           static_cast<std::size_t>(planned.elements));
  }
  std::uint32_t bit_of(std::uint32_t part) const { return 1U << place_in_unit(part); }
  std::uint32_t place_in_unit(std::uint32_t part) const { return part - plan_->units().units[planned_part(part).unit].first_part; }
  PartState& part_state(std::uint32_t part) { return state(planned_part(part).unit).parts[place_in_unit(part)]; }
  const PartState& part_state(std::uint32_t part) const { return state(planned_part(part).unit).parts[place_in_unit(part)]; }
  std::span<const std::uint32_t> units_between(std::uint32_t unit, std::uint32_t last) const;

  const std::vector<std::uint32_t>& my_units() const { return plan_->units().of_server[static_cast<std::size_t>(server_.value)]; }
  UnitState& state(std::uint32_t unit) { return units_[plan_->units().place_in_server[unit]]; }
  const UnitState& state(std::uint32_t unit) const { return units_[plan_->units().place_in_server[unit]]; }
  std::size_t slot_index(std::uint32_t unit, Rank worker) const {
    return plan_->units().place_in_server[unit] * live_.size() + static_cast<std::size_t>(worker.value);
  }
  Slot& slot(std::uint32_t unit, Rank worker) { return slots_[slot_index(unit, worker)]; }
  const Slot& slot(std::uint32_t unit, Rank worker) const { return slots_[slot_index(unit, worker)]; }
  std::size_t elements(std::uint32_t unit) const { return static_cast<std::size_t>(plan_->units().units[unit].elements); }
  // That a received gradient takes.
  std::size_t gradient_floats(std::uint32_t unit) const { return (plan_->payload_bytes(unit) + sizeof(float) - 1) / sizeof(float); }
  std::string unit_text(std::uint32_t unit) const;
  std::string part_text(std::uint32_t part) const;
  std::string wire_text() const;

  std::shared_ptr<const JobPlan> plan_;
  Rank server_;
  std::unique_ptr<sync::SyncModel> sync_;
  std::vector<UnitState> units_;           // by place in this server
  std::vector<Slot> slots_;                // by place in this server, then worker
  std::vector<char> live_;                 // by worker
  std::vector<char> done_;                 // by worker: computes no more
  std::vector<std::size_t> pushed_units_;  // by worker: units pushed of its current iteration
  std::vector<std::uint32_t> handed_out_;  // by worker: mini-batches
  Iteration mini_batch_ = 0;               // the number that was handed out last
  std::size_t initialised_ = 0;            // units
  bool final_values_sent_ = false;
  PaceObserver* observer_ = nullptr;
  std::vector<std::vector<std::uint32_t>> in_flight_;  // by worker, then buffer: values being sent
  std::vector<Batch> batches_;
  BufferPool pool_;
  std::vector<float> sum_;                        // scratch, as long as the largest unit
  std::vector<float> zeros_;                      // what a worker that did not use a unit contributes; made when first needed
  std::vector<tensor::ConstTensorView> sources_;  // of the update in progress
  std::vector<tensor::SparseSource> sparse_;      // the same with dropping
  std::vector<sync::Update> updates_;             // of the event in progress
  std::vector<sync::Start> starts_;
  // BSP
  Iteration complete_;       // every unit has this version
  std::size_t counted_ = 0;  // units at complete_ + 1
  // kept sums
  std::vector<std::size_t> part_takers_;  // servers that have units, this one excluded
  std::size_t kept_ = 0;                  // units whose sum of iteration complete_ + 1 is there
  bool own_part_done_ = false;
  Status kept_failure_;
  tensor::ExactSquareSum own_part_;
  std::vector<std::array<SquarePart, 2>> parts_;                              // by server and parity of the iteration
  std::array<std::array<std::byte, tensor::kSquareSumBytes>, 2> sent_parts_;  // by parity
  Counters counters_;
};

}  // namespace paceline::paramserver

// What one server of a parameter server decides, in numbers: which push may come, when an update is due and of whom, to whom which
// value leaves, when a worker may start. It holds no value, gradient, thread, clock or byte; a ServerMemory does the arithmetic
// that it asks for, and whoever steps both (Server, the simulation, a test) carries out its effects. Owned by one progress loop.
//
// One push lives like this. `on_push_begin` says whether its payload may come now; `on_push` counts it. When it was the last one
// that an update waits for, `next` gives the update; whoever steps the ledger makes it and says so (`on_updated`), and the effects
// tell to whom the new value goes: to all whom it is due (Return::kBroadcast), or to those who have asked or will ask.
//
// With clipping or NonFinitePolicy::kSkip the updates of an iteration are held: first `next` gives the sums alone, unit by unit;
// servers tell each other their exact square sums (kSendSquareSum); when all are there kDecide comes, and `next` gives the steps.
//
// A value's label (MessageHead::iteration) is the iteration that its receiver has completed with it: in BSP the number of updates
// of the unit, as all workers know it; in ASP the iteration of the push it answers; with Delivery::kAtStart the iteration before
// the start. A worker that has a label of i - 1 for a layer may start that layer's forward of iteration i.
//
// Memory: a byte for each worker and unit. It suffices because a worker pushes nothing of iteration i + 1 before it has all values
// of i, so that of each worker one iteration is under way on this server, and of each unit a worker lacks at most one value that is
// due. A push is counted once, in O(1); what an update or a value costs for each worker is O(1) too. Once warm nothing is
// allocated.
//
// Events that do not fit (another iteration, size, unit or worker, twice the same) are refused with kBadRequest and change nothing.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "base/status.h"
#include "exchange/pace_observer.h"
#include "job/plan.h"
#include "sync/pace_rule.h"

namespace paceline::paramserver {

// One unit is to be updated, now.
struct Update {
  enum class Work : std::uint8_t {
    kSumAndStep,  // scale * (sum of the gradients that `workers` pushed for `iteration`, in this order), and one optimizer step
    kSum,         // only the sum: the step is decided when those of all units on all servers are there
    kStep,        // the step with a sum that was made before
  };
  Work work = Work::kSumAndStep;
  std::uint32_t unit = 0;
  Iteration iteration = 0;
  std::span<const Rank> workers;  // ascending; none for kStep. Memory of the ledger: until its next event
  double scale = 1;
  Iteration rate_iteration = 0;  // whose learning rate the step is made with
};

struct ServerEffect {
  enum class Kind : std::uint8_t {
    kSendValue,          // the value of `unit` labelled `iteration`, to worker `to`
    kSendValues,         // the values of this server's units from `unit` to `last`, one behind the other
    kNotify,             // that `unit` has the value labelled `iteration`, to worker `to`
    kKeep,               // the value of `unit` as it is now will be asked for later, whatever is pushed until then
    kForget,             // nobody will ask for the kept value of `unit` any more
    kDropGradient,       // what is coming of `unit` from worker `to` will not be complete
    kSendSquareSum,      // this server's part of `iteration`, to server `to`
    kDecide,             // all parts of `iteration` are there: whether it is skipped, and how far its gradients are clipped
    kIterationComplete,  // BSP: every unit has been updated (or skipped) for `iteration`, and none further; before values leave
    kMiniBatch,          // mini-batch number `iteration` is for the `unit`-th iteration of worker `to`; both from 1
    kSendVerdict,        // job::UpdateOptions::verdict: this server's part of `iteration`, to worker `to`
  };
  Kind kind = Kind::kSendValue;
  bool kept = false;  // kSendValue, kSendValues: the kept values
  Rank to;
  std::uint32_t unit = 0, last = 0;
  Iteration iteration = 0;
};

class ServerLedger {
 public:
  using Effects = std::vector<ServerEffect>;  // what an event adds stands behind what is there already

  // All workers of the plan take part from options().first.
  static Result<ServerLedger> make(std::shared_ptr<const job::Plan> plan, Rank server);

  // Rank 0's initial value of a unit, labelled first - 1: begins to arrive, and is there. Once per unit; it is sent on to all other
  // workers as soon as it is there.
  Status on_initial_begin(Rank worker, std::uint32_t unit, Iteration label, std::uint64_t bytes);
  Status on_initial(Rank worker, std::uint32_t unit, Iteration label, TimePoint now, Effects& effects);

  // A gradient of `bytes` bytes begins to arrive.
  Status on_push_begin(Rank worker, std::uint32_t unit, Iteration iteration, std::uint64_t bytes);
  // It is there; or, when `unused_parts` has the bits of all parts, there is none.
  Status on_push(Rank worker, std::uint32_t unit, Iteration iteration, std::uint32_t unused_parts, TimePoint now, Effects& effects);

  // The worker asks for the next value, labelled `label`, of this server's units from `unit` to `last`: answered at once or when
  // all of them exist, by one kSendValue or kSendValues.
  Status on_pull(Rank worker, std::uint32_t unit, std::uint32_t last, Iteration label, Effects& effects);

  // Another server's part of `iteration`.
  Status on_square_sum(Rank server, Iteration iteration, Effects& effects);

  // The update that is due, one after the other: each is made and told (on_updated) before the next is asked for.
  std::optional<Update> next();
  void on_updated(const Update& update, TimePoint now, Effects& effects);

  // ElasticBSP. The pacing server (job::Plan::pacing_server) takes the question after each of its events, answers it on any thread,
  // and tells itself and all others; on the others questions stay where they are.
  std::optional<sync::BarrierQuestion> take_question() { return rule_->take_question(); }
  Status on_barrier(Rank worker, Iteration barrier, TimePoint now, Effects& effects);

  // job::Plan::uneven(): the worker has got the values of its last iteration, `last`, and computes no more. When the last worker is
  // done all get the values that every push has gone into, labelled with the iteration that the worker would have come to next.
  Status on_done(Rank worker, Iteration last, TimePoint now, Effects& effects);

  // The worker is lost or done. What it had pushed completely stays counted; nothing is sent to it.
  Status on_left(Rank worker, TimePoint now, Effects& effects);
  // A worker that had left takes part again from iteration `first` on, which is not before earliest_join(), and has the values
  // labelled first - 1 or gets them as all others do. Several servers: take the largest of their answers.
  Status on_joined(Rank worker, Iteration first, TimePoint now, Effects& effects);
  Iteration earliest_join() const { return std::max(rule_->earliest_join(), newest_summed_ + 1); }

  // Tells `observer` from here on; it outlives the ledger.
  void observe(exchange::PaceObserver& observer) { observer_ = &observer; }

  Iteration version(std::uint32_t unit) const { return at(unit).version; }  // iterations counted
  bool awaits_initial(std::uint32_t unit) const { return at(unit).initial == Initial::kAwaited; }
  const job::Plan& plan() const { return *plan_; }
  const std::shared_ptr<const job::Plan>& plan_pointer() const { return plan_; }
  Rank rank() const { return server_; }
  bool paces() const { return server_ == plan_->pacing_server(); }
  std::span<const std::uint32_t> units() const { return plan_->units().moving_of(server_); }  // those that have gradients
  // This server's units from `unit` to `last`, which live on it.
  std::span<const std::uint32_t> units_between(std::uint32_t unit, std::uint32_t last) const;
  Status check(Rank worker, std::uint32_t unit) const;

 private:
  static constexpr Iteration kNone = -1;

  // What is between a worker and a unit, as bits.
  enum Flag : std::uint8_t {
    kPushed = 1,     // of the iteration that the worker is in
    kArriving = 2,   // that gradient begins to come
    kHas = 4,        // was sent the value that is due to it
    kAsked = 8,      // for the next value
    kKept = 16,      // its due value is the kept one
    kLeftPush = 32,  // has left, and a push of it waits to be summed
  };
  enum class Initial : std::uint8_t { kAwaited, kArriving, kThere };
  struct Unit {
    Iteration version = 0;
    Iteration waits = kNone;    // for the other pushes of this iteration, to be summed
    std::int32_t waiting = 0;   // workers that take part and have pushed it
    std::int32_t kept_for = 0;  // workers whose due value is the kept one
    std::int64_t pushes = 0;    // applied
    Initial initial = Initial::kAwaited;
  };
  struct Pull {  // of several units that waits for some of them
    std::uint32_t unit = 0, last = 0;
    std::size_t missing = 0;
  };
  struct Worker {
    Iteration first = 1;
    Iteration current = 1;         // the iteration whose pushes come
    Iteration started = 1;         // the last one that the pace rule let it start
    std::size_t pushed = 0;        // units of the current one
    std::uint32_t handed_out = 0;  // mini-batches
    bool live = true, done = false;
    std::vector<Pull> pulls;

    bool takes_part() const { return live && !done; }
  };
  struct Due {
    Update::Work work = Update::Work::kSumAndStep;
    std::uint32_t unit = 0;
    Iteration iteration = 0;
    std::optional<Rank> pusher = {};  // of an update with his gradient alone
  };

  ServerLedger(std::shared_ptr<const job::Plan> plan, Rank server, std::unique_ptr<sync::PaceRule> rule);

  Status check_initial(Rank worker, std::uint32_t unit, Iteration label) const;
  Status check_push(Rank worker, std::uint32_t unit, Iteration iteration) const;
  bool fits(std::uint32_t unit, std::uint64_t bytes) const;
  std::string unit_text(std::uint32_t unit) const;

  void count(Rank worker, std::uint32_t unit, Iteration iteration);
  std::int32_t awaited(Iteration iteration) const;
  void leave_sums(Rank worker);
  void all_pushed(std::uint32_t unit);
  void gather(const Due& due);
  double scale_of(const Due& due) const;
  void offer_update(const Update& update, Effects& effects);
  void count_sum(Iteration iteration, Effects& effects);
  void count_version(std::uint32_t unit, Iteration iteration, Effects& effects);
  void try_decide(Effects& effects);
  void settle(TimePoint now, Effects& effects);

  void begin_pace(TimePoint now, Effects& effects);
  void observe_starts(TimePoint now);
  void hand_out(Rank worker, Effects& effects);
  void start(TimePoint now, Effects& effects);
  void offer_at_start(const sync::Start& start, Effects& effects);
  void leave_pace(Rank worker, TimePoint now);
  void send_final_values(Effects& effects);

  Iteration pushed(std::uint32_t unit, Rank worker) const;
  Iteration due(std::uint32_t unit, Rank worker) const;
  Iteration answered(std::uint32_t unit, Rank worker) const;
  void offer(std::uint32_t unit, Rank worker, Effects& effects);
  void offer_to_all(std::uint32_t unit, Effects& effects);
  void keep(std::uint32_t unit, Rank worker, Effects& effects);
  void forget_kept(std::uint32_t unit, Rank worker, Effects& effects);
  void send(std::uint32_t unit, Rank worker, Iteration label, Effects& effects);
  void send_all(const Pull& pull, Rank worker, Iteration label, Effects& effects);

  Unit& at(std::uint32_t unit) { return units_[plan_->units().place_in_server[unit]]; }
  const Unit& at(std::uint32_t unit) const { return units_[plan_->units().place_in_server[unit]]; }
  Worker& at(Rank worker) { return workers_[static_cast<std::size_t>(worker.value)]; }
  const Worker& at(Rank worker) const { return workers_[static_cast<std::size_t>(worker.value)]; }
  std::size_t index(std::uint32_t unit, Rank worker) const {
    return plan_->units().place_in_server[unit] * workers_.size() + static_cast<std::size_t>(worker.value);
  }
  bool has(std::uint32_t unit, Rank worker, Flag flag) const { return (flags_[index(unit, worker)] & flag) != 0; }
  void set(std::uint32_t unit, Rank worker, Flag flag) { flags_[index(unit, worker)] |= flag; }
  void clear(std::uint32_t unit, Rank worker, Flag flag) { flags_[index(unit, worker)] &= static_cast<std::uint8_t>(~flag); }
  std::int32_t workers() const { return static_cast<std::int32_t>(workers_.size()); }

  std::shared_ptr<const job::Plan> plan_;
  Rank server_;
  std::unique_ptr<sync::PaceRule> rule_;
  exchange::PaceObserver* observer_ = nullptr;
  std::vector<Unit> units_;          // by place in this server
  std::vector<std::uint8_t> flags_;  // by place in this server, then worker
  std::vector<Worker> workers_;
  std::int32_t taking_part_ = 0;  // workers
  Iteration latest_first_;        // of them: the largest Worker::first
  std::size_t initialised_ = 0;   // units
  Iteration mini_batch_ = 0;      // the number that was handed out last
  Iteration newest_summed_;       // the largest iteration to be summed that some push has reached
  bool final_values_sent_ = false;
  Iteration complete_;       // BSP: every unit has this version
  std::size_t counted_ = 0;  // BSP: units at complete_ + 1
  // What is due, in order: made before anybody starts or gets his last values.
  std::vector<Due> due_;
  std::size_t made_ = 0;            // of due_
  std::vector<Rank> contributors_;  // to the update that was given last
  std::optional<Rank> began_;       // a worker whose first push of an iteration has come
  std::optional<Rank> ended_;       // a worker whose iteration's pushes are all there
  std::vector<sync::Start> starts_;
  // Held updates
  std::vector<std::size_t> part_takers_;               // servers that have units, this one excluded
  std::vector<std::array<Iteration, 2>> square_sums_;  // of other servers: whose are there, by parity of the iteration
  std::size_t summed_ = 0;                             // units whose sum of iteration complete_ + 1 is there
};

}  // namespace paceline::paramserver

// What one server of a parameter server decides, in numbers: which push may come, when an update is due and of whom, to whom which
// value leaves, when a worker may start. It holds no value, gradient, thread, clock or byte; a ServerMemory does the arithmetic
// that it asks for, and whoever steps both (Server, the simulation, a test) carries out its effects. Owned by one progress loop.
//
// Its events are messages (wire/messages.h): on_begin() says whether a message's payload may come now, on() takes it.
//
// One push lives like this. on_begin() lets it come, on() counts it. When it was the last one that an update waits for, `next`
// gives the update; whoever steps the ledger makes it and says so (`on_updated`), and the effects tell to whom the new value goes:
// to all whom it is due (Return::kBroadcast), or to those who have asked or will ask. That is decided by a ValueLedger.
//
// With clipping or NonFinitePolicy::kSkip the updates of an iteration are held: first `next` gives the sums alone, unit by unit;
// servers tell each other their exact square sums (wire::SquareSum); when all are there (HeldSums) `next` gives the steps.
//
// Memory: a byte for each worker and unit. It suffices because a worker pushes nothing of iteration i + 1 before it has all values
// of i, so that of each worker one iteration is under way on this server, and of each unit a worker lacks at most one value that is
// due. A push is counted once, in O(1); what an update or a value costs for each worker is O(1) too. Once warm nothing is
// allocated.
//
// Events that do not fit (another iteration, size, unit or worker, twice the same) are refused with kBadRequest and change nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/quantity.h"
#include "base/status.h"
#include "job/plan.h"
#include "paramserver/core/held_sums.h"
#include "paramserver/core/server_books.h"
#include "paramserver/core/server_effect.h"
#include "paramserver/core/value_ledger.h"
#include "sync/pace_rule.h"
#include "wire/event.h"

namespace paceline::paramserver {

class ServerLedger {
 public:
  using Effects = ServerEffects;  // what an event adds stands behind what is there already

  // All workers of the plan take part from options().first.
  static Result<ServerLedger> make(std::shared_ptr<const job::Plan> plan, Rank server);

  // Rank 0's initial value of a unit, labelled first - 1, with or without the optimizer's state behind it: begins to arrive, and is
  // there. Once per unit; it is sent on to all other workers as soon as it is there.
  Status on_begin(Rank worker, const wire::Initial& initial, std::uint64_t bytes);
  Status on(Rank worker, const wire::Initial& initial, TimePoint now, Effects& effects);

  // A gradient of `bytes` bytes begins to arrive.
  Status on_begin(Rank worker, const wire::Push& push, std::uint64_t bytes);
  // It is there; or, when its unused parts are all parts, there is none.
  Status on(Rank worker, const wire::Push& push, TimePoint now, Effects& effects);

  // The worker asks for the next values: answered at once or when all of them exist, by one Value or Values.
  Status on(Rank worker, const wire::Pull& pull, TimePoint, Effects& effects) { return values_.on_pull(worker, pull, effects); }

  // Another server's part.
  Status on(Rank server, const wire::SquareSum& part, TimePoint, Effects&);

  // The update that is due, one after the other: each is made and told (on_updated) before the next is asked for.
  std::optional<Update> next();
  void on_updated(const Update& update, TimePoint now, Effects& effects);

  // ElasticBSP. The pacing server (job::Plan::pacing_server) takes the question after each of its events, answers it on any thread,
  // and tells itself and all others; on the others questions stay where they are.
  std::optional<sync::BarrierQuestion> take_question() { return rule_->take_question(); }
  Status on(Rank server, const wire::Barrier& barrier, TimePoint now, Effects& effects);

  // job::Plan::uneven(): the worker has got the values of its last iteration, and computes no more. When the last worker is done
  // all get the values that every push has gone into, labelled with the iteration that the worker would have come to next.
  Status on(Rank worker, const wire::Done& done, TimePoint now, Effects& effects);

  // The worker is lost or done. What it had pushed completely stays counted; nothing is sent to it.
  Status on_left(Rank worker, TimePoint now, Effects& effects);
  // A worker that had left takes part again from iteration `first` on, which is not before earliest_join(), and has the values
  // labelled first - 1 or gets them as all others do. Several servers: take the largest of their answers.
  Status on_joined(Rank worker, Iteration first, TimePoint now, Effects& effects);
  Iteration earliest_join() const { return std::max(rule_->earliest_join(), newest_summed_ + 1); }

  // The superstep of ElasticBSP that has ended last, once. To be asked for after each event.
  std::optional<sync::Superstep> take_superstep() { return rule_->take_finished(); }

  // Tells `events`, which outlives the ledger, of kStarted and kEnded from here on.
  void observe(wire::EventSink& events) { events_ = &events; }

  const ServerBooks& books() const { return *books_; }
  bool paces() const { return books_->server() == plan().pacing_server(); }

 private:
  struct Due {
    Update::Work work = Update::Work::kSumAndStep;
    std::uint32_t unit = 0;
    Iteration iteration = 0;
    std::optional<Rank> pusher = {};  // of an update with his gradient alone
  };

  ServerLedger(std::unique_ptr<ServerBooks> books, std::unique_ptr<sync::PaceRule> rule);

  Status check(Rank worker, const wire::Initial& initial) const;
  Status check(Rank worker, const wire::Push& push) const;

  void count(Rank worker, std::uint32_t unit, Iteration iteration);
  std::int32_t awaited(Iteration iteration) const;
  void leave_sums(Rank worker);
  void all_pushed(std::uint32_t unit);
  void gather(const Due& due);
  double scale_of(const Due& due) const;
  void offer_update(const Update& update, Effects& effects);
  void count_sum(Iteration iteration, Effects& effects);
  void count_version(std::uint32_t unit, Iteration iteration, Effects& effects);
  void try_step();
  void settle(TimePoint now, Effects& effects);

  // server_ledger_pace.cc
  void begin_pace(TimePoint now, Effects& effects);
  void tell_starts(TimePoint now);
  void hand_out(Rank worker, Effects& effects);
  void start(TimePoint now, Effects& effects);
  void leave_pace(Rank worker, TimePoint now);

  const job::Plan& plan() const { return books_->plan(); }

  std::unique_ptr<ServerBooks> books_;
  std::unique_ptr<sync::PaceRule> rule_;
  ValueLedger values_;
  HeldSums sums_;
  wire::EventSink* events_ = nullptr;
  std::int32_t taking_part_ = 0;  // workers
  Iteration latest_first_;        // of them: the largest Worker::first
  std::size_t initialised_ = 0;   // units
  Iteration mini_batch_ = 0;      // the number that was handed out last
  Iteration newest_summed_;       // the largest iteration to be summed that some push has reached
  Iteration complete_;            // BSP: every unit has this version
  std::size_t counted_ = 0;       // BSP: units at complete_ + 1
  // What is due, in order: made before anybody starts or gets his last values.
  std::vector<Due> due_;
  std::size_t made_ = 0;            // of due_
  std::vector<Rank> contributors_;  // to the update that was given last
  std::optional<Rank> began_;       // a worker whose first push of an iteration has come
  std::optional<Rank> ended_;       // a worker whose iteration's pushes are all there
  std::vector<sync::Start> starts_;
};

}  // namespace paceline::paramserver

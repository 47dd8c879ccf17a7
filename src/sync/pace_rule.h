// When a worker may go on, and where its pushes are summed or applied one by one: the synchronisation model of a job, one state
// machine per server, stepped by events. Pure: no thread, clock or I/O; time is an argument. Owned by one progress loop. It counts
// no pushes: its server does (paramserver/core/server_ledger.h) and says when a worker has ended an iteration.
//
//   kind         a push is applied                      the new value goes                 a worker may start iteration i
//   bsp          with those of all live workers, mean   to all, when applied               when all live workers have ended i-1
//   asp          on arrival, full step                  to the pusher, when applied        at once
//   ssp(s)       on arrival, full step                  to a worker, with its start        when all live workers have ended i-s-1
//   elastic-bsp  on arrival, full step; the first       to a worker, with its start        up to its count of the predicted
//                `history` iterations like bsp                                             barrier; there when all are there
//
// How a server uses it:
// - all pushes of a worker's iteration i have arrived: `on_start_asked(worker, i+1)`. Each of several servers does so for its own
//   units, since a worker that every server lets start satisfies the rule as a whole.
// - ElasticBSP's barriers are predicted by *one* server: after a barrier it takes the question, answers it on any thread, gives the
//   answer to its own rule and to all others (`on_barrier`). Nobody waits for it: the first iteration after a barrier is
//   everybody's anyway.
// - with kToAll and kToPusher a worker's gates open layer by layer as values arrive, and no server needs to ask.
// - a worker leaves, dead or done: `on_left`. Nobody waits for it any more.
//
// Wrong events (unknown worker, an iteration twice or out of order) come from outside, so they are refused with kBadRequest and
// change nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/quantity.h"
#include "base/status.h"
#include "sync/sync_options.h"

namespace paceline::sync {

// `worker` may start `iteration`.
struct Start {
  Rank worker;
  Iteration iteration = 0;
  // Its values must be those of this moment, whatever is pushed before it asks for them: the starts of this event all follow one
  // barrier, and all workers hold equal weights there.
  bool at_barrier = false;
};

// What ElasticBSP's next barrier is predicted from. A value, so that any thread may answer it.
struct BarrierQuestion {
  std::vector<Rank> workers;
  std::vector<Iteration> ended;   // by each at the last barrier
  std::vector<double> intervals;  // seconds that an iteration of each takes; empty: not known yet, so one iteration each
  std::int64_t lookahead = 1;
  Objective objective = Objective::kWaitingShare;
};

// By worker of the question: the iteration at whose end the barrier is. O(workers * lookahead * log workers).
std::vector<Iteration> answer(const BarrierQuestion& question);

// A superstep of ElasticBSP that is over. Seconds count from its begin, where all its workers started.
struct Superstep {
  std::int64_t number = 0;  // from 1
  TimePoint began{};
  std::vector<Rank> workers;
  std::vector<Iteration> iterations;  // of each in this superstep
  std::vector<double> predicted;      // seconds until each is at the barrier, as they were predicted; empty: nothing was
  std::vector<double> arrived;        // and as they were
};

// To whom a unit's new value goes, and when.
enum class Delivery {
  kToAll,     // to all live workers as soon as it is applied
  kToPusher,  // to the worker whose push it was, as soon as it is applied
  kAtStart,   // all units to a worker when it may start: their latest values at that moment
};

// Why a worker does not start: it waits until every live worker in `behind` has ended its `until`.
struct Wait {
  Iteration iteration = 0;  // that the worker wants to start
  std::vector<Rank> behind;
  std::vector<Iteration> until;  // as long as `behind`
};

class PaceRule {
 public:
  virtual ~PaceRule() = default;

  virtual SyncKind kind() const = 0;
  virtual Delivery delivery() const = 0;

  // Pushes of iterations up to this one are summed over the live workers, later ones are applied on arrival, each by itself.
  virtual Iteration summed_until() const = 0;

  // `worker` has ended iteration - 1 (its pushes have all arrived) and wants to start `iteration`. Put behind what `starts` holds:
  // the worker, if it may start now, and everybody else whom this event lets start. Asking for the first iteration is legal and
  // needed. O(log workers) where nobody else starts, else O(workers). Allocates nothing but what `starts` grows by, and the
  // question at a barrier.
  virtual Status on_start_asked(Rank worker, Iteration iteration, TimePoint now, std::vector<Start>& starts) = 0;

  // `worker` takes part from iteration `first` on. Requires first >= earliest_join(). It is nobody's obstacle before that.
  virtual Status on_joined(Rank worker, Iteration first) = 0;
  // The first iteration that a new worker can take part in. Several servers: take the largest of their answers.
  virtual Iteration earliest_join() const = 0;

  // `worker` is lost, or has done its share. Who may start then is put behind what `starts` holds.
  virtual Status on_left(Rank worker, TimePoint now, std::vector<Start>& starts) = 0;

  // Whom a worker that has asked waits for; nothing when it is not waiting. For messages and `top`.
  virtual std::optional<Wait> waits_for(Rank worker) const = 0;

  // Staleness: by how many ended iterations `worker` was ahead of the slowest live worker if it began its latest started iteration
  // now (ElasticBSP counts since the last barrier). Bounds: bsp 0, ssp s, elastic-bsp R - 1. 0 for unknown workers.
  virtual std::int64_t ahead(Rank worker) const = 0;

  // ElasticBSP only; the others have no supersteps.

  // After each barrier, once: where is the next one?
  virtual std::optional<BarrierQuestion> take_question() { return {}; }
  // The answer for one worker: it runs to the end of iteration `barrier` in the first superstep that it has not been told of. An
  // answer for a worker that has left changes nothing. kBadRequest when it lies before the last barrier or more than R beyond it.
  virtual Status on_barrier(Rank worker, Iteration barrier, TimePoint now, std::vector<Start>& starts);
  // The superstep that is running, from 1; 0 where there is none.
  virtual std::int64_t superstep() const { return 0; }
  // The superstep that has ended last, once.
  virtual std::optional<Superstep> take_finished() { return {}; }
};

// What the rule starts from.
struct PaceCluster {
  std::vector<Rank> workers;  // live at the beginning, any order, none twice
  Iteration first = 1;        // their first iteration; larger after a resume
};

// kBadRequest when an option is out of range or the cluster is malformed.
Result<std::unique_ptr<PaceRule>> make_pace_rule(const SyncOptions& options, const PaceCluster& cluster);

}  // namespace paceline::sync

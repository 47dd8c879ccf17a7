// How gradients travel and new parameters come: by servers (server_carrier.h), or by collective operations between the workers
// (collectives/training/collective_carrier.h). It stands behind a GradientExchange, which owns it: the exchange keeps the gates and
// lets threads wait, the carrier steps a ledger of its own on the loop and moves bytes. Both share a Gatehouse.
//
// Threads: as a ChannelEnd and where nothing else is said, the loop. "Locked": the gatehouse's lock is held.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exchange/gatehouse.h"
#include "exchange/told_rates.h"
#include "exchange/verdict.h"
#include "scheduling/live_profile.h"
#include "session/channels.h"

namespace paceline::exchange {

// The numbers of mini-batches that were handed out to this worker and not taken, in order. Locked.
class MiniBatches {
 public:
  void add(std::int64_t number);
  std::int64_t added() const { return added_; }
  bool empty() const { return numbers_.empty(); }
  std::int64_t take();
  // Is told every number that take() will return, as soon as it is known: those that wait already inside the call.
  void read_ahead(std::function<void(std::int64_t number)> reader);

 private:
  std::deque<std::int64_t> numbers_;
  std::int64_t added_ = 0;
  std::function<void(std::int64_t)> reader_;
};

class Carrier : public session::ChannelEnd {
 public:
  // --- any thread, not locked: raise something for the loop ---

  // The initial values go from rank 0 to all. Once, before anything is told.
  virtual void start() = 0;
  // Complete units were told in the gatehouse; that backward is over, behind the last of them.
  virtual void on_units_told() = 0;
  virtual void on_backward_told() = 0;
  // job::Plan::uneven(): this worker computes no more, and the gate ledger has counted on. All values have come.
  virtual void finish() {}

  // --- user's threads, not locked ---

  // Whether take() has to see complete units before they are told: it copies their gradients. An error fails the job too.
  virtual bool takes_copies() const { return false; }
  virtual Status take(std::span<const exchange::GateLedger::Complete> /*units*/, Iteration /*iteration*/) { return {}; }
  // In which order this worker needs its layers from here on: each once. What is carried is urgent in that order, and the same.
  // Where all workers have to begin in one order, the table's stays.
  virtual void set_order(std::span<const std::int32_t> /*order*/) {}
  // Whoever makes the updates sends the optimizer's state, as it is with all updates of the iterations that are over here, to
  // TensorMemory::state(). False: the limit has passed, ask again. kBadRequest: nobody does.
  virtual Result<bool> gather_state(Duration limit);
  // Rank 0: its initial values are with all others.
  virtual void on_started() {}

  // --- locked ---

  // UpdateOptions::told_rates: those of the gate ledger's iteration, before its first gradient is told.
  virtual void tell_rates(Iteration /*iteration*/, std::span<const GroupRates> /*rates*/) {}
  // Whether gradients of the gate ledger's iteration may be told.
  virtual bool takes_gradients() const { return true; }
  // The gate of these units is open on the calling thread: moves their values into the parameters, unless they are there. Gives the
  // lock back on the way.
  virtual void settle(Gatehouse::Lock& /*lock*/, scheduling::UnitRange /*units*/) {}
  // For messages: what the value of `unit` (of nothing: the end of the iteration) waits for, and who reads its gradient.
  virtual std::string awaited(std::optional<std::uint32_t> unit) const = 0;
  virtual std::string reading(std::uint32_t /*unit*/) const { return "nothing"; }
  virtual std::string awaited_verdict(Iteration /*iteration*/) const { return "nothing"; }
  // Whether it finds out who is to blame for a wait of that long, and fails the job with it soon.
  virtual bool blames(const std::string& /*awaited*/, Duration /*waited*/) { return false; }
  // Nothing: mini-batches are not handed out.
  virtual MiniBatches* mini_batches() { return nullptr; }
  // Nothing: the job has none (job::UpdateOptions::verdict).
  virtual const exchange::VerdictLedger* verdicts() const { return nullptr; }
  // Return::kPullInBatches: the batches pulled in and what they were planned from; nothing before there was a plan.
  virtual std::optional<scheduling::LiveProfile::Plan> batches() const { return std::nullopt; }
};

}  // namespace paceline::exchange

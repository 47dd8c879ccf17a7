// One server of a parameter server without a network: steps a ServerLedger (who sends what when, when an update is due) and its
// ServerMemory (all numbers). Events and payloads in, actions with payloads out; no thread, clock, socket or loop. Owned by one
// progress loop.
//
// `place_for_push` gives the memory into which a gradient is received straight from the network; `on_push` counts it, and makes the
// updates that are due. The new values go out as kSendValue actions.
//
// Events that do not fit (another iteration, size, unit or worker, twice the same) are refused with kBadRequest and change nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/quantity.h"
#include "base/status.h"
#include "job/plan.h"
#include "paramserver/core/server_ledger.h"
#include "paramserver/core/server_memory.h"

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
    kSendVerdict,        // `payload`, this server's part of the verdict of `iteration`, to worker `to`
    kSendState,          // `payload`, the optimizer's state of `unit`, whose version is `iteration`, to worker `to`
    kSkipped,            // `failure` says whose gradient made `iteration` change nothing
    kStop,               // the job must end because of `failure`; no event changes anything any more
  };
  Kind kind = Kind::kSendValue;
  Rank to;
  std::uint32_t unit = 0, last = 0;
  Iteration iteration = 0;
  // kSendValue, kSendValues, kSendVerdict, kSendState: stays as it is until on_delivered(ticket). kSendSquareSum: until the next
  // but one is complete, which cannot be before it has been received.
  std::span<const std::byte> payload;
  std::uint64_t ticket = 0;
  Status failure;
};

class Server {
 public:
  using Actions = std::vector<ServerAction>;  // what an event adds stands behind what is there already

  // kBadRequest: the job has no such server.
  static Result<std::unique_ptr<Server>> make(std::shared_ptr<const job::Plan> plan, Rank server);

  // As in ServerLedger. The places are valid until the event that says that the payload is there, or on_left.
  Result<std::span<float>> place_for_initial(Rank worker, std::uint32_t unit, Iteration label, std::uint64_t bytes);
  Status on_initial(Rank worker, std::uint32_t unit, Iteration label, TimePoint now, Actions& actions);
  Result<std::span<float>> place_for_push(Rank worker, std::uint32_t unit, Iteration iteration, std::uint64_t bytes);
  Status on_push(Rank worker, std::uint32_t unit, Iteration iteration, std::uint32_t unused_parts, TimePoint now, Actions& actions);
  // UpdateOptions::told_rates: before the worker's first push of the iteration. As in ToldRates.
  Result<std::span<std::byte>> place_for_rates(Rank worker, Iteration iteration, std::uint64_t bytes) {
    return rates_.place(worker, iteration, bytes);
  }
  Status on_rates(Rank worker, Iteration iteration) { return stopped_ ? Status() : rates_.on_rates(worker, iteration); }
  Status on_pull(Rank worker, std::uint32_t unit, std::uint32_t last, Iteration label, Actions& actions);
  Status on_square_sum(Rank server, Iteration iteration, std::span<const std::byte> payload, TimePoint now, Actions& actions);
  // The worker wants the optimizer's state of this server's units: as it is now, with all updates made so far. In BSP that is one
  // iteration's as long as the worker has all values of that and has pushed nothing further.
  Status on_state_asked(Rank worker, Actions& actions);
  std::optional<sync::BarrierQuestion> take_question() { return ledger_.take_question(); }
  Status on_barrier(Rank worker, Iteration barrier, TimePoint now, Actions& actions);
  Status on_done(Rank worker, Iteration last, TimePoint now, Actions& actions);
  Status on_left(Rank worker, TimePoint now, Actions& actions);
  // What was sent with this ticket is not needed any more: once per kSendValue, kSendValues, kSendVerdict and kSendState.
  // kSendSquareSum needs none.
  void on_delivered(std::uint64_t ticket) { memory_.release(static_cast<std::uint32_t>(ticket)); }

  std::optional<sync::Superstep> take_superstep() { return ledger_.take_superstep(); }
  void observe(wire::EventSink& events) { ledger_.observe(events); }

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

  ServerMemory::Counters counters() const { return memory_.counters(); }
  const job::Plan& plan() const { return ledger_.books().plan(); }
  Rank rank() const { return ledger_.books().server(); }
  bool paces() const { return ledger_.paces(); }

 private:
  explicit Server(ServerLedger ledger);

  void settle(TimePoint now, Actions& actions);
  bool make(const Update& update, Actions& actions);
  Status check_rates_told(Rank worker, Iteration iteration) const;
  ServerMemory::Told rates_of(const Update& update) const;
  void carry_out(Actions& actions);
  void carry_out(const ServerEffect& effect, Actions& actions);
  void send(const ServerEffect& effect, Actions& actions);
  void send_verdict(const ServerEffect& effect, Actions& actions);
  void decide(Iteration iteration, Actions& actions);

  ServerLedger ledger_;
  ServerMemory memory_;
  exchange::ToldRates rates_;
  ServerLedger::Effects effects_;  // of the event in progress
  bool stopped_ = false;           // an update could not be made
};

}  // namespace paceline::paramserver

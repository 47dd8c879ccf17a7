// One server of a parameter server without a network: steps a ServerLedger (who sends what when, when an update is due) and its
// ServerMemory (all numbers). Messages and payloads in, messages and payloads out; no thread, clock, socket or loop. Owned by one
// progress loop.
//
// on_begin() gives the memory into which a message's payload is received straight from the network; on() takes the message, makes
// the updates that are due, and says what leaves.
//
// Events that do not fit (another iteration, size, unit or worker, twice the same) are refused with kBadRequest and change nothing.
// kCorrupt: an update could not be made, so the job must end; no event changes anything any more.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/quantity.h"
#include "base/status.h"
#include "job/plan.h"
#include "paramserver/core/server_ledger.h"
#include "paramserver/core/server_memory.h"

namespace paceline::paramserver {

// A message leaves, with its payload. Of a Value, Values, VerdictPart and State this stays as it is until on_delivered(ticket);
// of a SquareSum, until the next but one is complete, which cannot be before it has been received.
struct Leaving {
  Rank to;
  wire::Message message;
  ServerMemory::Sent sent;
};

class Server {
 public:
  // kBadRequest: the job has no such server.
  static Result<std::unique_ptr<Server>> make(std::shared_ptr<const job::Plan> plan, Rank server);

  // As in ServerLedger. The places are valid until on() of the same message, or on_left.
  using Place = Result<std::span<std::byte>>;
  Place on_begin(Rank worker, const wire::Initial& initial, std::uint64_t bytes);
  Place on_begin(Rank worker, const wire::Push& push, std::uint64_t bytes);
  Place on_begin(Rank worker, const wire::Rates& rates, std::uint64_t bytes);
  Place on_begin(Rank server, const wire::SquareSum& part, std::uint64_t bytes);
  // What leaves stands behind what is there already, in the order in which it was decided.
  Status on(Rank worker, const wire::Initial& initial, TimePoint now, std::vector<Leaving>& leaving);
  Status on(Rank worker, const wire::Push& push, TimePoint now, std::vector<Leaving>& leaving);
  // UpdateOptions::told_rates: before the worker's first push of the iteration. As in ToldRates.
  Status on(Rank worker, const wire::Rates& rates, TimePoint now, std::vector<Leaving>& leaving);
  // The optimizer's state of this server's units as it is now, with all updates made so far. In BSP that is one iteration's as long
  // as the worker has all values of that and has pushed nothing further.
  Status on(Rank worker, const wire::StateAsked& asked, TimePoint now, std::vector<Leaving>& leaving);
  Status on(Rank server, const wire::SquareSum& part, TimePoint now, std::vector<Leaving>& leaving);
  // What its ledger alone takes: Pull, Done and Barrier.
  template <typename Decided>
    requires wire::Takes<ServerLedger, Decided, TimePoint, ServerEffects>
  Status on(Rank from, const Decided& message, TimePoint now, std::vector<Leaving>& leaving) {
    return step(now, leaving, [&] { return ledger_.on(from, message, now, effects_); });
  }
  Status on_left(Rank worker, TimePoint now, std::vector<Leaving>& leaving) {
    return step(now, leaving, [&] { return ledger_.on_left(worker, now, effects_); });
  }
  // What was sent with this ticket is not needed any more: once each.
  void on_delivered(std::uint64_t ticket) { memory_.release(static_cast<std::uint32_t>(ticket)); }

  // BSP: the iteration that the last event completed. Every unit has been updated (or skipped) for it, and none further: the moment
  // to save, before what that event sends has left.
  std::optional<Iteration> take_complete() { return std::exchange(complete_, std::nullopt); }
  // The iteration that the last event found to change nothing, and whose gradient is the reason.
  std::optional<std::pair<Iteration, Status>> take_skipped() { return std::exchange(skipped_, std::nullopt); }
  std::optional<sync::BarrierQuestion> take_question() { return ledger_.take_question(); }

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

  template <typename Event>
  Status step(TimePoint now, std::vector<Leaving>& leaving, const Event& event) {
    if (stopped_) return {};
    PACELINE_RETURN_IF_ERROR(event());
    return settle(now, leaving);
  }
  Status settle(TimePoint now, std::vector<Leaving>& leaving);
  Status make(const Update& update);
  void decide(Iteration iteration);
  Status check_rates_told(Rank worker, Iteration iteration) const;
  ServerMemory::Told rates_of(const Update& update) const;
  void carry_out(std::vector<Leaving>& leaving);
  ServerMemory::Sent payload_of(const Send& send);
  using SquareSumBytes = std::array<std::byte, tensor::kSquareSumBytes>;
  SquareSumBytes& square_sum(Rank server, Iteration iteration) {
    return square_sums_[static_cast<std::size_t>(server.value)][static_cast<std::size_t>(iteration & 1)];
  }

  ServerLedger ledger_;
  ServerMemory memory_;
  exchange::ToldRates rates_;
  ServerEffects effects_;                                   // of the event in progress
  std::vector<std::array<SquareSumBytes, 2>> square_sums_;  // where parts are received: by server and parity of the iteration
  Iteration decided_;                                       // the newest one whose square sums were all there
  std::optional<Iteration> complete_;
  std::optional<std::pair<Iteration, Status>> skipped_;
  bool stopped_ = false;  // an update could not be made
};

}  // namespace paceline::paramserver

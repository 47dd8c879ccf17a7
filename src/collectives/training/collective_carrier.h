// Carries a worker's gradients by collective operations between the workers, without servers: binds RoundLedger to an Engine, a
// loop and the memory of parameters and gradients.
//
// A unit's gradient is copied to where it is reduced by the thread that tells it, together with which of its tensors were used. The
// engine adds up; where the training loop says so the loop updates (exchange::Shard), in pieces so that it can do something else
// in between, the most urgent unit first; weights are broadcast straight into the parameters.
//
// Threads: as carrier.h says.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectives/exec/engine.h"
#include "collectives/training/round_ledger.h"
#include "collectives/training/unit_flags.h"
#include "exchange/carrier.h"
#include "exchange/shard.h"
#include "exchange/tensor_memory.h"

namespace paceline::collectives {

class CollectiveCarrier final : public exchange::Carrier, private session::Sender {
 public:
  // `house`, made with gate_rule(options), and `sender` outlive it.
  CollectiveCarrier(exchange::Gatehouse& house, session::Sender& sender, exchange::TensorMemory memory, TrainingOptions options);
  ~CollectiveCarrier() override;

  // Where updates are made: all of the iteration are, and parameters and optimizer state stay so until the next one's. On the loop.
  // Set before start(); may be empty.
  void set_on_updated(std::function<void(Iteration)> on_updated) { on_updated_ = std::move(on_updated); }
  // For checkpoints, on the loop or before start(): no update is made between the two calls; and what updates have made so far.
  void hold_updates() { held_ = true; }
  void release_updates();
  exchange::Shard& shard() { return shard_; }
  const exchange::Shard& shard() const { return shard_; }
  const exchange::TensorMemory& memory() const { return memory_; }
  const job::Plan& plan() const { return plan_; }

  // Carrier
  void start() override { start_signal_->raise(); }
  void on_units_told() override { signal_->raise(); }
  void on_backward_told() override { signal_->raise(); }
  bool takes_copies() const override { return true; }
  Status take(std::span<const exchange::GateLedger::Complete> units, Iteration iteration) override;
  bool takes_gradients() const override { return ledger_.takes_gradients(); }
  std::string awaited(std::optional<std::uint32_t> unit) const override { return ledger_.describe(unit); }
  std::string awaited_verdict(Iteration iteration) const override;
  const exchange::VerdictLedger* verdicts() const override { return verdicts_ ? &verdicts_->ledger : nullptr; }
  bool blames(const std::string& awaited, Duration waited) override;

  // ChannelEnd
  Result<std::span<std::byte>> on_message_begin(Rank from, const wire::MessageHead& head) override;
  void on_message(Rank from, const wire::MessageHead& head, std::span<std::byte> payload) override;
  void on_delivered(Rank to, wire::Channel channel, std::uint64_t ticket) override;
  // An operation that needs the peer fails; one that does not may still end well, as when the job is over.
  void on_peer_lost(Rank peer, wire::Channel channel, const Status& reason) override;

 private:
  static constexpr std::int64_t kPieceElements = 131'072;

  // What is to be done to a unit on the loop, and where its next piece begins.
  struct Work {
    RoundLedger::Action action;
    std::uint32_t part = 0;  // of the unit
    std::int64_t begin = 0;  // in the part
  };

  void send(Rank to, const wire::MessageHead& head, std::span<const std::byte> payload, std::uint64_t ticket) override;
  void begin_start();
  void carry_on();
  void step_told();
  void count_bytes();
  void act();
  void begin(const RoundLedger::Action& action);
  void on_done(const RoundLedger::Action& action, const Status& status);
  bool work_piece();
  Status work_on(const Work& work, std::int64_t elements);
  void judge(const Work& work, std::uint32_t tensor, std::span<const float> mean);
  void end_work(const RoundLedger::Action& action);
  Status check_own(std::uint32_t unit, std::uint32_t unused_parts, Iteration iteration) const;
  bool counts(const wire::MessageHead& head) const;
  std::span<float> staged(std::uint32_t unit) const;

  exchange::Gatehouse& house_;
  const job::Plan& plan_;
  Rank self_;
  session::Sender& sender_;
  exchange::TensorMemory memory_;
  TrainingOptions options_;
  UnitFlags flags_;
  std::function<void(Iteration)> on_updated_;
  std::unique_ptr<float[]> staging_memory_;
  std::vector<std::size_t> staging_begin_;  // by unit; one more at the end

  // The loop alone steps it, locked; others ask it, locked.
  RoundLedger ledger_;

  // Loop only.
  exchange::Shard shard_;
  struct Verdicts {
    exchange::VerdictLedger ledger;  // locked
    exchange::VerdictPart part;      // of this round
  };
  std::optional<Verdicts> verdicts_;  // UpdateOptions::verdict
  Engine engine_;
  CallPlanner planner_;
  std::uint32_t number_ = 0;
  std::map<std::uint32_t, RoundLedger::Action> operations_;  // under way, by number
  std::vector<Work> work_;                                   // updates and inspections to do, the most urgent unit last
  RoundLedger::Actions actions_, taken_;
  std::int64_t bytes_sent_ = 0, bytes_received_ = 0;          // not counted yet
  bool held_ = false;                                         // no updates now
  std::unique_ptr<transport::Signal> start_signal_, signal_;  // the second: something was told, or there is work
};

}  // namespace paceline::collectives

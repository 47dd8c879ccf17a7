// Carries a worker's gradients to parameter servers and brings their values: binds PushLedger to a loop, its channels, and the
// memory of parameters and gradients.
//
// gradient_payloads.h says what of a gradient travels; value_places.h, where a value is received. Neither copies where it need not.
// Worker 0 pushes its initial values as they are, once. Where the others get them encoded (job::Plan::value_codec), it then makes
// the same of its own.
//
// Threads: as carrier.h says. Memory: nothing is allocated per message once warm.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exchange/carrier.h"
#include "exchange/tensor_memory.h"
#include "paramserver/core/push_ledger.h"
#include "paramserver/service/gradient_payloads.h"
#include "paramserver/service/heard_verdicts.h"
#include "paramserver/service/servers_state.h"
#include "paramserver/service/told_order.h"
#include "paramserver/service/value_places.h"

namespace paceline::paramserver {

class ServerCarrier final : public exchange::Carrier {
 public:
  // `house`, made with gate_rule of the schedule, and `sender` outlive it. `own_server`: the one in this process, if any: its
  // values come through memory.
  ServerCarrier(exchange::Gatehouse& house, session::Sender& sender, exchange::TensorMemory memory,
                std::optional<Rank> own_server = std::nullopt);
  ~ServerCarrier() override;

  // Carrier
  void start() override;
  void on_units_told() override;
  void on_backward_told() override { told_signal_->raise(); }
  void finish() override { done_signal_->raise(); }
  Result<bool> gather_state(Duration limit) override { return state_.gather(limit); }
  void on_started() override;
  void settle(exchange::Gatehouse::Lock& lock, scheduling::UnitRange units) override;
  std::string awaited(std::optional<std::uint32_t> unit) const override;
  std::string reading(std::uint32_t unit) const override;
  std::string awaited_verdict(Iteration iteration) const override;
  void tell_rates(Iteration iteration, std::span<const exchange::GroupRates> rates) override;
  void set_order(std::span<const std::int32_t> order) override { order_.set(order); }
  const exchange::VerdictLedger* verdicts() const override { return verdicts_ ? &verdicts_->ledger() : nullptr; }
  exchange::MiniBatches* mini_batches() override { return &mini_batches_; }
  std::optional<scheduling::LiveProfile::Plan> batches() const override;

  // ChannelEnd
  Result<std::span<std::byte>> on_message_begin(Rank from, const wire::MessageHead& head) override;
  void on_message(Rank from, const wire::MessageHead& head, std::span<std::byte> payload) override;
  void on_delivered(Rank to, wire::Channel channel, std::uint64_t ticket) override;
  // A lost server is a failure.
  void on_peer_lost(Rank peer, wire::Channel channel, const Status& reason) override;

 private:
  struct Received;

  // What a ticket says: the kind of message above, the unit below. Never kNoTicket, which messages have that borrow nothing.
  static constexpr std::uint64_t kNoTicket = 0;
  static constexpr std::uint64_t ticket_of(wire::MessageKind kind, std::uint32_t unit) {
    return ((static_cast<std::uint64_t>(kind) + 1) << 32) | unit;
  }

  // server_carrier.cc
  void carry_told();
  void step_told();
  void take_plan();
  void count_bytes();
  void send_initial();
  void send_done();

  // server_carrier_messages.cc
  void send(const Send& send, std::span<const std::byte> payload);
  void send_all();
  void send_rates(Iteration iteration);
  Status not_taken(Rank server, const wire::MessageHead& head) const;
  void end_step();

  exchange::Gatehouse& house_;
  const job::Plan& plan_;
  Rank worker_;
  session::Sender& sender_;
  exchange::TensorMemory memory_;
  std::optional<Rank> own_server_;
  std::unique_ptr<transport::Signal> told_signal_, initial_signal_, done_signal_;

  // Locked; the ledger by the loop alone, but for what is staged.
  PushLedger ledger_;
  ToldOrder order_;
  ServersState state_;
  std::vector<Send> sends_;  // loop only, as the next two
  GradientPayloads gradients_;
  ValuePlaces values_;
  std::optional<HeardVerdicts> verdicts_;
  // job::UpdateOptions::told_rates, by parity of the iteration: those of the last but one have been received by everybody.
  std::array<std::vector<exchange::GroupRates>, 2> rates_;
  Iteration rates_sent_ = 0;  // loop only
  int settling_ = 0;          // values that are being copied from the staging area
  exchange::MiniBatches mini_batches_;
  std::optional<scheduling::LiveProfile> profile_;  // with Return::kPullInBatches
  std::int64_t plan_in_use_ = 0;                    // of the profile's, its number
};

}  // namespace paceline::paramserver

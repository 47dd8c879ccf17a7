// Carries a worker's gradients to parameter servers and brings their values: binds PushLedger to a loop, an Outbox, and the memory
// of parameters and gradients.
//
// Gradients are sent from where they stand and values received into the parameters, with two exceptions: a value that comes while
// backward still runs waits in a staging area (as large as the model, touched only when used) and is copied when its gate opens;
// and gradients and values of several units that travel as one message and do not stand behind each other in the arena are gathered
// into one piece, or received in one piece and dealt out.
//
// With a narrow codec (core/wire_options.h) gradients are rounded into a place of their own when they are sent, and all values are
// received into another one, from where they are widened: on the loop, or when the gate opens while backward still runs. Worker 0
// pushes its initial values as they are, once, and then rounds its own as the others get them. With dropping the gradient becomes
// what is sent of it before it is told, and is packed when it leaves.
//
// Threads: as carrier.h says. Memory: nothing is allocated per message once warm.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "paramserver/core/gradient_dropping.h"
#include "paramserver/core/push_ledger.h"
#include "paramserver/service/carrier.h"
#include "paramserver/service/tensor_memory.h"

namespace paceline::paramserver {

class ServerCarrier final : public Carrier {
 public:
  // `house`, made with gate_rule of the schedule, and `outbox` outlive it. `own_server`: the one in this process, if any: its
  // values come through memory.
  ServerCarrier(Gatehouse& house, Outbox& outbox, TensorMemory memory, std::optional<Rank> own_server = std::nullopt);
  ~ServerCarrier() override;

  // Carrier
  void start() override;
  void on_told() override { told_signal_->raise(); }
  void finish() override { done_signal_->raise(); }
  bool prepares() const override { return dropping_.has_value(); }
  bool prepare(std::uint32_t tensor, Iteration iteration) override;
  std::span<const std::uint32_t> prepare_rest(Iteration iteration) override;
  void on_started() override;
  void settle(Gatehouse::Lock& lock, scheduling::UnitRange units) override;
  std::string awaited(std::optional<std::uint32_t> unit) const override;
  std::string reading(std::uint32_t unit) const override;
  MiniBatches* mini_batches() override { return &mini_batches_; }
  std::optional<scheduling::LiveProfile::Plan> batches() const override;

  // GateObserver
  void on_gate(Layer layer, Iteration iteration, TimePoint asked, TimePoint opened) override;
  void on_forward_done(TimePoint now) override;
  void on_backward_begun(TimePoint now) override;
  void on_gradient(Layer layer, TimePoint now) override;
  void on_backward_done(TimePoint now) override;
  void on_iteration_done() override;

  // MessageSink
  Result<std::span<std::byte>> on_message_begin(const session::PeerName& from, const wire::MessageHead& head) override;
  void on_message(const session::PeerName& from, const wire::MessageHead& head, std::span<std::byte> payload) override;
  void on_delivered(const session::PeerName& to, std::uint64_t ticket) override;
  // A lost server is a failure.
  void on_peer_lost(const session::PeerName& peer, const Status& reason) override;

 private:
  // What a ticket says: the kind of message above, the unit below. Never kNoTicket, which messages have that borrow nothing.
  static constexpr std::uint64_t kNoTicket = 0;
  static constexpr std::uint64_t ticket_of(wire::MessageKind kind, std::uint32_t unit) {
    return ((static_cast<std::uint64_t>(kind) + 1) << 32) | unit;
  }

  // server_carrier.cc
  void carry_told();
  void step_told();
  void count_bytes();
  void widen(std::uint32_t unit);
  void send_initial();
  void send_done();

  // server_carrier_messages.cc
  void send(wire::MessageKind kind, const WorkerAction& action, std::span<const std::byte> payload);
  void send_actions();
  bool takes(const session::PeerName& from, const wire::MessageHead& head) const;
  Status unexpected(const session::PeerName& from, const wire::MessageHead& head) const;
  Result<std::span<std::byte>> place_of(const PushLedger::Values& values, bool staged);
  void deal_out(const PushLedger::Values& values, std::span<const std::byte> payload);
  Status on_mini_batch(const wire::MessageHead& head);

  // server_carrier_gradients.cc
  bool in_one_piece(std::uint32_t unit, std::uint32_t last) const;
  std::size_t bytes_of(std::span<const std::uint32_t> units) const;
  void put_gradient(std::uint32_t unit, std::span<std::byte> to);
  std::span<const std::byte> gradient_payload(const WorkerAction& push);
  std::span<const std::byte> sparse_payload(const WorkerAction& push);
  std::span<const std::byte> gather_gradients(std::uint32_t unit, std::uint32_t last);
  // The unit's part of an area where elements are as they are sent.
  std::span<std::byte> sent_part(std::span<std::byte> area, std::uint32_t unit) const;
  std::span<std::byte> value_place(std::uint32_t unit, bool staged) const;

  Gatehouse& house_;
  const JobPlan& plan_;
  Rank worker_;
  Outbox& outbox_;
  TensorMemory memory_;
  std::optional<Rank> own_server_;
  std::unique_ptr<float[]> staging_memory_, push_memory_;
  std::span<std::byte> staging_;  // as large as the model is when it is sent
  std::span<std::byte> pushes_;   // the same: gradients as they are sent, when not as they stand; loop only
  std::unique_ptr<transport::Signal> told_signal_, initial_signal_, done_signal_;

  std::mutex dropping_mutex_;  // guards what follows up to the next empty line
  std::optional<GradientDropping> dropping_;
  std::vector<std::uint32_t> held_back_, released_;  // tensors whose gradients are there and not told; and being told

  // Loop only.
  std::vector<WorkerAction> actions_;
  std::int64_t dropped_bytes_ = 0;  // sent with WireOptions::drops() and not counted yet
  std::vector<char> widen_now_;     // by the first unit of values that arrive; only with a narrow codec
  // Where values that are to be dealt out are received, by the first unit, and where they go.
  struct Parcel {
    std::vector<float> memory;
    bool staged = false, arriving = false;
  };
  std::map<std::uint32_t, Parcel> parcels_;
  std::map<std::uint32_t, std::vector<std::byte>> gathered_;  // gradients on their way in one piece, by first unit

  // Locked; the ledger by the loop alone, but for what is staged.
  PushLedger ledger_;
  int settling_ = 0;  // values that are being copied from the staging area
  MiniBatches mini_batches_;
  std::optional<scheduling::LiveProfile> profile_;             // with Return::kPullInBatches
  std::optional<scheduling::LiveProfile::Plan> next_batches_;  // from the next iteration on
};

}  // namespace paceline::paramserver

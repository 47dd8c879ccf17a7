// A worker's end of the parameter server in a process: binds PushLedger to a loop, an Outbox, and the memory of parameters and
// gradients, and gives the training thread a face that blocks where training must wait.
//
// How it is used, iteration by iteration, says gradient_exchange.h.
//
// Gradients are sent from where they stand and values received into the parameters, with two exceptions: a value that comes while
// backward still runs waits in a staging area (as large as the model, touched only when used) and is copied by wait_layer; and
// gradients and values of several units that travel as one message and do not stand behind each other in the arena are gathered
// into one piece, or received in one piece and dealt out.
//
// With a narrow codec (core/wire_options.h) gradients are rounded into a place of their own when they are sent, and all values are
// received into another one, from where they are widened: on the loop, or by wait_layer while backward still runs. Worker 0 pushes
// its initial values as they are, once, and then rounds its own as the others get them. With dropping the gradient becomes what is
// sent of it in gradient_ready, and is packed when it leaves.
//
// Threads: those of gradient_exchange.h for one thread of its own, or any; the rest for the loop.
// Memory: nothing is allocated per message or gradient once warm.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "paramserver/core/gradient_dropping.h"
#include "paramserver/core/push_ledger.h"
#include "paramserver/service/gradient_exchange.h"
#include "paramserver/service/mailbox.h"
#include "scheduling/live_profile.h"
#include "session/stall.h"
#include "transport/transport.h"

namespace paceline::paramserver {

struct WorkerClientOptions {
  std::span<float> parameters;                         // the arena: JobPlan::units().elements floats, outliving the client
  std::span<float> gradients;                          // the same size
  Duration stall_deadline = std::chrono::minutes(10);  // the longest that one wait may take; above 0
  // A server broke the protocol, or is lost. Called at most once, on the loop; every wait then returns the same status.
  std::function<void(const Status&)> on_failed;
  std::optional<Rank> own_server = std::nullopt;  // the one in this process: its values come through memory
};

class WorkerClient final : public MessageSink, public GradientExchange {
 public:
  // `loop` and `outbox` outlive it. Any thread. Destroy on the loop or when it does not run, after the training thread has left.
  WorkerClient(std::shared_ptr<const JobPlan> plan, Rank worker, transport::Loop& loop, Outbox& outbox,
               WorkerClientOptions options);
  ~WorkerClient() override;
  WorkerClient(const WorkerClient&) = delete;
  WorkerClient& operator=(const WorkerClient&) = delete;

  // GradientExchange
  using GradientExchange::backward_done;
  Status start() override;
  Status gradient_ready(std::uint32_t tensor) override;
  Status backward_done(Iteration iteration, std::span<const std::uint32_t> unused) override;
  Status wait_layer(Layer layer, Iteration iteration) override;
  Status wait_all(Iteration iteration) override;
  void forward_done() override;
  Status wait_gradients_free() override;
  Status wait_gradients_free(Layer layer) override;
  bool gradients_free(Layer layer) override;
  TimePoint opened_at(Layer layer) override;
  const JobPlan& plan() const override { return *plan_; }
  void cancel(const Status& reason) override;
  Result<std::int64_t> next_mini_batch() override;
  Status finish(Iteration last) override;
  void read_ahead(std::function<void(std::int64_t number)> reader) override;
  std::optional<scheduling::LiveProfile::Plan> batches() override;
  Account take_account() override;

  // --- loop ---

  Result<std::span<std::byte>> on_message_begin(const session::PeerName& from, const wire::MessageHead& head) override;
  void on_message(const session::PeerName& from, const wire::MessageHead& head, std::span<std::byte> payload) override;
  void on_delivered(const session::PeerName& to, std::uint64_t ticket) override;
  // A lost server is a failure: cancels with the reason.
  void on_peer_lost(const session::PeerName& peer, const Status& reason) override;

 private:
  template <typename Done, typename Describe>
  Status wait(std::unique_lock<std::mutex>& lock, Done done, Describe describe);
  Status look_for_stall(std::unique_lock<std::mutex>& lock, const std::string& awaited);
  Status wait_open(std::optional<Layer> layer, Iteration iteration);
  std::string describe_missing(std::optional<Layer> layer) const;
  std::string describe_undelivered() const;
  void copy_staged(std::unique_lock<std::mutex>& lock, scheduling::UnitRange units);
  void send_outgoing();
  bool takes(const session::PeerName& from, const wire::MessageHead& head) const;
  Status unexpected(const session::PeerName& from, const wire::MessageHead& head) const;
  Result<std::span<std::byte>> place_of(const PushLedger::Values& values, std::span<std::byte> arena);
  std::optional<std::span<std::byte>> in_one_piece(std::span<std::byte> arena, std::uint32_t unit, std::uint32_t last) const;
  std::size_t bytes_of(std::span<const std::uint32_t> units) const;
  void put_gradient(std::uint32_t unit, std::span<std::byte> to);
  Iteration current();
  Status drop_and_announce();
  Status announce(std::uint32_t tensor);
  std::span<const std::byte> gradient_payload(const WorkerAction& push);
  std::span<const std::byte> sparse_payload(const WorkerAction& push);
  std::span<const std::byte> gather_gradients(std::uint32_t unit, std::uint32_t last);
  void deal_out(const PushLedger::Values& values, std::span<const std::byte> payload);
  void widen(std::uint32_t unit);
  void round_initial();
  void send_initial();
  void send_done();
  Status on_mini_batch(const wire::MessageHead& head);
  void send(wire::MessageKind kind, const WorkerAction& action, std::span<const std::byte> payload);
  void fail(const Status& reason);
  // The unit's part of an arena.
  std::span<float> part(std::span<float> arena, std::uint32_t unit) const;
  // The same where elements are as they are sent.
  std::span<std::byte> sent_part(std::span<std::byte> arena, std::uint32_t unit) const;

  std::shared_ptr<const JobPlan> plan_;
  Rank worker_;
  transport::Loop& loop_;
  Outbox& outbox_;
  WorkerClientOptions options_;
  std::unique_ptr<float[]> staging_memory_, push_memory_;
  std::span<std::byte> staging_;              // as large as the model is when it is sent
  std::span<std::byte> pushes_;               // the same: gradients as they are sent, when not as they stand; loop only
  std::vector<char> widen_now_;               // by the first unit of values that arrive; only with a narrow codec, loop only
  std::optional<GradientDropping> dropping_;  // training thread only
  std::vector<std::uint32_t> held_;           // tensors whose gradients are there and not announced; training thread only
  std::atomic<std::int64_t> dropped_bytes_pushed_{0};  // since the last account
  std::unique_ptr<transport::Signal> outgoing_signal_, initial_signal_, done_signal_;
  std::vector<WorkerAction> sending_;  // loop only
  // Loop only: where values that are to be dealt out are received, by the first unit, and into which arena they go.
  struct Parcel {
    std::vector<float> memory;
    std::span<std::byte> arena;
    bool arriving = false;
  };
  std::map<std::uint32_t, Parcel> parcels_;
  std::map<std::uint32_t, std::vector<std::byte>> gathered_;  // loop only: gradients on their way in one piece, by first unit
  bool reported_ = false;                                     // loop only: on_failed has been called

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  GateLedger gates_;
  PushLedger core_;
  std::vector<GateLedger::Complete> complete_;
  std::vector<WorkerAction> outgoing_;
  std::deque<std::int64_t> mini_batches_;  // handed out and not taken
  std::uint32_t handed_out_ = 0;           // so far
  std::function<void(std::int64_t)> reader_;
  std::optional<scheduling::LiveProfile> profile_;  // with Return::kPullInBatches
  session::StallDetector stall_;
  Status failure_;
};

}  // namespace paceline::paramserver

// A parameter server in a process: binds ServerCore to a loop and an Outbox. Takes kInitial, kPush, kPull (workers) and kSquareSum
// (servers); sends kValue and kSquareSum.
//
// Pushes that have arrived wait in a queue that is worked off after the sockets have been drained, the most urgent layer first with
// Order::kByLayer (P3's second place), so that an urgent unit is not aggregated behind others that merely arrived before it.
//
// Threads: belongs to the loop. Memory: nothing is allocated per message once warm.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "paramserver/core/server_core.h"
#include "paramserver/service/mailbox.h"
#include "transport/transport.h"

namespace paceline::paramserver {

struct ServerCallbacks {
  // The job cannot go on: a non-finite gradient, or a peer that broke the protocol (named). Called at most once.
  std::function<void(const Status&)> on_failed;
  // Every unit has made its update of `iteration` and none a later one; the moment to save the state through core(). No value that could
  // let a worker go on has left yet. BSP only. May be empty.
  std::function<void(Iteration)> on_iteration_complete;
};

class ServerService final : public MessageSink {
 public:
  // `loop` and `outbox` outlive it. Destroy on the loop or when it does not run. Synchronisation model and cluster are made from the plan.
  static Result<std::unique_ptr<ServerService>> make(std::shared_ptr<const JobPlan> plan, Rank server, transport::Loop& loop, Outbox& outbox,
                                                     ServerCallbacks callbacks);
  ServerService(const ServerService&) = delete;
  ServerService& operator=(const ServerService&) = delete;

  Result<std::span<std::byte>> on_message_begin(const session::PeerName& from, const wire::MessageHead& head) override;
  void on_message(const session::PeerName& from, const wire::MessageHead& head, std::span<std::byte> payload) override;
  void on_delivered(const session::PeerName& to, std::uint64_t ticket) override;
  // A worker that is lost takes part no more (ServerCore::on_left); whether the job goes on is the runtime's decision.
  void on_peer_lost(const session::PeerName& peer, const Status& reason) override;

  // For checkpoints: export before or in on_iteration_complete, import before the first push. Loop only.
  ServerCore& core() { return core_; }
  const ServerCore& core() const { return core_; }

  struct Counters {
    std::uint64_t pushes = 0;      // gradients worked off
    std::uint64_t reorderings = 0; // of them, taken before one that had arrived earlier
    Duration updating{};           // time spent to sum and update
  };
  const Counters& counters() const { return counters_; }

 private:
  struct Waiting {  // a push that has arrived; the smallest (layer, sequence) is taken first
    std::int32_t layer = 0;
    std::uint64_t sequence = 0;
    Rank worker;
    std::uint32_t unit = 0;
    Iteration iteration = 0;
    bool unused = false;
  };

  ServerService(std::shared_ptr<const JobPlan> plan, Rank server, std::unique_ptr<sync::SyncModel> sync, transport::Loop& loop, Outbox& outbox,
                ServerCallbacks callbacks);
  void enqueue(Rank worker, const wire::MessageHead& head);
  void work();
  void carry_out(Duration spent, std::uint32_t unit);
  std::uint32_t micros_of(Duration spent, std::uint32_t unit, const ServerAction& action, std::int64_t elements_in_all);
  void fail(const Status& reason);

  std::shared_ptr<const JobPlan> plan_;
  ServerCore core_;
  transport::Loop& loop_;
  Outbox& outbox_;
  ServerCallbacks callbacks_;
  std::unique_ptr<transport::Signal> work_signal_;
  std::vector<Waiting> queue_;  // a heap
  std::uint64_t next_sequence_ = 0;
  std::uint64_t oldest_taken_ = 0;
  std::vector<ServerAction> actions_;
  std::vector<std::int64_t> spent_nanoseconds_;  // by local unit: on sums that were kept for later
  std::array<std::byte, tensor::kSquareSumBytes> no_place_{};
  std::vector<std::array<std::byte, tensor::kSquareSumBytes>> square_sums_;  // by server: where its part is received
  bool failed_ = false;
  Counters counters_;
};

}  // namespace paceline::paramserver

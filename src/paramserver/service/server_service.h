// A parameter server in a process: binds a Server to a loop and its channels.
//
// Pushes that have arrived wait in a queue (scheduling/ingress_queue.h) that is worked off after the sockets have been drained, the
// most urgent layer first where the schedule orders this place (P3's second one), so that an urgent unit is not aggregated behind
// others that merely arrived before it.
//
// Threads: belongs to the loop. Memory: nothing is allocated per message once warm.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "paramserver/core/server.h"
#include "paramserver/service/dear_sender.h"
#include "paramserver/service/told_order.h"
#include "scheduling/ingress_queue.h"
#include "session/channels.h"
#include "transport/transport.h"

namespace paceline::paramserver {

struct ServerCallbacks {
  // The job cannot go on: a non-finite gradient, or a peer that broke the protocol (named). Called at most once.
  std::function<void(const Status&)> on_failed;
  // Every unit has made its update of `iteration` and none a later one; the moment to save the state through core(). No value that
  // could let a worker go on has left yet. BSP only. May be empty.
  std::function<void(Iteration)> on_iteration_complete;
  // The iteration changed nothing (NonFinitePolicy::kSkip); the reason names whose gradient it was, if it was found on this server.
  // May be empty.
  std::function<void(Iteration, const Status&)> on_skipped;
  // ElasticBSP, on the pacing server: where is the next barrier? May be answered on any thread (sync::answer); then, on the loop,
  // set_barriers(). Empty: it is answered at once on the loop.
  std::function<void(sync::BarrierQuestion)> on_question;
  // ElasticBSP, on the pacing server: a superstep is over. May be empty.
  std::function<void(const sync::Superstep&)> on_superstep;
  // Hears of kAggregate and kUpdate, before the value that follows is sent, and of kStarted and kEnded. Outlives the service; null:
  // nobody does.
  wire::EventSink* events = nullptr;
};

class ServerService final : public session::ChannelEnd {
 public:
  // `loop` and `sender` outlive it. Destroy on the loop or when it does not run.
  static Result<std::unique_ptr<ServerService>> make(std::shared_ptr<const job::Plan> plan, Rank server, transport::Loop& loop,
                                                     session::Sender& sender, ServerCallbacks callbacks);
  ServerService(const ServerService&) = delete;
  ServerService& operator=(const ServerService&) = delete;

  Result<std::span<std::byte>> on_message_begin(Rank from, const wire::MessageHead& head) override;
  void on_message(Rank from, const wire::MessageHead& head, std::span<std::byte> payload) override;
  void on_delivered(Rank to, wire::Channel channel, std::uint64_t ticket) override;
  // In BSP a server that has lost a worker makes no update and sends no value any more: the sum of those who are left belongs to
  // another job, and no checkpoint must hold it. Messages that still come are received and ignored. Where each push counts by
  // itself the worker takes part no more (Server::on_left), and whether the job goes on is the runtime's decision.
  void on_peer_lost(Rank peer, wire::Channel channel, const Status& reason) override;

  // A message's payload begins to come; it is there. wire::deliver() calls these: what the Server takes, and what is done here.
  template <typename Message>
    requires wire::TakesPayload<Server, Message, std::uint64_t>
  Server::Place on_begin(Rank from, const Message& message, std::uint64_t bytes) {
    return server_->on_begin(from, message, bytes);
  }
  Server::Place on_begin(Rank worker, const wire::Pushes& pushes, std::uint64_t bytes);
  Server::Place on_begin(Rank worker, const wire::Order&, std::uint64_t bytes) { return orders_.place(worker, bytes); }
  template <typename Message>
    requires wire::Takes<Server, Message, TimePoint, std::vector<Leaving>>
  Status on(Rank from, const Message& message, std::span<const std::byte>, TimePoint now) {
    return server_->on(from, message, now, leaving_);
  }
  Status on(Rank worker, const wire::Push& push, std::span<const std::byte> payload, TimePoint now);
  Status on(Rank worker, const wire::Pushes& pushes, std::span<const std::byte> payload, TimePoint now);
  Status on(Rank worker, const wire::Order&, std::span<const std::byte>, TimePoint) { return orders_.on_order(worker); }
  Status on(Rank server, const wire::SquareSum& part, std::span<const std::byte> payload, TimePoint now);
  Status on(Rank server, const wire::Barrier& barrier, std::span<const std::byte> payload, TimePoint now);

  // The answer: by worker of the question, the iteration at whose end the barrier is. Tells this server's model and all others'.
  // Loop only.
  void set_barriers(std::span<const Rank> workers, std::span<const Iteration> barriers);

  // For checkpoints: export before or in on_iteration_complete, import before the first push. Loop only.
  Server& core() { return *server_; }
  const Server& core() const { return *server_; }

  // Pushes that arrive stay where they are received, and no update is made, until release_updates(). Loop only.
  void hold_updates() { held_ = true; }
  void release_updates();

  struct Counters {
    std::uint64_t pushes = 0;       // gradients worked off
    std::uint64_t reorderings = 0;  // of them, taken before one that had arrived earlier
    std::uint64_t skipped_iterations = 0;
    Duration updating{};  // time spent to sum and update
  };
  const Counters& counters() const { return counters_; }

 private:
  struct Waiting {  // a push that has arrived
    Rank worker;
    wire::Push push;
  };
  struct Spent {  // on the unit's newest update
    Iteration iteration = -1;
    Duration total{};
  };

  ServerService(std::unique_ptr<Server> server, transport::Loop& loop, session::Sender& sender, ServerCallbacks callbacks);
  Status not_taken(Rank from, const wire::MessageHead& head) const;
  void wait_for_turn(Rank worker, const wire::Push& push);
  bool may_work() const { return queue_.waiting() > 0 && !failed_ && !held_ && !frozen_; }
  void work();
  void work_one();
  void ask_for_barriers();
  void carry_out(const Status& status, Duration spent);
  void share_time(Duration spent);
  void tell(wire::Event work);
  void send(Leaving& leaving);
  void fail(const Status& reason);

  std::unique_ptr<Server> server_;
  const job::Plan& plan_;
  transport::Loop& loop_;
  const std::unique_ptr<DearSender> dear_;  // null: messages cost what the network takes
  session::Sender& sender_;
  ServerCallbacks callbacks_;
  std::unique_ptr<transport::Signal> work_signal_;
  scheduling::IngressQueue<Waiting> queue_;
  HeardOrders orders_;
  std::vector<Leaving> leaving_;  // of the event in progress
  std::vector<Spent> spent_;      // by place in this server
  // Where gradients of several units are received, by worker and first unit, and where each belongs.
  struct Parcel {
    std::vector<std::byte> memory;
    std::span<const std::uint32_t> units;
    std::vector<std::span<std::byte>> places;
  };
  std::map<std::pair<Rank, std::uint32_t>, Parcel> parcels_;
  std::int64_t updates_told_ = 0;                        // of the core's, those that were told of
  bool failed_ = false, held_ = false, frozen_ = false;  // frozen: BSP has lost a worker
  Counters counters_;
};

}  // namespace paceline::paramserver

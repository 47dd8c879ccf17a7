// Messages between the worker and the server of one process: through memory, by the rules of the network. The more urgent message
// first, piece by piece, so that the loop serves sockets in between; delivered in callbacks from the loop, never inside send(). One
// copy per message, from where it stands to where its receiver wants it.
//
// Threads: belongs to the loop. Memory: nothing is allocated per message once warm.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "paramserver/service/mailbox.h"
#include "scheduling/egress_queue.h"
#include "transport/transport.h"

namespace paceline::runtime {

// What the halves of a process do with messages; null: there is no such half.
struct Sinks {
  paramserver::MessageSink* worker = nullptr;
  paramserver::MessageSink* server = nullptr;
};

class LocalDelivery {
 public:
  // `rank`: of both halves. `refused`: a half does not take what the other sent; the job cannot go on. `loop` and the sinks outlive
  // it.
  LocalDelivery(transport::Loop& loop, Rank rank, const scheduling::EgressRules& rules, Sinks sinks,
                std::function<void(const Status&)> refused);

  // Kinds that one half sends to the other. The payload is borrowed until the sender's on_delivered(ticket).
  void send(session::Role to, const wire::MessageHead& head, std::span<const std::byte> payload, std::uint64_t ticket);

  std::uint64_t payload_bytes() const { return payload_bytes_; }  // delivered

 private:
  struct Message {
    session::Role to = session::Role::kServer;
    wire::MessageHead head;
    std::span<const std::byte> payload;
    std::uint64_t ticket = 0;
    std::span<std::byte> place;
    std::uint32_t next_free = 0;
  };

  void work();
  void deliver(const scheduling::EgressQueue::Chunk& piece);
  paramserver::MessageSink& sink(session::Role role) const;

  transport::Loop& loop_;
  Rank rank_;
  Sinks sinks_;
  std::function<void(const Status&)> refused_;
  scheduling::EgressQueue queue_;
  std::array<scheduling::EgressQueue::Destination, 2> lanes_{};  // to the worker, to the server
  std::vector<Message> messages_;
  std::uint32_t free_;
  std::uint64_t payload_bytes_ = 0;
  bool stopped_ = false;
  std::unique_ptr<transport::Signal> work_signal_;
};

}  // namespace paceline::runtime

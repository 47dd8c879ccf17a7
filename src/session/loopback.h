// A session of a process with itself: messages between its halves go through memory, by the rules of the network. The more urgent
// message first, piece by piece, so that the loop serves sockets in between; delivered in callbacks from the loop, never inside
// send(). One copy per message, from where it stands to where its receiver wants it.
//
// Threads: belongs to the loop. Memory: nothing is allocated per message once warm.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "scheduling/egress_queue.h"
#include "session/endpoint.h"

namespace paceline::session {

class Loopback {
 public:
  // The loop and the handler outlive it.
  Loopback(transport::Loop& loop, PeerId self, wire::PeerName name, EndpointHandler& handler);

  PeerId self() const { return self_; }
  void set_egress(const scheduling::EgressRules& rules);
  // As Endpoint::send. After a refused message it does nothing.
  void send(const wire::MessageHead& head, std::span<const std::byte> payload, std::uint64_t ticket);

 private:
  struct Message {
    wire::MessageHead head;
    std::span<const std::byte> payload;
    std::uint64_t ticket = 0;
    std::span<std::byte> place;
    std::uint32_t next_free = 0;
  };

  void work();
  void deliver(const scheduling::EgressQueue::Chunk& piece);

  transport::Loop& loop_;
  PeerId self_;
  wire::PeerName name_;
  EndpointHandler& handler_;
  scheduling::EgressQueue queue_;
  scheduling::EgressQueue::Destination lane_;
  std::vector<Message> messages_;
  std::uint32_t free_;
  bool refused_ = false;
  std::unique_ptr<transport::Signal> work_signal_;
};

}  // namespace paceline::session

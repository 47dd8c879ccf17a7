// The order in which a worker needs its layers, told to servers and heard by them, so that its gradients are worked off and its
// values come back in that order (P3, section 4.2: a server goes by the worker's priorities). It is a permutation of the job's
// layers, so that no worker can make all of its own more urgent than others'.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "exchange/gatehouse.h"
#include "scheduling/urgency.h"
#include "session/channels.h"

namespace paceline::paramserver {

// A worker's side.
class ToldOrder {
 public:
  // Both outlive it.
  ToldOrder(exchange::Gatehouse& house, session::Sender& sender);

  // A permutation of the layers. Any thread, not locked; sent by the loop.
  void set(std::span<const std::int32_t> order);
  // Whether the ticket is one of an order. Loop only.
  bool on_delivered(std::uint64_t ticket);
  // Loop only.
  const scheduling::Urgency& urgency() const { return urgency_; }

 private:
  struct Sent {
    std::vector<std::int32_t> order;
    std::size_t receivers = 0;  // that have not heard of it
  };

  void send();

  exchange::Gatehouse& house_;
  session::Sender& sender_;
  std::vector<std::int32_t> next_;        // locked; empty: nothing new
  scheduling::Urgency urgency_;           // loop only, as what follows
  std::map<std::uint64_t, Sent> on_way_;  // by ticket
  std::uint64_t tickets_;                 // the next one
  std::unique_ptr<transport::Signal> signal_;
};

// A server's side. Loop only.
class HeardOrders {
 public:
  explicit HeardOrders(const job::Plan& plan) : layers_(plan.layers()) {}

  // Where an order of `bytes` bytes is received.
  Result<std::span<std::byte>> place(Rank worker, std::uint64_t bytes);
  // It is there. kBadRequest: it is none.
  Status on_order(Rank worker);
  // Of a gradient or value that this worker needs.
  Layer urgency(Rank worker, const scheduling::Unit& unit) const;

 private:
  struct Heard {
    std::vector<std::int32_t> order;
    scheduling::Urgency urgency;
  };

  std::int32_t layers_;
  std::map<Rank, Heard> heard_;  // of workers that have told one
};

}  // namespace paceline::paramserver

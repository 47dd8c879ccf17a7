// For tests only: the workers of a server, moved by hand.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "paramserver/service/server_service.h"

namespace paceline::paramserver::testing {

class HandWorkers final : public session::Sender {
 public:
  void send(Rank to, const wire::MessageHead& head, std::span<const std::byte>, std::uint64_t ticket) override {
    ASSERT_NE(channel_of(head.kind), wire::Channel::kServers) << "there is one server";
    values.push_back({to, head, ticket});
  }

  // What has been sent to workers is received.
  void deliver(ServerService& service) {
    for (const auto& [worker, head, ticket] : std::exchange(values, {}))
      service.on_delivered(worker, channel_of(head.kind), ticket);
  }

  struct Value {
    Rank worker;
    wire::MessageHead head;
    std::uint64_t ticket;
  };
  std::vector<Value> values;  // on their way
};

// A worker sends a unit of zeros.
inline void send_zeros(ServerService& service, std::int32_t worker, wire::MessageKind kind, std::uint32_t unit,
                       Iteration iteration) {
  const Rank from{worker};
  const std::uint64_t bytes = service.core().plan().payload_bytes(unit);
  const wire::MessageHead head{.kind = kind, .unit = unit, .iteration = iteration, .payload_bytes = bytes};
  const auto place = service.on_message_begin(from, head);
  ASSERT_TRUE(place.ok()) << place.status().message();
  std::ranges::fill(*place, std::byte{0});
  service.on_message(from, head, *place);
}

// Worker 0's initial values of all units, received by everybody.
inline void begin_with_zeros(ServerService& service, HandWorkers& workers) {
  for (const scheduling::Unit& unit : service.core().plan().units().units)
    send_zeros(service, 0, wire::MessageKind::kInitial, unit.id, 0);
  workers.deliver(service);
}

}  // namespace paceline::paramserver::testing

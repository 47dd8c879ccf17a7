// For tests only: the exchange of a worker whose loop and servers are moved by hand.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "exchange/gradient_exchange.h"
#include "job/testing_jobs.h"
#include "paramserver/service/server_carrier.h"
#include "paramserver/service/testing.h"

namespace paceline::exchange::testing {

// Worker 0's.
inline std::unique_ptr<GradientExchange> exchange_by(session::Sender& sender, const std::shared_ptr<const job::Plan>& plan,
                                                     transport::Loop& loop, std::span<float> parameters,
                                                     std::span<float> gradients) {
  auto house = std::make_unique<Gatehouse>(plan, Rank{0}, paramserver::gate_rule(plan->options().schedule), loop,
                                           GatehouseOptions{.stall_deadline = std::chrono::seconds(60), .on_failed = {}});
  auto carrier = std::make_unique<paramserver::ServerCarrier>(*house, sender, TensorMemory(plan, parameters, gradients));
  return std::make_unique<GradientExchange>(std::move(house), std::move(carrier));
}

// One server that answers a push with a value when it is told to.
class HandServer final : public session::Sender {
 public:
  void send(Rank, const wire::MessageHead& head, std::span<const std::byte>, std::uint64_t ticket) override {
    ASSERT_EQ(channel_of(head.kind), wire::Channel::kGradients) << "a worker sends to servers only";
    sent_.push_back({head, ticket});
  }

  void tell(GradientExchange& worker, Iteration iteration, const exchange::VerdictPart& part) {
    const wire::MessageHead head{
        .kind = wire::MessageKind::kVerdict, .layer = wire::kControlLayer, .iteration = iteration, .payload_bytes = part.bytes()};
    const auto place = worker.carrier().on_message_begin(kServer, head);
    ASSERT_TRUE(place.ok()) << place.status().message();
    part.write(*place);
    worker.carrier().on_message(kServer, head, *place);
  }

  struct Sent {
    wire::MessageHead head;
    std::uint64_t ticket;
  };
  const std::vector<Sent>& sent() const { return sent_; }  // and not answered

  void deliver(GradientExchange& worker) {
    for (const auto& [head, ticket] : sent_) worker.carrier().on_delivered(kServer, channel_of(head.kind), ticket);
  }
  void answer(GradientExchange& worker) {
    deliver(worker);
    for (const auto& [head, ticket] : std::exchange(sent_, {})) {
      if (head.kind != wire::MessageKind::kPush) continue;
      const wire::MessageHead value{.kind = wire::MessageKind::kValue,
                                    .layer = head.layer,
                                    .unit = head.unit,
                                    .iteration = head.iteration,
                                    .payload_bytes = head.payload_bytes};
      const auto place = worker.carrier().on_message_begin(kServer, value);
      ASSERT_TRUE(place.ok()) << place.status().message();
      worker.carrier().on_message(kServer, value, *place);
    }
  }

 private:
  static constexpr Rank kServer{0};
  std::vector<Sent> sent_;
};

}  // namespace paceline::exchange::testing

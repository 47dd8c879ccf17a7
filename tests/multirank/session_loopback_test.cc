// What one half of a process sends to the other, over a loop of inproc/ and of tcp/.
#include <limits>

#include <gmock/gmock.h>

#include "session_setting.h"

namespace paceline::session::testing {
namespace {

using ::testing::ElementsAre;
using wire::Channel;
using wire::MessageKind;

constexpr wire::PeerName kBoth0{wire::Role::kWorker | wire::Role::kServer, {0}};

class SessionLoopback : public SessionTest {
 protected:
  SessionLoopback() {
    both_.rank.on_loop([this] { self_ = both_.endpoint->connect_self(); });
  }
  // On the loop.
  void send(MessageKind kind, std::int32_t layer, std::span<const std::byte> payload, std::uint64_t ticket) {
    both_.endpoint->send(self_, {.kind = kind, .layer = {layer}, .payload_bytes = payload.size()}, payload, ticket);
  }

  Node both_{backend_, named(kBoth0)};
  PeerId self_ = 0;
};

TEST_P(SessionLoopback, TheMoreUrgentMessageComesFirstAndEachIsDeliveredInItsChannel) {
  std::vector<std::byte> large(1 << 20), small(100);
  fill(large, 0, 0, 1);
  fill(small, 0, 0, 2);
  constexpr auto kLargest = std::numeric_limits<std::uint64_t>::max();
  both_.rank.on_loop([&] {
    send(MessageKind::kPush, 5, large, kLargest);
    send(MessageKind::kValue, 0, small, std::uint64_t{1} << 63);
    send(MessageKind::kDone, -1, {}, 7);
    EXPECT_TRUE(both_.arrived.empty()) << "inside send()";
  });
  both_.wait_until("three deliveries", [](Node& node) { return node.delivered.size() == 3; });
  both_.rank.on_loop([&] {
    std::vector<MessageKind> kinds;
    for (const auto& arrival : both_.arrived) {
      EXPECT_EQ(arrival.peer, self_);
      kinds.push_back(arrival.head.kind);
    }
    EXPECT_THAT(kinds, ElementsAre(MessageKind::kDone, MessageKind::kValue, MessageKind::kPush));
    EXPECT_TRUE(is_filled(both_.arrived.at(1).payload, 0, 0, 2));
    EXPECT_TRUE(is_filled(both_.arrived.at(2).payload, 0, 0, 1));
    EXPECT_THAT(both_.channels, ElementsAre(Channel::kGradients, Channel::kValues, Channel::kGradients));
    EXPECT_TRUE(both_.delivered.contains(kLargest));
    EXPECT_TRUE(both_.peers.empty()) << "nobody has come";
  });
}

TEST_P(SessionLoopback, AMessageThatTheProcessRefusesEndsItsSessionWithItselfOnce) {
  const std::vector<std::byte> payload(10);
  both_.rank.on_loop([&] {
    both_.begin_hook = [](PeerId, const wire::MessageHead&) { return error(ErrorKind::kCorrupt, "no unit of that number"); };
    send(MessageKind::kPush, 0, payload, 1);
    send(MessageKind::kDone, 1, {}, 2);
  });
  const Status reason = both_.wait_lost(self_);
  EXPECT_EQ(reason.kind(), ErrorKind::kCorrupt);
  EXPECT_EQ(reason.message(), "no unit of that number");
  both_.rank.on_loop([&] {
    EXPECT_EQ(both_.lost.at(self_).name, kBoth0);
    send(MessageKind::kDone, 0, {}, 3);
  });
  both_.rank.on_loop([&] {
    EXPECT_TRUE(both_.arrived.empty());
    EXPECT_TRUE(both_.delivered.empty());
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, SessionLoopback,
                         ::testing::Values(&transport::testing::inproc_backend, &transport::testing::tcp_backend),
                         transport::testing::backend_name);

}  // namespace
}  // namespace paceline::session::testing

// Ends of channels: two processes, of which one knows the other by a rank.
#include <new>

#include <gmock/gmock.h>

#include "session/channels.h"
#include "session_setting.h"

namespace paceline::session::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::Channel;
using wire::MessageKind;

// Writes down what it is told. Loop only.
class End final : public ChannelEnd {
 public:
  Result<std::span<std::byte>> on_message_begin(paceline::Rank from, const wire::MessageHead& head) override {
    said.push_back(fmt::format("begin {} from {}", static_cast<int>(head.kind), from.value));
    place.resize(head.payload_bytes);
    return std::span(place);
  }
  void on_message(paceline::Rank from, const wire::MessageHead& head, std::span<std::byte>) override {
    said.push_back(fmt::format("message {} from {}", static_cast<int>(head.kind), from.value));
  }
  void on_delivered(paceline::Rank to, Channel, std::uint64_t ticket) override {
    said.push_back(fmt::format("delivered {} to {}", ticket, to.value));
  }
  void on_peer_lost(paceline::Rank peer, Channel channel, const Status&) override {
    said.push_back(fmt::format("lost {} in {}", peer.value, static_cast<int>(channel)));
  }

  std::vector<std::string> said;
  std::vector<std::byte> place;
};

class SessionChannels : public SessionTest {
 protected:
  // Worker 1 has a session with server 0, which both know.
  void connect() {
    const auto address = server_.listen(backend_.host);
    at_worker_ = worker_.connect(address, kServer);
    worker_.wait_peer(kServer);
    at_server_ = server_.wait_peer(kWorker1);
  }
  wire::MessageHead head(MessageKind kind, std::size_t bytes = 0) const { return {.kind = kind, .payload_bytes = bytes}; }

  End values_, gradients_;
  Node server_{backend_, named(kServer)}, worker_{backend_, named(kWorker1)};
  PeerId at_worker_ = 0, at_server_ = 0;
};

TEST_P(SessionChannels, WhatComesGoesToTheEndOfItsChannelWithTheRankAndTheRestToTheHandler) {
  connect();
  const std::vector<std::byte> payload(10);
  server_.rank.on_loop([&] {
    server_.endpoint->channels().open(Channel::kGradients, nullptr, &gradients_);
    server_.endpoint->channels().hear(Channel::kGradients, paceline::Rank{7}, at_server_);
  });
  worker_.rank.on_loop([&] {
    Channels& channels = worker_.endpoint->channels();
    channels.open(Channel::kGradients, &values_, nullptr);
    channels.reach(Channel::kGradients, paceline::Rank{3}, at_worker_);
    channels.send(paceline::Rank{3}, head(MessageKind::kPush, payload.size()), payload, 5);
    worker_.endpoint->send(at_worker_, head(MessageKind::kBarrier), {}, 6);  // nobody has an end of that channel
  });
  worker_.wait_until("a delivery here and one at the handler",
                     [&](Node& node) { return !values_.said.empty() && node.delivered.contains(6); });
  worker_.rank.on_loop([&] { EXPECT_THAT(values_.said, ElementsAre("delivered 5 to 3")); });
  server_.wait_until("the other message", [](Node& node) { return node.arrived.size() == 1; });
  server_.rank.on_loop([&] {
    const auto kind = static_cast<int>(MessageKind::kPush);
    EXPECT_THAT(gradients_.said, ElementsAre(fmt::format("begin {} from 7", kind), fmt::format("message {} from 7", kind)));
    EXPECT_EQ(server_.arrived[0].head.kind, MessageKind::kBarrier);
  });
}

TEST_P(SessionChannels, OneThatIsNotHeardInAChannelIsTheHandlersBusiness) {
  connect();
  server_.rank.on_loop([&] {
    server_.endpoint->channels().open(Channel::kGradients, nullptr, &gradients_);  // and this peer does not send there
    server_.begin_hook = [](PeerId, const wire::MessageHead&) { return error(ErrorKind::kBadRequest, "no business of yours"); };
  });
  const std::vector<std::byte> payload(10);
  worker_.rank.on_loop([&] { worker_.endpoint->send(at_worker_, head(MessageKind::kPush, payload.size()), payload, 5); });
  EXPECT_THAT(worker_.wait_lost(at_worker_).message(), ::testing::HasSubstr("no business of yours"));
  static_cast<void>(server_.wait_lost(at_server_));
  server_.rank.on_loop([&] { EXPECT_THAT(gradients_.said, IsEmpty()); });
}

TEST_P(SessionChannels, MemoryThatLacksForAMessageEndsItsSessionAndNotTheProcess) {
  connect();
  server_.rank.on_loop([&] {
    server_.begin_hook = [](PeerId, const wire::MessageHead&) -> Result<std::span<std::byte>> { throw std::bad_alloc(); };
  });
  const std::vector<std::byte> payload(10);
  worker_.rank.on_loop([&] { worker_.endpoint->send(at_worker_, head(MessageKind::kPush, payload.size()), payload, 5); });
  EXPECT_THAT(worker_.wait_lost(at_worker_).message(), ::testing::HasSubstr("there is no memory for its 10 bytes"));
  static_cast<void>(server_.wait_lost(at_server_));
}

TEST_P(SessionChannels, WhatIsForOneThatHasNotComeWaitsInOrderAndForOneThatIsLostGoes) {
  worker_.rank.on_loop([&] {
    worker_.endpoint->channels().open(Channel::kGradients, &values_, nullptr);
    for (const std::uint64_t ticket : {7, 8})
      worker_.endpoint->channels().send(paceline::Rank{0}, head(MessageKind::kDone), {}, ticket);
    worker_.endpoint->channels().send(paceline::Rank{1}, head(MessageKind::kDone), {}, 9);  // of another rank
  });
  connect();
  worker_.rank.on_loop([&] { worker_.endpoint->channels().reach(Channel::kGradients, paceline::Rank{0}, at_worker_); });
  worker_.wait_until("two deliveries", [&](Node&) { return values_.said.size() == 2; });
  worker_.rank.on_loop([&] {
    EXPECT_THAT(values_.said, ElementsAre("delivered 7 to 0", "delivered 8 to 0"));
    worker_.endpoint->drop(at_worker_, "enough");
  });
  static_cast<void>(worker_.wait_lost(at_worker_));
  worker_.rank.on_loop([&] {
    EXPECT_EQ(values_.said.back(), fmt::format("lost 0 in {}", static_cast<int>(Channel::kGradients)));
    worker_.endpoint->channels().send(paceline::Rank{0}, head(MessageKind::kDone), {}, 10);
  });
  connect();
  worker_.rank.on_loop([&] {
    worker_.endpoint->channels().reach(Channel::kGradients, paceline::Rank{0}, at_worker_);
    worker_.endpoint->channels().send(paceline::Rank{0}, head(MessageKind::kDone), {}, 11);
  });
  worker_.wait_until("another delivery", [&](Node&) { return values_.said.size() == 4; });
  worker_.rank.on_loop([&] { EXPECT_EQ(values_.said.back(), "delivered 11 to 0"); });
}

TEST_P(SessionChannels, EachEndIsToldOfALostPeerOnceInEachChannelAndBeforeTheHandler) {
  connect();
  worker_.rank.on_loop([&] {
    Channels& channels = worker_.endpoint->channels();
    channels.open(Channel::kGradients, &values_, &gradients_);
    channels.open(Channel::kServers, &values_, &values_);
    for (const Channel channel : {Channel::kGradients, Channel::kServers}) {
      channels.reach(channel, paceline::Rank{0}, at_worker_);
      channels.hear(channel, paceline::Rank{0}, at_worker_);
    }
    worker_.lost_hook = [&](PeerId, const Status&) { values_.said.push_back("and the handler"); };
    worker_.endpoint->drop(at_worker_, "enough");
  });
  static_cast<void>(worker_.wait_lost(at_worker_));
  worker_.rank.on_loop([&] {
    const auto lost = [](Channel channel) { return fmt::format("lost 0 in {}", static_cast<int>(channel)); };
    EXPECT_THAT(values_.said, ElementsAre(lost(Channel::kGradients), lost(Channel::kServers), "and the handler"));
    EXPECT_THAT(gradients_.said, ElementsAre(lost(Channel::kGradients)));
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, SessionChannels,
                         ::testing::Values(&transport::testing::inproc_backend, &transport::testing::tcp_backend),
                         transport::testing::backend_name);

}  // namespace
}  // namespace paceline::session::testing

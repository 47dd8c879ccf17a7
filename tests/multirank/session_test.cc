// How sessions begin and end, over inproc/ and tcp/: refusals, second connections, frozen and dead peers, goodbyes; and that urgent
// messages overtake.
#include <gmock/gmock.h>

#include "session_setting.h"
#include "transport/faulty/faulty_transport.h"

namespace paceline::session::testing {
namespace {

using ::testing::HasSubstr;

TEST_P(SessionTest, MessagesOfEverySizeArriveAndTheSendersPayloadComesBack) {
  Node server(backend_, named(kServer)), worker(backend_, named(kWorker1));
  worker.connect(server.listen(backend_.host), kServer);
  const PeerId to = worker.wait_peer(kServer);
  server.wait_peer(kWorker1);
  const std::vector<std::size_t> sizes = {0, 1, 1023, 1024, 1025, 2048, 100'000};
  std::vector<std::vector<std::byte>> payloads;
  for (const std::size_t size : sizes) fill(payloads.emplace_back(size), 1, 0, size);
  worker.rank.on_loop([&] {
    for (std::uint32_t i = 0; i < payloads.size(); ++i) {
      auto h = head(i);
      h.payload_bytes = payloads[i].size();
      worker.endpoint->send(to, h, payloads[i], i);
    }
  });
  server.wait_until("all", [&](Node& node) { return node.arrived.size() == sizes.size(); });
  worker.wait_until("deliveries", [&](Node& node) { return node.delivered.size() == sizes.size(); });
  server.rank.stop();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(server.arrived[i].head.unit, i) << "equal layers keep their order";
    EXPECT_EQ(server.arrived[i].payload, payloads[i]);
  }
}

TEST_P(SessionTest, AnUrgentMessageOvertakesTheBacklogAndWaitsOnlyForTheWindow) {
  for (const Order order : {Order::kByLayer, Order::kFirstInFirstOut}) {
    auto options = named(kWorker1);
    options.order = order;
    Node server(backend_, named(kServer)), worker(backend_, options);
    worker.connect(server.listen(backend_.host), kServer);
    const PeerId to = worker.wait_peer(kServer);
    constexpr std::uint32_t kBacklog = 200;
    std::vector<std::byte> payload(1024);
    worker.rank.on_loop([&] {
      for (std::uint32_t i = 0; i <= kBacklog; ++i) {
        auto h = head(i, i == kBacklog ? 0 : 9);
        h.payload_bytes = payload.size();
        worker.endpoint->send(to, h, payload, i);
      }
    });
    server.wait_until("all", [&](Node& node) { return node.arrived.size() == kBacklog + 1; });
    worker.wait_until("deliveries", [&](Node& node) { return node.delivered.size() == kBacklog + 1; });
    server.rank.stop();
    const auto urgent =
        std::find_if(server.arrived.begin(), server.arrived.end(), [](const Node::Arrival& a) { return a.head.unit == kBacklog; });
    // The window is 4 chunks; they had left before the urgent one was there.
    EXPECT_EQ(urgent - server.arrived.begin(), order == Order::kByLayer ? 4 : static_cast<std::ptrdiff_t>(kBacklog));
    EXPECT_EQ(worker.counters().overtakes, order == Order::kByLayer ? 1U : 0U);
  }
}

TEST_P(SessionTest, GradientsAndValuesOfOneLayerTakeTurnsOnALinkThatBothUse) {
  Node peer(backend_, named(kServer)), node(backend_, named(kWorker1));
  node.connect(peer.listen(backend_.host), kServer);
  const PeerId to = node.wait_peer(kServer);
  constexpr std::uint32_t kEach = 30, kWindow = 4;
  std::vector<std::byte> payload(1024);
  node.rank.on_loop([&] {
    for (std::uint32_t i = 0; i < 2 * kEach; ++i) {
      auto h = head(i, 3);
      h.kind = i < kEach ? wire::MessageKind::kPush : wire::MessageKind::kValue;
      h.payload_bytes = payload.size();
      node.endpoint->send(to, h, payload, i);
    }
  });
  peer.wait_until("all", [&](Node& at) { return at.arrived.size() == 2 * kEach; });
  node.wait_until("deliveries", [&](Node& at) { return at.delivered.size() == 2 * kEach; });
  peer.rank.stop();
  // A window of gradients had left before the first value was there; then a value, a gradient, and so on.
  std::vector<std::uint32_t> expected;
  for (std::uint32_t i = 0; i < kWindow; ++i) expected.push_back(i);
  for (std::uint32_t i = kWindow; i < kEach; ++i) {
    expected.push_back(kEach + i - kWindow);
    expected.push_back(i);
  }
  for (std::uint32_t i = kEach - kWindow; i < kEach; ++i) expected.push_back(kEach + i);
  std::vector<std::uint32_t> arrived;
  for (const Node::Arrival& arrival : peer.arrived) arrived.push_back(arrival.head.unit);
  EXPECT_EQ(arrived, expected);
  EXPECT_EQ(node.counters().turns, 2 * (kEach - kWindow));
  EXPECT_EQ(node.counters().overtakes, 0U);
  EXPECT_GT(node.counters().window_full, 0U);
}

TEST_P(SessionTest, CountsHowLongValuesWereReadyBeforeTheyLeft) {
  Node server(backend_, named(kServer)), worker(backend_, named(kWorker1));
  worker.connect(server.listen(backend_.host), kServer);
  const PeerId peer = server.wait_peer(kWorker1);
  server.send_owned(peer, head(0), std::vector<std::byte>(100));  // a gradient
  for (const std::uint32_t unit : {1U, 2U}) {
    auto value = head(unit);
    value.kind = wire::MessageKind::kValue;
    server.send_owned(peer, value, std::vector<std::byte>(50'000));  // of which the window lets a part pass
  }
  worker.wait_until("all of them", [](Node& node) { return node.arrived.size() == 3; });
  const EndpointCounters counters = server.counters();
  EXPECT_EQ(counters.replies, 2U);
  EXPECT_GT(counters.replies_waited, Duration::zero());
}

TEST_P(SessionTest, TheWindowFollowsWhatIsAcknowledgedOnceItIsToldTo) {
  Node peer(backend_, named(kServer)), node(backend_, named(kWorker1));
  node.connect(peer.listen(backend_.host), kServer);
  const PeerId to = node.wait_peer(kServer);
  node.rank.on_loop([&] { node.endpoint->set_egress({.window = {.size = {131'072}}}); });
  std::vector<std::byte> payload(1 << 20);
  // As much as it takes to keep the link busy for some samples, however fast this machine is.
  std::uint32_t sent = 0;
  node.wait_until("a rate", [&](Node& at) {
    if (at.endpoint->link().rate) return true;
    while (sent < at.delivered.size() + 8) {
      auto h = head(sent, 3);
      h.payload_bytes = payload.size();
      at.endpoint->send(to, h, payload, sent++);
    }
    return false;
  });
  node.wait_until("deliveries", [&](Node& at) { return at.delivered.size() == sent; });
  LinkState link;
  node.rank.on_loop([&] { link = node.endpoint->link(); });
  ASSERT_TRUE(link.rate && link.round_trip);
  EXPECT_GT(link.rate->value, 0);
  EXPECT_GE(link.window.count, 131'072);
  EXPECT_LE(link.window, scheduling::kLargestFollowing);
  EXPECT_EQ(link.chunk, scheduling::chunk_for(link.window));
}

TEST_P(SessionTest, AFrozenPeerDoesNotKeepOthersFromBeingServed) {
  Node frozen(backend_, named(kWorker1, 60s)), quick(backend_, named(kWorker2, 60s)), server(backend_, named(kServer, 60s));
  const auto address = server.listen(backend_.host);
  frozen.connect(address, kServer);
  quick.connect(address, kServer);
  const PeerId to_frozen = server.wait_peer(kWorker1), to_quick = server.wait_peer(kWorker2);
  frozen.wait_peer(kServer);
  frozen.freeze();
  std::vector<std::byte> payload(50'000);
  server.rank.on_loop([&] {
    auto h = head(0, 0);
    h.payload_bytes = payload.size();
    server.endpoint->send(to_frozen, h, payload, 1000);
    for (std::uint64_t i = 0; i < 20; ++i) server.endpoint->send(to_quick, h, payload, i);
  });
  server.wait_until("the quick peer's messages", [](Node& node) { return node.delivered.size() == 20; });
  server.rank.stop();
  EXPECT_FALSE(server.delivered.contains(1000));
}

TEST_P(SessionTest, AFrozenPeerIsLostWithinTheDeadlineAndNamedByBothSides) {
  for (const bool connecting_freezes : {false, true}) {
    const Duration deadline = 1s;
    Node server(backend_, named(kServer, deadline)), worker(backend_, named(kWorker2, deadline));
    worker.connect(server.listen(backend_.host), kServer);
    const PeerId of_worker = server.wait_peer(kWorker2), of_server = worker.wait_peer(kServer);
    Node& frozen = connecting_freezes ? worker : server;
    Node& other = connecting_freezes ? server : worker;
    const PeerId peer = connecting_freezes ? of_worker : of_server;
    frozen.freeze();
    const auto from = std::chrono::steady_clock::now();
    const Status reason = other.wait_lost(peer);
    EXPECT_GE(std::chrono::steady_clock::now() - from, deadline / 2) << "too early to be sure";
    EXPECT_EQ(reason.kind(), ErrorKind::kPeerLost);
    EXPECT_THAT(reason.message(), HasSubstr(frozen.options.self.text() + " ("));
    EXPECT_THAT(reason.message(), HasSubstr("was silent for longer than 1.0 s"));
    EXPECT_THAT(reason.message(), HasSubstr("; last heard 1.0 s ago"));
  }
}

TEST_P(SessionTest, ADeadPeerIsLostWithinTheDeadlineAndWhatWasSentToItIsTheCallersAgain) {
  Node server(backend_, named(kServer, 1s)), worker(backend_, named(kWorker2, 1s));
  worker.connect(server.listen(backend_.host), kServer);
  const PeerId peer = worker.wait_peer(kServer);
  server.kill();
  std::vector<std::byte> payload(100'000);
  worker.rank.on_loop([&] {
    auto h = head(0);
    h.payload_bytes = payload.size();
    worker.endpoint->send(peer, h, payload, 1);
  });
  const Status reason = worker.wait_lost(peer);
  payload.clear();
  payload.shrink_to_fit();  // a later touch would be found
  EXPECT_EQ(reason.kind(), ErrorKind::kPeerLost);
  EXPECT_THAT(reason.message(), HasSubstr("server 0 ("));
  worker.send_owned(peer, head(1), {});  // does nothing
  worker.close(10s);
}

TEST(SessionWay, ThatLosesLargePacketsIsToldThoughItsConnectionsComeBack) {
  const Backend sound = transport::testing::tcp_backend();
  Backend hole = sound;
  hole.make = [&] { return transport::make_faulty_transport(sound.make(), {.longest_frame = 900}); };
  Node server(sound, named(kServer, 2s)), worker(hole, named(kWorker1, 2s));
  worker.connect(server.listen(sound.host), kServer);
  const PeerId peer = worker.wait_peer(kServer);
  worker.send_owned(peer, head(1), std::vector<std::byte>(100));
  server.wait_until("what is small", [](Node& node) { return node.arrived.size() == 1; });
  worker.send_owned(peer, head(2), std::vector<std::byte>(10'000));
  const Status reason = worker.wait_lost(peer);
  EXPECT_EQ(reason.kind(), ErrorKind::kPeerLost);
  EXPECT_EQ(reason.code(), "unreachable");
  EXPECT_THAT(reason.message(), HasSubstr("server 0 ("));
  EXPECT_THAT(reason.message(), HasSubstr("over more than one connection: small packets pass, large ones do not: look at the MTU"));
  EXPECT_GE(worker.counters().reconnects, 1U);
}

TEST_P(SessionTest, IdleSessionsLiveOnHeartbeats) {
  Node server(backend_, named(kServer, 400ms)), worker(backend_, named(kWorker1, 400ms));
  worker.connect(server.listen(backend_.host), kServer);
  const PeerId peer = worker.wait_peer(kServer);
  auto passed = std::make_shared<std::promise<void>>();
  worker.rank.on_loop([&] { worker.rank.loop().run_after(2s, [passed] { passed->set_value(); }); });
  ASSERT_EQ(passed->get_future().wait_for(kPatience), std::future_status::ready);
  worker.send_owned(peer, head(5), {});
  server.wait_until("a message after the silence", [](Node& node) { return node.arrived.size() == 1; });
  server.rank.stop();
  EXPECT_TRUE(server.lost.empty());
}

TEST_P(SessionTest, APeerThatIsFrozenHoldsNobodyUp) {
  std::promise<void> thaw;
  Node server(backend_, named(kServer, 60s)), frozen(backend_, named(kWorker1, 60s)), other(backend_, named(kWorker2, 60s));
  const auto at = server.listen(backend_.host);
  frozen.connect(at, kServer);
  other.connect(at, kServer);
  const PeerId of_frozen = server.wait_peer(kWorker1), of_other = server.wait_peer(kWorker2);
  frozen.rank.loop().post([&thaw] { thaw.get_future().wait(); });
  server.send_owned(of_frozen, head(0), std::vector<std::byte>(100'000));
  server.send_owned(of_other, head(1), std::vector<std::byte>(1536));  // a chunk and its tail
  other.wait_until("a message", [](Node& node) { return node.arrived.size() == 1; });
  thaw.set_value();
  frozen.wait_until("its message", [](Node& node) { return node.arrived.size() == 1; });
}

TEST_P(SessionTest, AGoodbyeEndsTheSessionAtOnceWithItsReason) {
  Node server(backend_, named(kServer, 60s)), worker(backend_, named(kWorker2, 60s));
  worker.connect(server.listen(backend_.host), kServer);
  const PeerId of_server = worker.wait_peer(kServer), of_worker = server.wait_peer(kWorker2);
  server.rank.on_loop([&] { server.endpoint->drop(of_worker, "evicted: too slow"); });
  const Status told = worker.wait_lost(of_server);
  EXPECT_EQ(told.kind(), ErrorKind::kCancelled);
  EXPECT_THAT(told.message(), HasSubstr("server 0 ("));
  EXPECT_THAT(told.message(), HasSubstr("said goodbye: evicted: too slow"));
  EXPECT_EQ(server.wait_lost(of_worker).kind(), ErrorKind::kCancelled);
}

TEST_P(SessionTest, CloseWaitsUntilEverythingHasArrivedAndSaysGoodbye) {
  Node server(backend_, named(kServer, 60s)), worker(backend_, named(kWorker1, 60s));
  worker.connect(server.listen(backend_.host), kServer);
  const PeerId peer = worker.wait_peer(kServer), of_worker = server.wait_peer(kWorker1);
  for (std::uint32_t i = 0; i < 50; ++i) worker.send_owned(peer, head(i), std::vector<std::byte>(30'000));
  worker.close(100s);
  EXPECT_EQ(worker.lost.at(peer).reason.kind(), ErrorKind::kCancelled);
  EXPECT_EQ(server.wait_lost(of_worker).kind(), ErrorKind::kCancelled);
  server.rank.stop();
  EXPECT_EQ(server.arrived.size(), 50U);
}

TEST_P(SessionTest, CloseGivesUpOnAPeerThatDoesNotAcknowledge) {
  Node server(backend_, named(kServer, 60s)), worker(backend_, named(kWorker1, 60s));
  worker.connect(server.listen(backend_.host), kServer);
  const PeerId peer = worker.wait_peer(kServer);
  server.freeze();
  worker.send_owned(peer, head(0), std::vector<std::byte>(30'000));
  worker.close(100ms);
  EXPECT_TRUE(worker.lost.contains(peer));
}

TEST_P(SessionTest, ARefusalReachesTheOneWhoConnectsWithItsReason) {
  Node coordinator(backend_, {.self = {wire::Role::kCoordinator, {0}}}),
      worker(backend_, {.self = {wire::Role::kWorker, {-1}}, .seed = 3});
  coordinator.hello_hook = [](const wire::PeerName& name) {
    return error(ErrorKind::kBadRequest, "the job is full; {} comes too late", name.text());
  };
  const PeerId peer = worker.connect(coordinator.listen(backend_.host), {wire::Role::kCoordinator, {-1}});
  const Status reason = worker.wait_lost(peer);
  EXPECT_EQ(reason.kind(), ErrorKind::kBadRequest);
  EXPECT_THAT(reason.message(), HasSubstr("coordinator ("));
  EXPECT_THAT(reason.message(), HasSubstr("refused: the job is full; worker without a rank yet comes too late"));
  EXPECT_EQ(coordinator.counters().hellos_refused, 1U);
}

TEST_P(SessionTest, TwoJoiningWorkersOfTheSameSeedAreTwoSessions) {
  Node coordinator(backend_, {.self = {wire::Role::kCoordinator, {0}}}), a(backend_, {.self = {wire::Role::kWorker, {-1}}}),
      b(backend_, {.self = {wire::Role::kWorker, {-1}}});
  const auto address = coordinator.listen(backend_.host);
  a.connect(address, {wire::Role::kCoordinator, {-1}});
  b.connect(address, {wire::Role::kCoordinator, {-1}});
  coordinator.wait_until("both", [](Node& node) { return node.peers.size() == 2; });
  EXPECT_EQ(coordinator.counters().reconnects, 0U);
}

TEST_P(SessionTest, ASecondProcessOfTheSameNameIsRefusedNamingTheFirst) {
  Node server(backend_, named(kServer)), first(backend_, named(kWorker2)), second(backend_, named(kWorker2));
  const auto address = server.listen(backend_.host);
  const PeerId of_first = first.connect(address, kServer);
  first.wait_peer(kServer);
  const PeerId of_worker = server.wait_peer(kWorker2);
  std::string where;
  server.rank.on_loop([&] { where = server.endpoint->address_of(of_worker); });
  EXPECT_FALSE(where.empty());
  const Status reason = second.wait_lost(second.connect(address, kServer));
  EXPECT_EQ(reason.kind(), ErrorKind::kBadRequest);
  EXPECT_THAT(reason.message(), HasSubstr("worker 2 is already in this job at " + where));
  first.send_owned(of_first, head(1), {});
  server.wait_until("a message of the first", [](Node& node) { return node.arrived.size() == 1; });
}

TEST_P(SessionTest, TheWrongDestinationJobOrEpochIsRefused) {
  Node server(backend_, named(kServer));
  const auto address = server.listen(backend_.host);
  const auto refusal = [&](auto change, const wire::PeerName& expected) {
    auto options = named(kWorker1);
    change(options);
    Node worker(backend_, options);
    const Status reason = worker.wait_lost(worker.connect(address, expected));
    EXPECT_EQ(reason.kind(), ErrorKind::kBadRequest);
    return reason.message();
  };
  EXPECT_THAT(refusal([](EndpointOptions&) {}, {wire::Role::kServer, {3}}),
              HasSubstr("the process at this address is server 0, not server 3"));
  EXPECT_THAT(refusal([](EndpointOptions& o) { o.job = 8; }, kServer), HasSubstr("worker 1 belongs to job 0000000000000008"));
  EXPECT_THAT(refusal([](EndpointOptions& o) { o.epoch = 1; }, kServer),
              HasSubstr("stale epoch: worker 1 is at membership epoch 1, server 0 at 2"));
}

TEST_P(SessionTest, WhoDoesNotKnowItsRankYetIsTriedAgainUntilItDoes) {
  const wire::PeerName other{wire::Role::kServer, {kServer.rank.value + 1}};
  Node waiting(backend_, named({wire::Role::kServer, {-1}})), worker(backend_, named(kWorker1)), early(backend_, named(other));
  const auto address = waiting.listen(backend_.host);
  const PeerId attempt = early.connect(address, kServer);
  // Somebody who does not care for the rank is served meanwhile, so the listener is up and has seen the other.
  worker.connect(address, {wire::Role::kServer, {-1}});
  waiting.wait_peer(kWorker1);
  waiting.rank.on_loop([&] { waiting.endpoint->set_identity(kServer, 0, 0); });
  EXPECT_EQ(early.wait_peer(kServer), attempt);
  waiting.wait_peer(other);
}

TEST_P(SessionTest, ProcessesMayStartInAnyOrder) {
  transport::Address address;
  {
    Node earlier(backend_, named(kServer));
    address = earlier.listen(backend_.host);
  }
  Node worker(backend_, named(kWorker1));
  const PeerId peer = worker.connect(address, kServer);
  worker.send_owned(peer, head(3), std::vector<std::byte>(5000));  // waits with it
  Node server(backend_, named(kServer));
  server.rank.on_loop([&] { ASSERT_TRUE(server.endpoint->listen(address).ok()); });
  server.wait_until("the message", [](Node& node) { return node.arrived.size() == 1; });
}

TEST_P(SessionTest, WhoCannotBeReachedIsLostAtTheDeadlineOfTheConnect) {
  transport::Address address;
  {
    Node gone(backend_, named(kServer));
    address = gone.listen(backend_.host);
  }
  Node worker(backend_, named(kWorker1));
  const Status reason = worker.wait_lost(worker.connect(address, kServer, 200ms));
  EXPECT_EQ(reason.kind(), ErrorKind::kPeerLost);
  EXPECT_THAT(reason.message(), HasSubstr(fmt::format("server 0 ({}) could not be reached in 200.0 ms", address.text())));
}

TEST_P(SessionTest, AMessageThatTheHandlerRefusesEndsTheSessionOnBothSides) {
  Node server(backend_, named(kServer)), worker(backend_, named(kWorker1));
  server.begin_hook = [](PeerId, const wire::MessageHead&) -> Result<std::span<std::byte>> {
    return error(ErrorKind::kBadRequest, "unit 9 does not exist");
  };
  worker.connect(server.listen(backend_.host), kServer);
  const PeerId of_server = worker.wait_peer(kServer), of_worker = server.wait_peer(kWorker1);
  worker.send_owned(of_server, head(9), std::vector<std::byte>(10'000));
  const Status here = server.wait_lost(of_worker);
  EXPECT_EQ(here.kind(), ErrorKind::kBadRequest);
  EXPECT_THAT(here.message(), HasSubstr("unit 9 does not exist"));
  EXPECT_THAT(worker.wait_lost(of_server).message(), HasSubstr("unit 9 does not exist"));
}

TEST_P(SessionTest, ARestartedProcessDoesNotTakeUpASessionThatItNeverHad) {
  auto server = std::make_unique<Node>(backend_, named(kServer, 60s));
  Node worker(backend_, named(kWorker1, 60s));
  const auto address = server->listen(backend_.host);
  worker.connect(address, kServer);
  const PeerId peer = worker.wait_peer(kServer);
  worker.rank.on_loop([&] {  // which so finds nobody missing at the address
    server->kill();
    server = std::make_unique<Node>(backend_, named(kServer, 60s));
    server->rank.on_loop([&] { ASSERT_TRUE(server->endpoint->listen(address).ok()); });
  });
  const Status reason = worker.wait_lost(peer);
  EXPECT_EQ(reason.kind(), ErrorKind::kPeerLost);
  EXPECT_THAT(reason.message(), HasSubstr("does not know this session any more"));
}

// Somebody in the middle turns a member's own connection back to it; all members hold the same key, so only the names tell.
TEST_P(SessionTest, AConnectionThatComesBackToItsOwnSideIsRefused) {
  Node worker(backend_, named(kWorker1));
  const Status reason = worker.wait_lost(worker.connect(worker.listen(backend_.host), kWorker2));
  EXPECT_EQ(reason.kind(), ErrorKind::kBadRequest);
  EXPECT_THAT(reason.message(), HasSubstr("refused"));
  worker.wait_until("nobody came in", [](Node& node) { return node.peers.empty(); });
}

INSTANTIATE_TEST_SUITE_P(Backends, SessionTest,
                         ::testing::Values(&transport::testing::inproc_backend, &transport::testing::tcp_backend,
                                           &transport::testing::tls_backend),
                         transport::testing::backend_name);

}  // namespace
}  // namespace paceline::session::testing

// Processes that have ended, and connections that were only cut: which is which, long before the silence deadline. That is an hour
// here, so whatever is noticed was noticed by something else.
#include <atomic>

#include <gmock/gmock.h>

#include "session_raw_peer.h"

namespace paceline::session::testing {
namespace {

using ::testing::HasSubstr;

constexpr Duration kHour = 1h;

class SessionDeath : public SessionTest {};

bool notices(Node& node) { return node.endpoint->counters().doors == 1; }

TEST_P(SessionDeath, AProcessThatHasEndedIsNamedByTheSideThatItConnectedTo) {
  Node server(backend_, named(kServer, kHour)), worker(backend_, named(kWorker2, kHour));
  worker.connect(server.listen(backend_.host), kServer);
  const PeerId peer = server.wait_peer(kWorker2);
  server.wait_until("the worker's door", notices);
  worker.kill();
  const Status reason = server.wait_lost(peer);
  EXPECT_EQ(reason.kind(), ErrorKind::kPeerLost);
  EXPECT_THAT(reason.message(), HasSubstr("worker 2 ("));
  EXPECT_THAT(reason.message(), HasSubstr(" has ended: its connection closed, and its process is there no more; last heard"));
}

TEST_P(SessionDeath, AndByTheSideThatHadConnectedToIt) {
  Node server(backend_, named(kServer, kHour)), worker(backend_, named(kWorker2, kHour));
  worker.connect(server.listen(backend_.host), kServer);
  const PeerId peer = worker.wait_peer(kServer);
  server.wait_peer(kWorker2);
  server.kill();
  const Status reason = worker.wait_lost(peer);
  EXPECT_EQ(reason.kind(), ErrorKind::kPeerLost);
  EXPECT_THAT(reason.message(), HasSubstr("server 0 ("));
  EXPECT_THAT(reason.message(), HasSubstr(" has ended: "));
}

// What it says when it comes back: over a connection of its own, or not at all.
wire::Verdict come_back(RawPeer& raw, const transport::Address& to, wire::Hello hello) {
  ++hello.attempt;
  hello.resume = wire::Hello::Resume::kYes;
  return greet(raw.connect(to), hello).verdict;
}

TEST_P(SessionDeath, APeerThatLivesIsAskedForAndMayComeBack) {
  Node server(backend_, named(kServer, kHour));
  const auto address = server.listen(backend_.host);
  RawPeer raw(backend_);
  std::atomic<int> knocks = 0;
  End& first = raw.connect(address);
  auto hello = hello_of(kWorker2, 5);
  hello.door = raw.open_door(first.connection->ends().local.host, [&] { ++knocks; });
  ASSERT_EQ(greet(first, hello).verdict, wire::Verdict::kAccepted);
  server.wait_until("its door", notices);
  first.close();
  server.wait_until("somebody asks for it twice", [&](Node&) { return knocks >= 3; });
  EXPECT_EQ(come_back(raw, address, hello), wire::Verdict::kAccepted);
  server.wait_until("it is back", [](Node& node) { return node.endpoint->counters().reconnects == 1; });
  EXPECT_TRUE(server.lost.empty());
}

TEST_P(SessionDeath, ADoorThatNeverOpenedProvesNothing) {
  Node server(backend_, named(kServer, kHour));
  const auto address = server.listen(backend_.host);
  RawPeer raw(backend_);
  End& first = raw.connect(address);
  auto hello = hello_of(kWorker2, 5);
  hello.door = 1;
  ASSERT_EQ(greet(first, hello).verdict, wire::Verdict::kAccepted);
  first.close();
  // Others come and go meanwhile, for as long as a refusal may be under way.
  for (std::uint64_t other = 6; other < 12; ++other)
    EXPECT_EQ(greet(raw.connect(address), hello_of({wire::Role::kWorker, {static_cast<std::int32_t>(other)}}, other)).verdict,
              wire::Verdict::kAccepted);
  EXPECT_EQ(come_back(raw, address, hello), wire::Verdict::kAccepted);
  EXPECT_EQ(server.counters().doors, 0U);
}

TEST_P(SessionDeath, WhoIsLostIsNamedWithWhatItSentLast) {
  Node server(backend_, named(kServer, kHour)), worker(backend_, named(kWorker1, kHour));
  server.about_hook = [](const wire::MessageHead& head) { return fmt::format(" at {}/{}", head.layer.index, head.iteration); };
  const auto address = server.listen(backend_.host);
  worker.connect(address, kServer);
  const PeerId to = worker.wait_peer(kServer);
  for (const std::int32_t layer : {4, 3})
    worker.send_owned(to, {.kind = wire::MessageKind::kPush, .layer = Layer{layer}, .iteration = 9}, std::vector<std::byte>(10));
  worker.send_owned(to, {.kind = wire::MessageKind::kReady, .layer = wire::kControlLayer}, {});
  server.wait_until("all messages", [](Node& node) { return node.arrived.size() == 3; });
  const PeerId lost = server.peers.front().first;
  server.wait_until("the worker's door", notices);
  std::int32_t last = 0;
  for (const Node::Arrival& one : server.arrived)
    if (one.head.kind == wire::MessageKind::kPush) last = one.head.layer.index;
  worker.kill();
  EXPECT_THAT(server.wait_lost(lost).message(), ::testing::EndsWith(fmt::format(" ms ago at {}/9", last)));
}

INSTANTIATE_TEST_SUITE_P(Backends, SessionDeath,
                         ::testing::Values(&transport::testing::inproc_backend, &transport::testing::tcp_backend,
                                           &transport::testing::tls_backend),
                         transport::testing::backend_name);

}  // namespace
}  // namespace paceline::session::testing

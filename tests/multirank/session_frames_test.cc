// Frames as only strangers, other versions and broken peers send them, written by the test itself, over inproc/ and tcp/.
#include <gmock/gmock.h>

#include "session_raw_peer.h"

namespace paceline::session::testing {
namespace {

using ::testing::HasSubstr;

class SessionFrames : public SessionTest {};

TEST_P(SessionFrames, StrangersAreCountedAndDisturbNobody) {
  Node server(backend_, named(kServer)), worker(backend_, named(kWorker1));
  const auto address = server.listen(backend_.host);
  worker.connect(address, kServer);
  const PeerId peer = worker.wait_peer(kServer);
  // On a slow machine the worker itself may have been taken for one: it has a second to say who it is.
  const auto before = server.counters().strangers_refused;
  RawPeer raw(backend_);
  End& chunk_first = raw.connect(address);
  chunk_first.send({.kind = wire::FrameKind::kChunk, .sequence = 1}, std::vector<std::byte>(48), {}, 0);
  chunk_first.wait_closed();
  End& payload_first = raw.connect(address);
  payload_first.send({.kind = wire::FrameKind::kHello}, {}, std::vector<std::byte>(100), 0);
  payload_first.wait_closed();
  End& short_hello = raw.connect(address);
  short_hello.send({.kind = wire::FrameKind::kHello}, std::vector<std::byte>(12), {}, 0);
  short_hello.wait_closed();
  End& no_role = raw.connect(address);
  auto hello = hello_of(kWorker2, 5);
  hello.from.roles = wire::Roles(4);
  say_hello(no_role, hello);
  no_role.wait_closed();
  End& other_version = raw.connect(address);
  other_version.send({.kind = wire::FrameKind::kHello, .major = 9}, {}, {}, 0);
  other_version.wait_closed();
  End& gone_at_once = raw.connect(address);
  gone_at_once.close();  // it only looked: no stranger
  End& silent = raw.connect(address);
  silent.wait_closed();  // the transport's deadline for strangers
  server.wait_until("six strangers", [&](Node& node) { return node.endpoint->counters().strangers_refused == before + 6; });
  worker.send_owned(peer, head(1), std::vector<std::byte>(5000));
  server.wait_until("the worker's message", [](Node& node) { return node.arrived.size() == 1; });
  EXPECT_EQ(server.counters().reconnects, 0U);
}

TEST_P(SessionFrames, AnotherSessionVersionIsRefusedAndBothVersionsAreNamed) {
  Node server(backend_, named(kServer));
  RawPeer raw(backend_);
  End& end = raw.connect(server.listen(backend_.host));
  auto hello = hello_of(kWorker2, 5);
  hello.lowest = hello.highest = 9;
  say_hello(end, hello);
  std::string reason;
  EXPECT_EQ(wait_reply(end, &reason).verdict, wire::Verdict::kRefused);
  EXPECT_THAT(reason, HasSubstr("worker 2 speaks session protocol versions 9 to 9, the other side 4 to 4"));
}

TEST_P(SessionFrames, WhoAnswersAHelloWithAnotherNameIsNotTheRightPeer) {
  RawPeer raw(backend_);
  const auto address = raw.listen(backend_.host, {.job = 7, .from = {wire::Role::kServer, {5}}}, {});
  Node worker(backend_, named(kWorker1));
  const Status reason = worker.wait_lost(worker.connect(address, kServer));
  EXPECT_EQ(reason.kind(), ErrorKind::kBadRequest);
  EXPECT_THAT(reason.message(), HasSubstr("the process at this address is server 5, not server 0"));
}

TEST_P(SessionFrames, AnotherFrameVersionIsRefusedOnBothSidesWithBothVersions) {
  RawPeer raw(backend_);
  const auto address = raw.listen(backend_.host, {.from = {wire::Role::kServer, {0}}}, {},
                                  {.kind = wire::FrameKind::kHelloReply, .major = 9, .minor = 4});
  Node worker(backend_, named(kWorker1));
  const Status reason = worker.wait_lost(worker.connect(address, kServer));
  EXPECT_EQ(reason.kind(), ErrorKind::kBadRequest);
  EXPECT_THAT(reason.message(), HasSubstr("the peer speaks protocol version 9.4, this process 2.0"));
}

TEST_P(SessionFrames, AnAnswerThatMakesNoSenseIsTriedAgainUntilTheDeadlineOfTheConnect) {
  RawPeer raw(backend_);
  const auto address = raw.listen(backend_.host, {.lowest = 3, .highest = 2, .from = {wire::Role::kServer, {0}}}, {});
  Node worker(backend_, named(kWorker1));
  const Status reason = worker.wait_lost(worker.connect(address, kServer, 300ms));
  EXPECT_EQ(reason.kind(), ErrorKind::kPeerLost);
  EXPECT_THAT(reason.message(), HasSubstr("the answer to a hello has impossible values"));
}

// A chunk as a whole message of 4 bytes.
void send_chunk(End& end, std::uint64_t sequence, std::uint8_t value) {
  std::vector<std::byte> body(wire::kChunkBodyBytes);
  wire::encode({.message = sequence, .offset = 0, .head = {.unit = static_cast<std::uint32_t>(sequence), .payload_bytes = 4}},
               std::span<std::byte, wire::kChunkBodyBytes>(body));
  end.send({.kind = wire::FrameKind::kChunk, .sequence = sequence}, body, std::vector<std::byte>(4, std::byte{value}), 0);
}

TEST_P(SessionFrames, ASecondHelloOfASessionTakesOverAndDuplicatesAreDropped) {
  Node server(backend_, named(kServer));
  const auto address = server.listen(backend_.host);
  RawPeer raw(backend_);
  End& first = raw.connect(address);
  EXPECT_EQ(greet(first, hello_of(kWorker2, 77, 1)).verdict, wire::Verdict::kAccepted);
  for (std::uint64_t sequence : {1, 2, 3}) send_chunk(first, sequence, 10);
  server.wait_until("three messages", [](Node& node) { return node.arrived.size() == 3; });

  End& second = raw.connect(address);
  const auto reply = greet(second, hello_of(kWorker2, 77, 2));
  EXPECT_EQ(reply.verdict, wire::Verdict::kAccepted);
  EXPECT_EQ(reply.received, 3U);
  first.wait_closed();
  send_chunk(second, 2, 99);  // it need not have sent these again, but may
  send_chunk(second, 3, 99);
  send_chunk(second, 4, 10);
  server.wait_until("the fourth", [](Node& node) { return node.arrived.size() == 4; });
  EXPECT_EQ(server.counters().duplicates_dropped, 2U);
  EXPECT_EQ(server.counters().reconnects, 1U);

  End& late = raw.connect(address);  // a hello that was under way for long
  say_hello(late, hello_of(kWorker2, 77, 1));
  late.wait_closed();
  send_chunk(second, 5, 10);
  server.wait_until("the fifth", [](Node& node) { return node.arrived.size() == 5; });
  server.rank.stop();
  for (const auto& arrival : server.arrived) EXPECT_EQ(arrival.payload, std::vector<std::byte>(4, std::byte{10}));
  EXPECT_EQ(server.peers.size(), 1U);
  EXPECT_TRUE(server.lost.empty());
}

TEST_P(SessionFrames, AGapOrAnInventedAcknowledgementClosesTheConnectionNotTheSession) {
  Node server(backend_, named(kServer));
  const auto address = server.listen(backend_.host);
  RawPeer raw(backend_);
  End& gap = raw.connect(address);
  greet(gap, hello_of(kWorker2, 77, 1));
  send_chunk(gap, 2, 1);
  gap.wait_closed();
  End& liar = raw.connect(address);
  EXPECT_EQ(greet(liar, hello_of(kWorker2, 77, 2)).received, 0U);
  liar.send({.kind = wire::FrameKind::kAcknowledge, .acknowledged = 5}, {}, {}, 0);
  liar.wait_closed();
  End& honest = raw.connect(address);
  greet(honest, hello_of(kWorker2, 77, 3));
  send_chunk(honest, 1, 1);
  server.wait_until("the message", [](Node& node) { return node.arrived.size() == 1; });
  EXPECT_EQ(server.counters().frames_damaged, 2U);
  server.rank.stop();
  EXPECT_TRUE(server.lost.empty());
}

// Both helloes of a member, word for word as they were recorded, while it is connected and after its connection was cut.
TEST_P(SessionFrames, WhatWasRecordedOpensNothing) {
  Node server(backend_, named(kServer));
  const auto address = server.listen(backend_.host);
  RawPeer raw(backend_);
  End& member = raw.connect(address);
  auto hello = hello_of(kWorker2, 77, 1);
  say_hello(member, hello);
  const wire::Hello first = hello;
  hello.key = kOfTheSession;
  hello.proof = proof_for(hello, kOfTheSession, wait_reply(member).nonce);
  say_hello(member, hello);
  EXPECT_EQ(wait_reply(member, nullptr, 1).verdict, wire::Verdict::kAccepted);
  const auto replay = [&] {
    End& thief = raw.connect(address);
    say_hello(thief, first);
    EXPECT_EQ(wait_reply(thief).verdict, wire::Verdict::kProve);
    say_hello(thief, hello);
    std::string reason;
    EXPECT_EQ(wait_reply(thief, &reason, 1).verdict, wire::Verdict::kRefused);
    EXPECT_THAT(reason, HasSubstr("worker 2 does not know the secret of its session"));
    // Nor does a proof with a secret of one's own, or the session's last words.
    End& liar = raw.connect(address);
    EXPECT_EQ(greet(liar, hello_of(kWorker2, 77, 9), draw_secret()).verdict, wire::Verdict::kRefused);
  };
  replay();
  send_chunk(member, 1, 1);
  server.wait_until("a message of the member", [](Node& node) { return node.arrived.size() == 1; });
  member.close();
  replay();
  End& again = raw.connect(address);
  EXPECT_EQ(greet(again, hello_of(kWorker2, 77, 2)).received, 1U);
  EXPECT_EQ(server.counters().hellos_refused, 4U);
  EXPECT_EQ(server.counters().reconnects, 1U);
  server.rank.stop();
  EXPECT_TRUE(server.lost.empty());
}

TEST_P(SessionFrames, ASessionThatBeginsHasReceivedNothing) {
  Node server(backend_, named(kServer));
  const auto address = server.listen(backend_.host);
  RawPeer raw(backend_);
  End& liar = raw.connect(address);
  auto hello = hello_of(kWorker2, 77, 1);
  hello.received = 5;
  say_hello(liar, hello);
  std::string reason;
  EXPECT_EQ(wait_reply(liar, &reason).verdict, wire::Verdict::kRefused);
  EXPECT_THAT(reason, HasSubstr("worker 2 begins a session in which it has received 5 chunks"));
  End& honest = raw.connect(address);
  EXPECT_EQ(greet(honest, hello_of(kWorker2, 78, 1)).verdict, wire::Verdict::kAccepted);
  server.rank.stop();
  EXPECT_TRUE(server.lost.empty()) << "nobody whom the handler was not told of";
}

TEST_P(SessionFrames, WhoHasBeenAskedForAProofIsToldThatTheOtherSideCloses) {
  Node server(backend_, named(kServer));
  RawPeer raw(backend_);
  End& end = raw.connect(server.listen(backend_.host));
  say_hello(end, hello_of(kWorker2, 77, 1));
  EXPECT_EQ(wait_reply(end).verdict, wire::Verdict::kProve);
  server.close(10s);
  std::string reason;
  EXPECT_EQ(wait_reply(end, &reason, 1).verdict, wire::Verdict::kRefused);
  EXPECT_THAT(reason, HasSubstr("server 0 is closing"));
}

TEST_P(SessionFrames, OfAJobWithASecretOnlyThoseWhoKnowItAreHeard) {
  auto options = named(kServer);
  options.secret = draw_secret();
  Node server(backend_, options);
  const auto address = server.listen(backend_.host);
  auto own = named(kWorker1);
  own.secret = options.secret;
  Node worker(backend_, own), stranger(backend_, named(kWorker2));
  worker.connect(address, kServer);
  server.wait_peer(kWorker1);
  const Status reason = stranger.wait_lost(stranger.connect(address, kServer));
  EXPECT_EQ(reason.kind(), ErrorKind::kBadRequest);
  EXPECT_THAT(reason.message(), HasSubstr("worker 2 does not know the secret of this job"));
  // Nobody who waits at the address of a member can pass for it either.
  RawPeer raw(backend_);
  const auto false_address = raw.listen(backend_.host, {.job = 7, .epoch = 2, .from = {wire::Role::kServer, {0}}}, {});
  const Status deceived = worker.wait_lost(worker.connect(false_address, kServer, 300ms));
  EXPECT_THAT(deceived.message(), HasSubstr("accepts without knowing the secret"));
  server.rank.stop();
  EXPECT_EQ(server.peers.size(), 1U);
}

INSTANTIATE_TEST_SUITE_P(Backends, SessionFrames,
                         ::testing::Values(&transport::testing::inproc_backend, &transport::testing::tcp_backend),
                         transport::testing::backend_name);

}  // namespace
}  // namespace paceline::session::testing

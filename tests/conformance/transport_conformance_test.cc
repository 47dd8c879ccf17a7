// What every backend of transport/transport.h promises about frames.
#include <algorithm>

#include <gmock/gmock.h>

#include "harness.h"

namespace paceline::transport::testing {
namespace {

using ::testing::HasSubstr;

class TransportConformance : public LeakCheck, public ::testing::WithParamInterface<MakeBackend> {
 protected:
  Backend backend_ = GetParam()();
};

INSTANTIATE_TEST_SUITE_P(Backends, TransportConformance,
                         ::testing::Values(&inproc_backend, &unix_backend, &tcp_backend, &tls_backend, &clear_data_backend,
                                           &faultless_backend, &faultless_tls_backend),
                         backend_name);

struct Plan {
  wire::FrameHeader header;
  std::vector<std::byte> body;
  std::vector<std::byte> payload;
};

std::vector<Plan> every_kind_and_size(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::size_t> sizes = {0, 1, 2, 47, 48, 49, 255, 256, 257, 4095, 4096, 4097, 8191, 8192, 8193, 32767, 32768, 32769};
  for (const std::size_t size : {65535UL, 65536UL, 65537UL, 131072UL, 200000UL, wire::kMaxPayload - 1, wire::kMaxPayload})
    sizes.push_back(size);
  for (int i = 0; i < 300; ++i) sizes.push_back(random() % (i % 3 == 0 ? 70000 : 300));
  std::vector<Plan> plans;
  for (const std::size_t size : sizes) {
    Plan plan;
    plan.header.kind = static_cast<wire::FrameKind>(plans.size() % 7);
    plan.header.sequence = random();
    plan.header.acknowledged = random();
    plan.header.epoch = static_cast<std::uint32_t>(random());
    const std::size_t bodies[] = {0, 1, 100, wire::kMaxBody};
    plan.body = random_bytes(random, bodies[random() % 4]);
    plan.payload = random_bytes(random, size);
    plans.push_back(std::move(plan));
  }
  return plans;
}

void expect_received(End& end, const std::vector<Plan>& plans) {
  end.wait_until("all frames", [&](const End& now) { return now.received.size() >= plans.size(); });
  ASSERT_EQ(end.received.size(), plans.size());
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const Received& got = end.received[i];
    EXPECT_EQ(got.header.kind, plans[i].header.kind) << "frame " << i;
    EXPECT_EQ(got.header.sequence, plans[i].header.sequence) << "frame " << i;
    EXPECT_EQ(got.header.acknowledged, plans[i].header.acknowledged) << "frame " << i;
    EXPECT_EQ(got.header.epoch, plans[i].header.epoch) << "frame " << i;
    EXPECT_TRUE(got.body == plans[i].body) << "frame " << i;
    EXPECT_TRUE(got.payload == plans[i].payload) << "frame " << i << " of " << plans[i].payload.size() << " bytes";
  }
}

TEST_P(TransportConformance, FramesOfEveryKindAndSizeArriveIntactAndInOrderInBothDirectionsAtOnce) {
  World world(backend_, 2);
  auto [accepted, connected] = world.pair(0, 1);
  accepted.start();
  connected.start();
  const auto there = every_kind_and_size(1);
  const auto back = every_kind_and_size(2);
  const auto send_all = [](End& end, const std::vector<Plan>& plans) {
    end.rank().on_loop([&] {
      for (std::size_t i = 0; i < plans.size(); ++i) end.send_here(plans[i].header, plans[i].body, plans[i].payload, i);
      EXPECT_TRUE(end.sent.empty()) << "on_sent inside send()";
    });
  };
  send_all(connected, there);
  send_all(accepted, back);
  expect_received(accepted, there);
  expect_received(connected, back);
}

TEST_P(TransportConformance, PayloadsGoStraightToThePlaceThatTheHandlerNamed) {
  World world(backend_, 2);
  auto [accepted, connected] = world.pair(0, 1);
  accepted.start();
  connected.start();
  std::mt19937_64 random(3);
  for (const std::size_t size : {1UL, 100UL, 65536UL, wire::kMaxPayload}) connected.send({}, {}, random_bytes(random, size), size);
  accepted.wait_until("frames", [](const End& end) { return end.received.size() == 4; });
  for (const Received& frame : accepted.received) EXPECT_EQ(frame.place, frame.announced);
}

TEST_P(TransportConformance, OnSentComesOncePerFrameInTheOrderOfSending) {
  World world(backend_, 2);
  auto [accepted, connected] = world.pair(0, 1);
  accepted.start();
  connected.start();
  std::vector<std::uint64_t> tickets;
  std::mt19937_64 random(4);
  for (int i = 0; i < 500; ++i) tickets.push_back(random());  // the transport does not interpret them
  connected.rank().on_loop([&] {
    for (std::size_t i = 0; i < tickets.size(); ++i)
      connected.send_here({}, {}, std::vector<std::byte>(i % 7 == 0 ? 50000 : i % 5), tickets[i]);
  });
  accepted.wait_until("all frames", [&](const End& end) { return end.received.size() == tickets.size(); });
  connected.wait_until("all sent", [&](const End& end) { return end.sent.size() >= tickets.size(); });
  connected.rank().on_loop([] {});
  EXPECT_EQ(connected.sent, tickets);
}

TEST_P(TransportConformance, NothingIsDeliveredBeforeStartAndNothingIsLost) {
  World world(backend_, 2);
  auto [accepted, connected] = world.pair(0, 1);
  for (std::uint64_t i = 0; i < 20; ++i) connected.send({.sequence = i + 1}, {}, std::vector<std::byte>(100), i);
  world.rank(0).on_loop([] {});
  EXPECT_TRUE(accepted.received.empty());
  EXPECT_TRUE(connected.sent.empty()) << "there is no handler yet to tell";
  accepted.start();
  accepted.wait_until("frames", [](const End& end) { return end.received.size() == 20; });
  connected.start();
  connected.wait_until("on_sent", [](const End& end) { return end.sent.size() == 20; });
}

TEST_P(TransportConformance, WhoClosesIsToldCancelledAndThePeerLost) {
  World world(backend_, 2);
  auto [accepted, connected] = world.pair(0, 1);
  accepted.start();
  connected.start();
  connected.close();
  connected.wait_closed();
  accepted.wait_closed();
  EXPECT_EQ(connected.reason.kind(), ErrorKind::kCancelled);
  EXPECT_EQ(accepted.reason.kind(), ErrorKind::kPeerLost);
  std::string peer;
  accepted.rank().on_loop([&] { peer = accepted.connection->peer(); });
  EXPECT_THAT(accepted.reason.message(), HasSubstr(peer));
  // After a close nothing happens any more.
  connected.send({}, {}, std::vector<std::byte>(10), 1);
  connected.close();
  connected.rank().on_loop([] {});
  EXPECT_EQ(connected.closed, 1);
  EXPECT_TRUE(connected.sent.empty());
}

TEST_P(TransportConformance, AFrameHandedOverRightBeforeCloseStillLeaves) {
  World world(backend_, 2);
  auto [accepted, connected] = world.pair(0, 1);
  accepted.start();
  connected.start();
  accepted.rank().on_loop([&end = accepted] {
    end.send_here({.kind = wire::FrameKind::kGoodbye}, {}, {}, 1);
    end.connection->close();
  });
  connected.wait_closed();
  ASSERT_EQ(connected.received.size(), 1U);
  EXPECT_EQ(connected.received[0].header.kind, wire::FrameKind::kGoodbye);
}

TEST_P(TransportConformance, AnEndBeforeStartIsReportedAfterIt) {
  World world(backend_, 2);
  auto [accepted, connected] = world.pair(0, 1);
  connected.close();
  connected.start();
  connected.wait_closed();
  EXPECT_EQ(connected.reason.kind(), ErrorKind::kCancelled);
  accepted.start();
  accepted.wait_closed();
  EXPECT_EQ(accepted.reason.kind(), ErrorKind::kPeerLost);
}

// Buffers are freed in on_closed, so that a later touch is an error under the address sanitizer.
TEST_P(TransportConformance, ClosingOrDestroyingInTheMiddleOfTrafficTouchesNoBufferAfterwards) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    World world(backend_, 2);
    auto [accepted, connected] = world.pair(0, 1);
    End* const closing = seed % 2 == 0 ? &accepted : &connected;
    End* const other = seed % 2 == 0 ? &connected : &accepted;
    const bool destroys = seed % 4 >= 2;
    const std::size_t at = 1 + random() % 30;
    closing->frame_hook = [closing, destroys, at, seen = std::size_t{0}](const Frame&) mutable {
      if (++seen != at) return;
      if (destroys) {
        closing->connection.reset();
      } else {
        closing->connection->close();
      }
    };
    accepted.start();
    connected.start();
    for (End* const end : {&accepted, &connected}) {
      end->rank().on_loop([&] {
        for (std::uint64_t i = 0; i < 60 && end->connection != nullptr; ++i) {
          end->send_here({}, {}, random_bytes(random, random() % 4 == 0 ? 150000 : random() % 5000), i);
        }
      });
    }
    other->wait_closed();
    EXPECT_EQ(other->reason.kind(), ErrorKind::kPeerLost);
    if (!destroys) closing->wait_closed();
    world.rank(0).on_loop([] {});
    world.rank(1).on_loop([] {});
    EXPECT_EQ(closing->closed, destroys ? 0 : 1);
    EXPECT_EQ(other->closed, 1);
    EXPECT_EQ(closing->received.size(), at);
  }
}

TEST_P(TransportConformance, TheConnectionMayBeClosedOrDestroyedInsideEveryCallback) {
  enum class In { kHead, kFrame, kSent, kClosed };
  for (const In in : {In::kHead, In::kFrame, In::kSent, In::kClosed}) {
    for (const bool destroys : {false, true}) {
      SCOPED_TRACE(::testing::Message() << "callback " << static_cast<int>(in) << (destroys ? " destroys" : " closes"));
      World world(backend_, 2);
      auto [accepted, connected] = world.pair(0, 1);
      End* const end = &accepted;
      const auto act = [end, destroys] {
        if (destroys) {
          end->connection.reset();
        } else {
          end->connection->close();
        }
      };
      std::vector<std::byte> place(5000);
      if (in == In::kHead) {
        end->head_hook = [act, &place](const wire::FrameHeader& header) {
          act();
          return std::span(place).first(header.payload_bytes);
        };
      }
      if (in == In::kFrame) end->frame_hook = [act](const Frame&) { act(); };
      if (in == In::kSent) end->sent_hook = [act](std::uint64_t) { act(); };
      if (in == In::kClosed) end->closed_hook = [act](const Status&) { act(); };
      accepted.start();
      connected.start();
      connected.send({}, {}, std::vector<std::byte>(5000), 1);
      if (in != In::kHead) accepted.wait_until("a frame", [](const End& now) { return now.received.size() == 1; });
      if (in == In::kSent) accepted.send({}, {}, {}, 1);
      if (in == In::kClosed) connected.close();
      connected.wait_closed();
      if (!destroys || in == In::kClosed) accepted.wait_closed();
      accepted.rank().on_loop([] {});
      EXPECT_EQ(accepted.closed, destroys && in != In::kClosed ? 0 : 1);
    }
  }
}

TEST_P(TransportConformance, ARefusedHeadClosesTheConnection) {
  World world(backend_, 2);
  auto [accepted, connected] = world.pair(0, 1);
  std::vector<std::byte> place(100);
  accepted.head_hook = [&place](const wire::FrameHeader&) { return std::span(place).first(99); };
  accepted.start();
  connected.start();
  connected.send({}, {}, std::vector<std::byte>(100), 1);
  accepted.wait_closed();
  connected.wait_closed();
  EXPECT_EQ(accepted.reason.kind(), ErrorKind::kCorrupt);
  EXPECT_EQ(connected.reason.kind(), ErrorKind::kPeerLost);
  EXPECT_TRUE(accepted.received.empty());
}

// A frame as it is, then one with one byte changed, then harmless ones (a changed length may make the receiver wait for more).
TEST_P(TransportConformance, EveryChangedByteIsFoundAndEndsTheConnection) {
  std::mt19937_64 random(5);
  const auto body = random_bytes(random, 20);
  const auto payload = random_bytes(random, 40);
  const wire::SealedHead good = wire::seal({.kind = wire::FrameKind::kChunk, .sequence = 9}, body, payload);
  World world(backend_, 2);
  for (std::size_t at = 0; at < good.size + payload.size(); ++at) {
    SCOPED_TRACE("byte " + std::to_string(at));
    auto [accepted, connected] = world.pair(0, 1);
    accepted.start();
    connected.start();
    wire::SealedHead head = good;
    auto changed = payload;
    (at < good.size ? head.bytes[at] : changed[at - good.size]) ^= static_cast<std::byte>(1 + random() % 255);
    connected.send_raw(good, payload);
    connected.send_raw(head, changed);
    for (int i = 0; i < 10; ++i) connected.send_raw(good, payload);
    accepted.wait_closed();
    EXPECT_EQ(accepted.reason.kind(), ErrorKind::kCorrupt) << accepted.reason.message();
    EXPECT_EQ(accepted.received.size(), 1U);
    connected.wait_closed();
  }
}

TEST_P(TransportConformance, AFrameThatBreaksOffIsReportedAsSuch) {
  World world(backend_, 2);
  auto [accepted, connected] = world.pair(0, 1);
  accepted.start();
  connected.start();
  const std::vector<std::byte> payload(1000);
  connected.send_raw(wire::seal({}, {}, payload), std::vector<std::byte>(400));
  connected.wait_until("on_sent", [](const End& end) { return end.sent.size() == 1; });
  connected.close();
  accepted.wait_closed();
  EXPECT_EQ(accepted.reason.kind(), ErrorKind::kPeerLost);
  EXPECT_THAT(accepted.reason.message(), HasSubstr("in the middle of a frame"));
  EXPECT_TRUE(accepted.received.empty());
}

TEST_P(TransportConformance, ManyConnectionsOfManyRanksDoNotMixTheirFrames) {
  constexpr int kRanks = 4;
  constexpr std::size_t kConnections = 60;
  World world(backend_, kRanks);
  const Address address = world.listen(0);
  std::vector<End*> connected;
  for (std::size_t i = 0; i < kConnections; ++i) {
    connected.push_back(&world.connect(1 + static_cast<int>(i) % (kRanks - 1), address));
    world.wait_accepted(i).start();
    connected.back()->start();
  }
  for (std::uint64_t frame = 0; frame < 20; ++frame) {
    for (std::uint64_t i = 0; i < kConnections; ++i) {
      connected[i]->send({.sequence = i, .acknowledged = frame}, {}, std::vector<std::byte>(i * 100, static_cast<std::byte>(i)),
                         frame);
    }
  }
  std::vector<int> seen(kConnections);
  for (std::size_t i = 0; i < kConnections; ++i) {
    End& end = world.wait_accepted(i);
    end.wait_until("20 frames", [](const End& now) { return now.received.size() == 20; });
    const std::uint64_t from = end.received[0].header.sequence;
    ++seen[from];
    for (std::uint64_t frame = 0; frame < 20; ++frame) {
      EXPECT_EQ(end.received[frame].header.sequence, from);
      EXPECT_EQ(end.received[frame].header.acknowledged, frame);
      EXPECT_TRUE(end.received[frame].payload == std::vector<std::byte>(from * 100, static_cast<std::byte>(from)));
    }
  }
  EXPECT_EQ(seen, std::vector<int>(kConnections, 1));
}

TEST_P(TransportConformance, ARankMayConnectToItself) {
  World world(backend_, 1);
  auto [accepted, connected] = world.pair(0, 0);
  accepted.start();
  connected.start();
  connected.send({.sequence = 7}, {}, std::vector<std::byte>(300000), 1);
  accepted.wait_until("a frame", [](const End& end) { return end.received.size() == 1; });
  EXPECT_EQ(accepted.received[0].header.sequence, 7U);
}

TEST_P(TransportConformance, TheTransportMayGoWhileConnectionsAreOpenAndFullOfFrames) {
  World world(backend_, 2);
  auto [accepted, connected] = world.pair(0, 1);
  connected.start();
  connected.rank().on_loop([&end = connected] {
    for (std::uint64_t i = 0; i < 20; ++i) end.send_here({}, {}, std::vector<std::byte>(wire::kMaxPayload), i);
  });
  world.stop();
  world.destroy_transports();
  accepted.connection->close();
  connected.send_here({}, {}, {}, 99);
  EXPECT_EQ(connected.closed, 0);
}

}  // namespace
}  // namespace paceline::transport::testing

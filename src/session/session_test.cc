// The session's state machine, stepped by hand, against an adversary that delays, loses, doubles and damages frames and cuts
// connections, all from a seed.
#include "session/session.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <tuple>

#include <gtest/gtest.h>

#include "scheduling/egress_queue.h"
#include "wire/collective.h"

namespace paceline::session {
namespace {

using namespace std::chrono_literals;

constexpr Duration kDeadline = 10s;

struct WireFrame {
  std::vector<std::byte> head, payload;
};

// Content that tells which message and which byte it is.
std::vector<std::byte> content(std::uint64_t ticket, std::size_t bytes) {
  std::vector<std::byte> all(bytes);
  for (std::size_t i = 0; i < bytes; ++i) all[i] = static_cast<std::byte>((ticket * 131 + i * 7 + (i >> 8)) & 0xff);
  return all;
}

// One end: a session, a queue, an application that remembers everything.
struct End {
  explicit End(TimePoint now, std::int64_t chunk) : session(now, kDeadline), queue({.window = {4 * chunk}, .chunk = {chunk}}) {
    lane = queue.add();
  }

  // Every other message is one of a collective.
  void send(std::uint64_t ticket, int layer, std::size_t bytes) {
    payloads[ticket] = content(ticket, bytes);
    const wire::MessageHead head{.kind = ticket % 2 == 0 ? wire::MessageKind::kPush : wire::MessageKind::kCollective,
                                 .layer = {layer},
                                 .unit = static_cast<std::uint32_t>(ticket),
                                 .iteration = 3,
                                 .payload_bytes = bytes};
    const auto slot = session.outbox().add(head, payloads[ticket], ticket);
    queue.on_ready({.destination = lane, .layer = {layer}, .size = {static_cast<std::int64_t>(bytes)}, .tag = slot});
  }

  void put(const OutFrame& frame) {
    const auto head = frame.head.view();
    wire.push_back({{head.begin(), head.end()}, {frame.payload.begin(), frame.payload.end()}});
    if (frame.ticket != 0) unsent.push_back(frame.ticket);
  }

  void pump(TimePoint now) {
    while (const auto chunk = queue.take()) {
      put(session.chunk(now, 1, session.outbox().take(static_cast<Outbox::Slot>(chunk->tag), chunk->offset, chunk->size)));
    }
  }

  void release() {
    while (const auto released = session.outbox().release()) {
      queue.on_acknowledged(lane, released->chunk);
      if (released->message != Outbox::Released::Message::kDelivered) continue;
      ASSERT_TRUE(delivered.insert(released->ticket).second) << "ticket " << released->ticket << " delivered twice";
      std::fill(payloads[released->ticket].begin(), payloads[released->ticket].end(), std::byte{0xee});  // the caller's again
    }
  }

  // Whether the connection may go on.
  bool receive(const WireFrame& frame, TimePoint now) {
    if (frame.head.size() < wire::kHeaderBytes) return false;
    const auto header = wire::open_header(std::span(frame.head).first<wire::kHeaderBytes>(), wire::kMaxPayload);
    if (!header.ok() || frame.head.size() != wire::kHeaderBytes + header->body_bytes ||
        frame.payload.size() != header->payload_bytes)
      return false;
    if (!wire::check_head(*header, frame.head).ok()) return false;
    const auto body = std::span(frame.head).subspan(wire::kHeaderBytes);
    if (!frame.payload.empty()) {
      const auto arrival = session.on_chunk_head(*header, body);
      if (!arrival.ok()) return false;
      std::span<std::byte> place = arrival->place;
      if (arrival->kind == Inbox::Arrival::Kind::kBegins) {
        const auto ticket = arrival->head.unit;
        EXPECT_FALSE(places.contains(ticket)) << "message " << ticket << " began twice";
        places[ticket].resize(arrival->head.payload_bytes);
        place = session.begin(arrival->head, places[ticket], frame.payload.size());
      }
      if (arrival->kind != Inbox::Arrival::Kind::kDuplicate) std::copy(frame.payload.begin(), frame.payload.end(), place.begin());
      if (!wire::check_payload(*header, frame.payload).ok()) return false;
    }
    const auto event = session.on_frame(now, *header, body);
    if (!event.ok()) return false;
    if (event->kind == Session::Event::Kind::kDuplicate) ++duplicates;
    if (event->kind == Session::Event::Kind::kMessage) {
      const auto ticket = event->head.unit;
      EXPECT_TRUE(arrived.insert(ticket).second) << "message " << ticket << " arrived twice";
      EXPECT_EQ(event->payload.size(), event->head.payload_bytes);
      EXPECT_TRUE(std::ranges::equal(event->payload, content(ticket, event->head.payload_bytes)))
          << "message " << ticket << " is damaged";
      std::fill(event->payload.begin(), event->payload.end(), std::byte{0xdd});  // consumed: nobody may write here any more
    }
    if (event->kind == Session::Event::Kind::kHeartbeat) put(session.control(now, 1, wire::FrameKind::kHeartbeatReply));
    release();
    return true;
  }

  void detach() {
    attached = false;
    session.on_detached();
    queue.pause(lane);
    wire.clear();
    unsent.clear();
    release();
  }

  bool attach(std::uint64_t received, TimePoint now) {
    if (!session.on_attached(now, received).ok()) return false;
    attached = true;
    while (const auto piece = session.outbox().next_resend()) {
      ++resent;
      put(session.chunk(now, 1, *piece));
    }
    queue.resume(lane);
    release();
    return true;
  }

  Session session;
  scheduling::EgressQueue queue;
  scheduling::EgressQueue::Destination lane;
  bool attached = false;
  std::deque<WireFrame> wire;        // what it has sent and the other has not received
  std::deque<std::uint64_t> unsent;  // whose bytes the connection still needs
  std::map<std::uint64_t, std::vector<std::byte>> payloads, places;
  std::set<std::uint64_t> delivered, arrived;
  std::uint64_t duplicates = 0, resent = 0;
};

struct Totals {
  std::uint64_t cuts = 0, losses = 0, doubles = 0, damages = 0, duplicates = 0, resent = 0, overtakes = 0;
};

void play(std::uint64_t seed, Totals& totals) {
  std::mt19937_64 random(seed);
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  TimePoint now = TimePoint{} + 1h;
  const std::int64_t chunk = pick(1, 120);
  End ends[2] = {End(now, chunk), End(now, chunk)};
  std::uint64_t sent[2] = {0, 0};

  const auto cut = [&] {
    ++totals.cuts;
    // What was under way still arrives in part, in order; the rest is gone.
    for (int side : {0, 1}) {
      End& from = ends[side];
      End& to = ends[1 - side];
      for (auto n = pick(0, static_cast<std::int64_t>(from.wire.size())); n > 0 && to.attached && !from.wire.empty(); --n) {
        const WireFrame frame = from.wire.front();
        from.wire.pop_front();
        if (!to.receive(frame, now)) break;
      }
    }
    for (End& end : ends) end.detach();
  };
  // The hello of side 0 says what it has received; side 1 begins at once, side 0 when the answer comes, if it comes.
  const auto connect = [&](bool answer_is_lost) {
    ASSERT_TRUE(ends[1].attach(ends[0].session.received(), now)) << "seed " << seed;
    const auto received = ends[1].session.received();
    if (answer_is_lost) {
      for (End& end : ends) end.detach();
      return;
    }
    ASSERT_TRUE(ends[0].attach(received, now)) << "seed " << seed;
  };
  const auto step = [&](bool faults) {
    now += Duration(pick(0, 1'000'000));
    const auto side = static_cast<std::size_t>(pick(0, 1));
    End& from = ends[side];
    End& to = ends[1 - side];
    if (!from.attached) return connect(faults && pick(0, 3) == 0);
    if (now >= from.session.heartbeat_at()) from.put(from.session.control(now, 1, wire::FrameKind::kHeartbeat));
    if (!from.unsent.empty() && pick(0, 1) == 0) {
      from.session.outbox().on_sent(from.unsent.front());
      from.unsent.pop_front();
      from.release();
    }
    from.pump(now);
    if (from.session.acknowledge_at() <= now && pick(0, 2) == 0)
      from.put(from.session.control(now, 1, wire::FrameKind::kAcknowledge));
    if (from.wire.empty()) return;
    if (faults) {
      switch (pick(0, 60)) {
        case 0:
          return cut();
        case 1:  // lost without a word
          ++totals.losses;
          from.wire.pop_front();
          return;
        case 2:  // once more
          ++totals.doubles;
          from.wire.push_front(from.wire.front());
          break;
        case 3: {
          ++totals.damages;
          auto& bytes = from.wire.front().payload.empty() || pick(0, 1) == 0 ? from.wire.front().head : from.wire.front().payload;
          bytes[static_cast<std::size_t>(pick(0, std::ssize(bytes) - 1))] ^= static_cast<std::byte>(1 << pick(0, 7));
          break;
        }
        default:
          break;
      }
    }
    const WireFrame frame = from.wire.front();
    from.wire.pop_front();
    if (!to.receive(frame, now)) cut();
  };

  const auto steps = pick(20, 400);
  for (std::int64_t i = 0; i < steps; ++i) {
    if (pick(0, 4) == 0) {
      const auto side = static_cast<std::size_t>(pick(0, 1));
      ends[side].send(sent[side]++, static_cast<int>(pick(-1, 5)),
                      pick(0, 3) == 0 ? 0 : static_cast<std::size_t>(pick(1, std::min<std::int64_t>(500, 12 * chunk))));
    }
    step(true);
    if (testing::Test::HasFatalFailure()) return;
  }
  // Everything heals; now all must arrive, within a bounded number of steps. Heartbeats show what was lost at the end.
  int healthy = 0;
  const auto finished = [&] { return ends[0].session.outbox().idle() && ends[1].session.outbox().idle(); };
  while (!finished()) {
    ASSERT_LT(++healthy, 60'000) << "seed " << seed << " does not finish: " << ends[0].arrived.size() << " of " << sent[1]
                                 << " and " << ends[1].arrived.size() << " of " << sent[0];
    step(false);
    if (healthy % 50 == 0) now += kDeadline / 5;
    if (testing::Test::HasFatalFailure()) return;
  }
  for (int side : {0, 1}) {
    ASSERT_EQ(ends[side].delivered.size(), sent[side]) << "seed " << seed;
    ASSERT_EQ(ends[1 - side].arrived.size(), sent[side]) << "seed " << seed;
    ASSERT_EQ(ends[side].queue.in_flight().count, 0) << "seed " << seed;
    for (const auto& [ticket, place] : ends[side].places) {
      ASSERT_TRUE(std::ranges::all_of(place, [](std::byte byte) { return byte == std::byte{0xdd}; }))
          << "seed " << seed << ": message " << ticket << " was written after it was consumed";
    }
    totals.duplicates += ends[side].duplicates;
    totals.resent += ends[side].resent;
    totals.overtakes += ends[side].queue.overtakes();
  }
}

TEST(Session, EveryMessageArrivesExactlyOnceWhateverTheNetworkDoes) {
  Totals totals;
  for (std::uint64_t seed = 1; seed <= 4000; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    play(seed, totals);
    ASSERT_FALSE(testing::Test::HasFailure());
  }
  EXPECT_GT(totals.cuts, 1000U);
  EXPECT_GT(totals.losses, 1000U);
  EXPECT_GT(totals.doubles, 1000U);
  EXPECT_GT(totals.damages, 1000U);
  EXPECT_GT(totals.duplicates, 1000U);
  EXPECT_GT(totals.resent, 1000U);
  EXPECT_GT(totals.overtakes, 1000U);
}

TEST(Session, OfSmallMessagesOfACollectiveThePeerIsToldLaterAndOfManyOrOthersAtOnce) {
  const TimePoint now = TimePoint{} + 1h;
  const auto due_after = [&](const std::vector<std::pair<std::uint64_t, std::size_t>>& messages) {
    End from(now, 32'768), to(now, 32'768);
    EXPECT_TRUE(from.attach(0, now) && to.attach(0, now));
    for (const auto& [ticket, bytes] : messages) from.send(ticket, 0, bytes);
    from.pump(now);
    for (const WireFrame& frame : from.wire) EXPECT_TRUE(to.receive(frame, now));
    EXPECT_EQ(to.arrived.size(), messages.size());
    return to.session.acknowledge_at();
  };
  constexpr std::size_t kMost = wire::kCopiedCollectiveBytes;
  EXPECT_EQ(due_after({}), TimePoint::max());
  EXPECT_EQ(due_after({{1, 0}}), now + Session::kPatience);
  EXPECT_EQ(due_after({{1, kMost}}), now + Session::kPatience);
  EXPECT_EQ(due_after({{1, kMost + 1}}), now) << "its sender waits";
  EXPECT_EQ(due_after({{2, 10}}), now) << "none of a collective";
  EXPECT_EQ(due_after({{1, Session::kPatientBytes - 10}, {3, 10}}), now + Session::kPatience);
  EXPECT_EQ(due_after({{1, Session::kPatientBytes - 10}, {3, 11}}), now) << "the sender's window lacks them";
}

TEST(Session, AFrameThatGoesBackTellsOfWhatCameBefore) {
  const TimePoint now = TimePoint{} + 1h;
  End a(now, 32'768), b(now, 32'768);
  ASSERT_TRUE(a.attach(0, now) && b.attach(0, now));
  a.send(1, 0, 100);
  a.pump(now);
  ASSERT_TRUE(b.receive(a.wire.front(), now));
  a.session.outbox().on_sent(a.unsent.front());
  b.send(1, 0, 100);
  b.pump(now);
  EXPECT_EQ(b.session.acknowledge_at(), TimePoint::max());
  ASSERT_TRUE(a.receive(b.wire.front(), now));
  EXPECT_TRUE(a.delivered.contains(1));
}

// Small parts by themselves.

wire::FrameHeader header_of(const OutFrame& frame) {
  return *wire::open_header(std::span(frame.head.bytes).first<wire::kHeaderBytes>(), wire::kMaxPayload);
}
std::span<const std::byte> body_of(const OutFrame& frame) { return frame.head.view().subspan(wire::kHeaderBytes); }

TEST(Session, APayloadIsNotTheCallersAgainWhileTheConnectionNeedsItsBytes) {
  Outbox outbox;
  const std::vector<std::byte> payload(100);
  const auto slot = outbox.add({.payload_bytes = 100}, payload, 7);
  ASSERT_TRUE(outbox.on_attached(0).ok());
  outbox.take(slot, {0}, {100});
  ASSERT_TRUE(outbox.on_acknowledged(1).ok());
  EXPECT_FALSE(outbox.release()) << "acknowledged, but not reported as sent";
  outbox.on_sent(1);
  const auto released = outbox.release();
  ASSERT_TRUE(released);
  EXPECT_EQ(released->message, Outbox::Released::Message::kDelivered);
  EXPECT_EQ(released->ticket, 7U);
  EXPECT_TRUE(outbox.idle());
}

TEST(Session, AnAcknowledgementOfWhatWasNeverSentIsCorrupt) {
  Outbox outbox;
  ASSERT_TRUE(outbox.on_attached(0).ok());
  EXPECT_EQ(outbox.on_acknowledged(1).kind(), ErrorKind::kCorrupt);
  EXPECT_EQ(outbox.on_attached(5).kind(), ErrorKind::kCorrupt);
}

TEST(Session, APeerThatHasForgottenWhatItAcknowledgedIsRefused) {
  Outbox outbox;
  const std::vector<std::byte> payload(10);
  ASSERT_TRUE(outbox.on_attached(0).ok());
  outbox.take(outbox.add({.payload_bytes = 10}, payload, 1), {0}, {10});
  ASSERT_TRUE(outbox.on_acknowledged(1).ok());
  outbox.on_detached();
  EXPECT_EQ(outbox.on_attached(0).kind(), ErrorKind::kCorrupt);
}

TEST(Session, ChunksThatContradictEachOtherAreCorrupt) {
  const wire::MessageHead head{.unit = 4, .payload_bytes = 100};
  const auto body = [](std::uint64_t message, std::uint64_t offset, const wire::MessageHead& h) {
    std::array<std::byte, wire::kChunkBodyBytes> bytes;
    wire::encode({.message = message, .offset = offset, .head = h}, bytes);
    return bytes;
  };
  std::vector<std::byte> place(100);
  Inbox inbox;
  EXPECT_FALSE(inbox.examine(0, body(1, 0, head), 60).ok()) << "no number";
  EXPECT_FALSE(inbox.examine(2, body(1, 0, head), 60).ok()) << "a gap";
  EXPECT_FALSE(inbox.examine(1, body(1, 20, head), 60).ok()) << "begins in the middle";
  EXPECT_FALSE(inbox.examine(1, body(2, 0, head), 60).ok()) << "message 1 never began";
  EXPECT_FALSE(inbox.examine(1, body(1, 0, head), 101).ok()) << "more than the message has";
  EXPECT_FALSE(inbox.examine(1, body(1, 0, head), 0).ok()) << "an empty chunk of a message with bytes";
  ASSERT_TRUE(inbox.examine(1, body(1, 0, head), 60).ok());
  inbox.begin(head, place, 60);
  ASSERT_TRUE(inbox.accept(1, body(1, 0, head), 60).ok());
  EXPECT_FALSE(inbox.examine(2, body(1, 61, head), 39).ok()) << "a hole";
  EXPECT_FALSE(inbox.examine(2, body(1, 59, head), 39).ok()) << "an overlap";
  wire::MessageHead other = head;
  other.unit = 5;
  EXPECT_FALSE(inbox.examine(2, body(1, 60, other), 40).ok()) << "another head";
  EXPECT_FALSE(inbox.examine(2, std::array<std::byte, 3>{}, 40).ok()) << "no body";
  const auto last = inbox.accept(2, body(1, 60, head), 40);
  ASSERT_TRUE(last.ok());
  EXPECT_EQ(last->kind, Inbox::Accepted::Kind::kMessage);
  EXPECT_EQ(last->payload.data(), place.data());
}

TEST(Session, AMessageWithoutAPlaceTakesMemoryAsItComes) {
  constexpr std::uint64_t kBytes = std::uint64_t{16} << 20;
  const wire::MessageHead head{.unit = 4, .payload_bytes = kBytes};
  const auto body = [&](std::uint64_t offset) {
    std::array<std::byte, wire::kChunkBodyBytes> bytes;
    wire::encode({.message = 1, .offset = offset, .head = head}, bytes);
    return bytes;
  };
  Inbox inbox;
  ASSERT_TRUE(inbox.examine(1, body(0), 97).ok());
  std::span<std::byte> place = inbox.begin(head, {}, 97);
  ASSERT_EQ(place.size(), 97U) << "not what was announced";
  std::uint64_t sequence = 0;
  std::uint64_t offset = 0;
  for (std::uint64_t bytes = 97;; bytes = std::min<std::uint64_t>(kBytes - offset, 100'000)) {
    if (offset > 0) {
      const auto arrival = inbox.examine(sequence + 1, body(offset), bytes);
      ASSERT_TRUE(arrival.ok()) << arrival.status().message();
      place = inbox.place_of(*arrival, bytes);
    }
    ASSERT_EQ(place.size(), bytes);
    for (std::size_t i = 0; i < place.size(); ++i) place[i] = static_cast<std::byte>((offset + i) % 251);
    const auto accepted = inbox.accept(++sequence, body(offset), bytes);
    ASSERT_TRUE(accepted.ok());
    offset += bytes;
    if (accepted->kind != Inbox::Accepted::Kind::kMessage) continue;
    ASSERT_EQ(accepted->payload.size(), kBytes);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < kBytes; ++i) wrong += accepted->payload[i] != static_cast<std::byte>(i % 251) ? 1 : 0;
    EXPECT_EQ(wrong, 0U);
    break;
  }
}

TEST(Session, ALostLastChunkIsNoticedByTheNextHeartbeat) {
  const TimePoint now = TimePoint{} + 1h;
  Session sender(now, kDeadline), receiver(now, kDeadline);
  ASSERT_TRUE(sender.on_attached(now, 0).ok());
  ASSERT_TRUE(receiver.on_attached(now, 0).ok());
  const std::vector<std::byte> payload(10);
  std::ignore =
      sender.chunk(now, 1, sender.outbox().take(sender.outbox().add({.payload_bytes = 10}, payload, 1), {0}, {10}));  // lost
  const auto heartbeat = sender.control(now, 1, wire::FrameKind::kHeartbeat);
  EXPECT_EQ(receiver.on_frame(now, header_of(heartbeat), body_of(heartbeat)).status().kind(), ErrorKind::kCorrupt);
}

TEST(Session, HeartbeatsAndSilenceAreDueByTheClockThatIsPassedIn) {
  const TimePoint start = TimePoint{} + 1h;
  Session session(start, kDeadline), peer(start, kDeadline);
  EXPECT_EQ(session.silent_at(), start + 10s);
  EXPECT_EQ(session.heartbeat_at(), start + 2s);
  ASSERT_TRUE(session.on_attached(start + 1s, 0).ok());
  EXPECT_EQ(session.silent_at(), start + 11s);
  const auto heartbeat = session.control(start + 3s, 1, wire::FrameKind::kHeartbeat);
  EXPECT_EQ(session.heartbeat_at(), start + 5s);
  const auto event = peer.on_frame(start + 4s, header_of(heartbeat), body_of(heartbeat));
  ASSERT_TRUE(event.ok());
  EXPECT_EQ(event->kind, Session::Event::Kind::kHeartbeat);
  EXPECT_EQ(peer.silent_at(), start + 14s);
  session.forgive(6s);
  EXPECT_EQ(session.silent_at(), start + 17s);
}

TEST(Session, WhatAPeerIsForgivenDoesNotMoveWhenItWasHeard) {
  const TimePoint start = TimePoint{} + 1h;
  Session session(start, kDeadline), peer(start, kDeadline);
  ASSERT_TRUE(session.on_attached(start, 0).ok());
  session.forgive(6s);
  session.forgive(2s);
  EXPECT_EQ(session.heard(), start) << "or messages would say that it was heard in the future";
  EXPECT_EQ(session.silent_since(), start + 8s);
  EXPECT_EQ(session.silent_at(), start + 18s);
  const auto heartbeat = peer.control(start + 9s, 1, wire::FrameKind::kHeartbeat);
  ASSERT_TRUE(session.on_frame(start + 9s, header_of(heartbeat), body_of(heartbeat)).ok());
  EXPECT_EQ(session.silent_at(), start + 19s) << "only the silence before it was forgiven";
}

TEST(Session, AHelloInTheMiddleIsCorrupt) {
  const TimePoint now = TimePoint{} + 1h;
  Session session(now, kDeadline);
  ASSERT_TRUE(session.on_attached(now, 0).ok());
  EXPECT_EQ(session.on_frame(now, {.kind = wire::FrameKind::kHello}, {}).status().kind(), ErrorKind::kCorrupt);
}

}  // namespace
}  // namespace paceline::session

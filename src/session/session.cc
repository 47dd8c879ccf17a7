#include "session/session.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "wire/collective.h"

namespace paceline::session {

Session::Session(TimePoint now, Duration silence_deadline) : deadline_(silence_deadline), heard_(now), sent_(now), moved_(now) {
  PACELINE_CHECK(silence_deadline > Duration::zero(), "a silence deadline of {} ns", silence_deadline.count());
}

Status Session::on_attached(TimePoint now, std::uint64_t received) {
  const std::uint64_t before = outbox_.acknowledged();
  PACELINE_RETURN_IF_ERROR(outbox_.on_attached(received));
  if (outbox_.acknowledged() != before) moved_ = now;
  hear(now);
  sent_ = now;
  owe_nothing();  // hello and its answer have said what was received
  return {};
}

void Session::hear(TimePoint now) {
  heard_ = now;
  forgiven_ = {};
}

void Session::owe_nothing() {
  acknowledge_at_ = TimePoint::max();
  patient_bytes_ = 0;
}

void Session::owe(TimePoint now, const wire::MessageHead& head) {
  patient_bytes_ += head.payload_bytes;
  const bool can_wait = wire::is_copied_collective(head) && patient_bytes_ <= kPatientBytes;
  acknowledge_at_ = std::min(acknowledge_at_, can_wait ? now + kPatience : now);
}

OutFrame Session::chunk(TimePoint now, std::uint32_t epoch, const Outbox::Piece& piece) {
  std::array<std::byte, wire::kChunkBodyBytes> body;
  wire::encode(piece.body, body);
  sent_ = now;
  owe_nothing();
  return {.head = wire::seal(
              {.kind = wire::FrameKind::kChunk, .sequence = piece.sequence, .acknowledged = inbox_.received(), .epoch = epoch},
              body, piece.payload),
          .payload = piece.payload,
          .ticket = piece.sequence};
}

// A heartbeat tells how many chunks were sent before it on the same connection, so that a lost one is noticed even when no
// other chunk follows it.
OutFrame Session::control(TimePoint now, std::uint32_t epoch, wire::FrameKind kind, std::span<const std::byte> payload) {
  std::array<std::byte, sizeof(std::uint64_t)> body;
  const std::uint64_t last = outbox_.last_sequence();
  std::memcpy(body.data(), &last, sizeof last);
  const bool heartbeat = kind == wire::FrameKind::kHeartbeat || kind == wire::FrameKind::kHeartbeatReply;
  sent_ = now;
  owe_nothing();
  const wire::FrameHeader header{.kind = kind, .acknowledged = inbox_.received(), .epoch = epoch};
  return {.head = wire::seal(header, heartbeat ? std::span<const std::byte>(body) : std::span<const std::byte>(), payload),
          .payload = payload};
}

Result<Inbox::Arrival> Session::on_chunk_head(const wire::FrameHeader& header, std::span<const std::byte> body) const {
  return inbox_.examine(header.sequence, body, header.payload_bytes);
}

Result<Session::Event> Session::on_frame(TimePoint now, const wire::FrameHeader& header, std::span<const std::byte> body) {
  hear(now);
  const std::uint64_t before = outbox_.acknowledged();
  PACELINE_RETURN_IF_ERROR(outbox_.on_acknowledged(header.acknowledged));
  if (outbox_.acknowledged() != before) moved_ = now;
  switch (header.kind) {
    case wire::FrameKind::kChunk: {
      PACELINE_ASSIGN_OR_RETURN(const Inbox::Accepted accepted, inbox_.accept(header.sequence, body, header.payload_bytes));
      moved_ = now;
      owe(now, accepted.head);
      if (accepted.kind == Inbox::Accepted::Kind::kMessage)
        return Event{.kind = Event::Kind::kMessage, .head = accepted.head, .payload = accepted.payload};
      return Event{.kind = accepted.kind == Inbox::Accepted::Kind::kDuplicate ? Event::Kind::kDuplicate : Event::Kind::kNothing};
    }
    case wire::FrameKind::kHeartbeat:
    case wire::FrameKind::kHeartbeatReply: {
      std::uint64_t last = 0;
      if (body.size() >= sizeof last) std::memcpy(&last, body.data(), sizeof last);
      if (last > inbox_.received())
        return error(ErrorKind::kCorrupt, "the peer has sent {} chunks, {} came: some were lost on the way", last,
                     inbox_.received());
      return Event{.kind = header.kind == wire::FrameKind::kHeartbeat ? Event::Kind::kHeartbeat : Event::Kind::kNothing};
    }
    case wire::FrameKind::kAcknowledge:
      return Event{};
    case wire::FrameKind::kGoodbye:
      return Event{.kind = Event::Kind::kGoodbye};
    case wire::FrameKind::kHello:
    case wire::FrameKind::kHelloReply:
      break;
  }
  return error(ErrorKind::kCorrupt, "a hello in the middle of a session");
}

}  // namespace paceline::session

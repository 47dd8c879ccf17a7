// One session with one peer as a pure state machine: events go in, frames come out. It outlives its connections; between two of
// them nothing is lost or doubled. Owned by an Endpoint, which binds it to connections and time; tests step it by hand.
//
// Between on_attached() and on_detached() there is a connection. Every frame sealed here must be sent over it, in order, at once.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/quantity.h"
#include "base/status.h"
#include "session/inbox.h"
#include "session/outbox.h"
#include "wire/frame.h"

namespace paceline::session {

struct OutFrame {
  wire::SealedHead head;
  std::span<const std::byte> payload;  // borrowed
  std::uint64_t ticket = 0;            // a chunk's sequence number, for on_sent(); 0: none
};

class Session {
 public:
  // How long an acknowledgement may wait for a frame that goes back, and for how many bytes, which the sender's window lacks.
  static constexpr Duration kPatience = std::chrono::milliseconds(2);
  static constexpr std::size_t kPatientBytes = 8192;

  struct Event {
    enum class Kind {
      kNothing,
      kHeartbeat,  // answer it
      kDuplicate,  // a chunk that was here already
      kMessage,    // `head` and `payload`
      kGoodbye,    // the session ends; the frame's payload is the reason
    };
    Kind kind = Kind::kNothing;
    wire::MessageHead head;
    std::span<std::byte> payload;
  };

  // silence_deadline: above 0. Heard of the peer last: now.
  Session(TimePoint now, Duration silence_deadline);

  Outbox& outbox() { return outbox_; }
  const Outbox& outbox() const { return outbox_; }
  std::uint64_t received() const { return inbox_.received(); }

  // A connection with this peer begins; it has received everything up to `received`. Then next_resend() until there is none, then
  // new chunks. Errors: as Outbox::on_attached; the session cannot go on.
  Status on_attached(TimePoint now, std::uint64_t received);
  void on_detached() { outbox_.on_detached(); }

  // Frames to send. `epoch` is put into the head.
  OutFrame chunk(TimePoint now, std::uint32_t epoch, const Outbox::Piece& piece);
  OutFrame control(TimePoint now, std::uint32_t epoch, wire::FrameKind kind, std::span<const std::byte> payload = {});

  // The head of a chunk with a payload: where it belongs. For kBegins the caller finds the place and calls begin().
  Result<Inbox::Arrival> on_chunk_head(const wire::FrameHeader& header, std::span<const std::byte> body) const;
  std::span<std::byte> begin(const wire::MessageHead& head, std::span<std::byte> place, std::size_t payload_bytes) {
    return inbox_.begin(head, place, payload_bytes);
  }
  std::span<std::byte> place_of(const Inbox::Arrival& arrival, std::size_t payload_bytes) {
    return inbox_.place_of(arrival, payload_bytes);
  }
  void forget() { inbox_.forget(); }  // the message of the last event has been used
  // A whole, undamaged frame. Afterwards release what the peer has acknowledged: outbox().release() until there is none.
  // Errors: kCorrupt; the connection must end, the session may go on over another.
  Result<Event> on_frame(TimePoint now, const wire::FrameHeader& header, std::span<const std::byte> body);

  // Until when the peer is to be told of the chunks that have come since the last frame was sealed; max(): of none. At once, but
  // for small messages of collectives, which nobody waits for: mostly a frame that goes back anyway tells of them.
  TimePoint acknowledge_at() const { return acknowledge_at_; }

  // Something new is to be sent to a peer that has had everything: from now on it is awaited that it arrives.
  void on_busy(TimePoint now) { moved_ = now; }
  // When something last moved, a chunk here or an acknowledgement, or was to begin to. Hellos and heartbeats move nothing.
  TimePoint moved() const { return moved_; }

  TimePoint heard() const { return heard_; }                          // when the peer was heard last
  TimePoint silent_since() const { return heard_ + forgiven_; }       // its silence counts from here
  TimePoint silent_at() const { return silent_since() + deadline_; }  // the peer is lost from here on
  TimePoint heartbeat_at() const { return sent_ + deadline_ / 5; }    // a heartbeat is due while attached
  // This process itself did not run for so long; the peer is not to blame.
  void forgive(Duration pause) {
    forgiven_ += pause;
    moved_ += pause;
  }

 private:
  void hear(TimePoint now);
  void owe(TimePoint now, const wire::MessageHead& head);
  void owe_nothing();

  Duration deadline_;
  TimePoint heard_, sent_;
  Duration forgiven_{0};  // of the silence since then
  TimePoint moved_;
  TimePoint acknowledge_at_ = TimePoint::max();
  std::size_t patient_bytes_ = 0;  // of messages whose acknowledgement waits
  Outbox outbox_;
  Inbox inbox_;
};

}  // namespace paceline::session

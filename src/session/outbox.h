// What one session has to send and has sent: messages whose payload is borrowed, their chunks in the order of the wire, and what of
// it the peer has received. Pure; owned by a Session.
//
// A chunk gets its sequence number when it is handed to the connection, and is kept until the peer has acknowledged it AND the
// connection needs its bytes no more; after a new connection all that is not acknowledged is handed over again, in the same order
// with the same numbers. Nothing is allocated once warm.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "wire/message.h"

namespace paceline::session {

class Outbox {
 public:
  using Slot = std::uint32_t;  // of a message, used again after its delivery

  struct Piece {
    std::uint64_t sequence = 0;
    wire::ChunkBody body;
    std::span<const std::byte> payload;
  };
  // One chunk that the peer has and nobody needs any more.
  struct Released {
    enum class Message { kMore, kDelivered, kDeliveredOwned };
    Bytes chunk;
    Message message = Message::kMore;  // kDelivered: it was the last chunk of the message sent in `channel` with `ticket`
    wire::Channel channel = wire::Channel::kControl;
    std::uint64_t ticket = 0;
  };

  // Requires: payload.size() == head.payload_bytes.
  Slot add(const wire::MessageHead& head, std::span<const std::byte> payload, std::uint64_t ticket);
  Slot add_owned(const wire::MessageHead& head, std::vector<std::byte> payload);

  // The next chunk of a message. Requires: the chunks of a message are taken in order, without gaps.
  Piece take(Slot slot, Bytes offset, Bytes size);

  // The peer has received everything up to `sequence`. Errors: kCorrupt when that was never sent.
  Status on_acknowledged(std::uint64_t sequence);
  // The connection does not need the bytes of the chunks up to `sequence` any more.
  void on_sent(std::uint64_t sequence);
  // The next chunk that is free, in order; call until there is none.
  std::optional<Released> release();

  // A connection begins, whose peer has received everything up to `received`. Then next_resend() gives what it lacks, before take()
  // may be called. Errors: kCorrupt when the peer has forgotten or invented chunks.
  Status on_attached(std::uint64_t received);
  std::optional<Piece> next_resend();
  // The connection is gone and needs no bytes any more.
  void on_detached();

  std::uint64_t last_sequence() const { return next_ - 1; }
  std::uint64_t acknowledged() const { return acknowledged_; }
  bool idle() const { return messages_ == 0; }  // everything that was added has been delivered
  // Of the chunks that were handed over and not acknowledged.
  Bytes unacknowledged() const;

 private:
  static constexpr std::uint64_t kAll = ~std::uint64_t{0};

  struct Message {
    wire::MessageHead head;
    std::uint64_t number = 0;
    std::span<const std::byte> payload;
    std::uint64_t ticket = 0;
    std::vector<std::byte> owned;
    bool is_owned = false;
    Slot next_free = 0;
  };
  struct Sent {
    Slot slot = 0;
    std::uint32_t size = 0;
    std::uint64_t offset = 0;
  };

  Slot add(const wire::MessageHead& head);
  Sent& at(std::uint64_t sequence) { return ring_[sequence & (ring_.size() - 1)]; }
  const Sent& at(std::uint64_t sequence) const { return ring_[sequence & (ring_.size() - 1)]; }
  Piece piece(std::uint64_t sequence);

  std::vector<Message> slots_;
  Slot free_ = ~Slot{0};
  std::size_t messages_ = 0;
  std::uint64_t next_number_ = 1;

  std::vector<Sent> ring_;   // chunks first_ .. next_ - 1; a power of two
  std::uint64_t first_ = 1;  // not released yet
  std::uint64_t next_ = 1;   // sequence of the next new chunk
  std::uint64_t acknowledged_ = 0;
  std::uint64_t sent_ = kAll;  // the connection needs no chunk up to here
  std::uint64_t resend_ = 1;   // the next chunk to hand over again; next_ when there is none
};

}  // namespace paceline::session

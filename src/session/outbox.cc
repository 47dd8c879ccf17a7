#include "session/outbox.h"

#include <algorithm>

#include "base/check.h"

namespace paceline::session {

Outbox::Slot Outbox::add(const wire::MessageHead& head) {
  PACELINE_CHECK(head.payload_bytes <= wire::kMaxMessageBytes, "a message of {} bytes, at most {} are legal", head.payload_bytes,
                 wire::kMaxMessageBytes);
  Slot slot = free_;
  if (slot == ~Slot{0}) {
    slot = static_cast<Slot>(slots_.size());
    slots_.emplace_back();
  } else {
    free_ = slots_[slot].next_free;
  }
  slots_[slot].head = head;
  slots_[slot].number = 0;
  ++messages_;
  return slot;
}

Outbox::Slot Outbox::add(const wire::MessageHead& head, std::span<const std::byte> payload, std::uint64_t ticket) {
  PACELINE_CHECK(payload.size() == head.payload_bytes, "a payload of {} bytes for a head that says {}", payload.size(),
                 head.payload_bytes);
  const Slot slot = add(head);
  slots_[slot].payload = payload;
  slots_[slot].ticket = ticket;
  slots_[slot].is_owned = false;
  return slot;
}

Outbox::Slot Outbox::add_owned(const wire::MessageHead& head, std::vector<std::byte> payload) {
  PACELINE_CHECK(payload.size() == head.payload_bytes, "a payload of {} bytes for a head that says {}", payload.size(),
                 head.payload_bytes);
  const Slot slot = add(head);
  slots_[slot].owned = std::move(payload);
  slots_[slot].payload = slots_[slot].owned;
  slots_[slot].is_owned = true;
  return slot;
}

Outbox::Piece Outbox::piece(std::uint64_t sequence) {
  const Sent& sent = at(sequence);
  const Message& message = slots_[sent.slot];
  return {.sequence = sequence,
          .body = {.message = message.number, .offset = sent.offset, .head = message.head},
          .payload = message.payload.subspan(sent.offset, sent.size)};
}

Outbox::Piece Outbox::take(Slot slot, Bytes offset, Bytes size) {
  PACELINE_CHECK(resend_ == next_, "a new chunk before chunk {} was sent again", resend_);
  Message& message = slots_.at(slot);
  if (message.number == 0) message.number = next_number_++;
  if (next_ - first_ == ring_.size()) {
    std::vector<Sent> larger(std::max<std::size_t>(64, 2 * ring_.size()));
    for (auto sequence = first_; sequence < next_; ++sequence) larger[sequence & (larger.size() - 1)] = at(sequence);
    ring_ = std::move(larger);
  }
  at(next_) = {.slot = slot, .size = static_cast<std::uint32_t>(size.count), .offset = static_cast<std::uint64_t>(offset.count)};
  resend_ = next_ + 1;
  return piece(next_++);
}

Status Outbox::on_acknowledged(std::uint64_t sequence) {
  if (sequence >= next_) return error(ErrorKind::kCorrupt, "chunk {} was acknowledged, but only {} were sent", sequence, next_ - 1);
  acknowledged_ = std::max(acknowledged_, sequence);
  resend_ = std::max(resend_, acknowledged_ + 1);
  return {};
}

Bytes Outbox::unacknowledged() const {
  Bytes bytes;
  for (std::uint64_t sequence = acknowledged_ + 1; sequence < next_; ++sequence) bytes.count += at(sequence).size;
  return bytes;
}

void Outbox::on_sent(std::uint64_t sequence) { sent_ = std::max(sent_, sequence); }

std::optional<Outbox::Released> Outbox::release() {
  if (first_ > std::min(acknowledged_, sent_)) return std::nullopt;
  const Sent sent = at(first_++);
  Message& message = slots_[sent.slot];
  Released released{.chunk = {sent.size}};
  if (sent.offset + sent.size == message.head.payload_bytes) {
    released.message = message.is_owned ? Released::Message::kDeliveredOwned : Released::Message::kDelivered;
    released.channel = channel_of(message.head.kind);
    released.ticket = message.ticket;
    message.owned = {};
    message.payload = {};
    message.next_free = free_;
    free_ = sent.slot;
    --messages_;
  }
  return released;
}

Status Outbox::on_attached(std::uint64_t received) {
  if (received < acknowledged_ || received >= next_) {
    return error(ErrorKind::kCorrupt, "the peer says that it has received {} chunks; {} were sent and {} acknowledged", received,
                 next_ - 1, acknowledged_);
  }
  acknowledged_ = received;
  sent_ = received;  // everything later goes over the new connection again
  resend_ = received + 1;
  return {};
}

std::optional<Outbox::Piece> Outbox::next_resend() {
  if (resend_ == next_) return std::nullopt;
  return piece(resend_++);
}

void Outbox::on_detached() {
  sent_ = kAll;
  resend_ = next_;
}

}  // namespace paceline::session

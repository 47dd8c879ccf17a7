#include "session/inbox.h"

#include <algorithm>

#include "base/check.h"

namespace paceline::session {

const Inbox::Partial* Inbox::find(std::uint64_t number) const {
  const auto found =
      std::find_if(partial_.rbegin(), partial_.rend(), [number](const Partial& partial) { return partial.number == number; });
  return found == partial_.rend() ? nullptr : &*found;
}

Result<Inbox::Arrival> Inbox::examine(std::uint64_t sequence, std::span<const std::byte> body, std::size_t payload_bytes) const {
  if (sequence == 0) return error(ErrorKind::kCorrupt, "a chunk without a sequence number");
  if (sequence <= received_) return Arrival{};
  if (sequence != received_ + 1)
    return error(ErrorKind::kCorrupt, "chunk {} came after chunk {}: some were lost on the way", sequence, received_);
  PACELINE_ASSIGN_OR_RETURN(const wire::ChunkBody chunk, wire::decode_chunk(body));
  const std::uint64_t left = chunk.head.payload_bytes - chunk.offset;  // decode_chunk has compared them
  if (payload_bytes > left || (payload_bytes == 0 && left != 0)) {
    return error(ErrorKind::kCorrupt, "a chunk of {} bytes at offset {} of a message of {}", payload_bytes, chunk.offset,
                 chunk.head.payload_bytes);
  }
  if (const Partial* partial = find(chunk.message)) {
    if (partial->head != chunk.head || partial->next != chunk.offset || payload_bytes == 0) {
      return error(ErrorKind::kCorrupt, "chunk {} does not continue message {} at byte {}", sequence, chunk.message, partial->next);
    }
    return Arrival{.kind = Arrival::Kind::kContinues,
                   .head = chunk.head,
                   .place = partial->place.empty() ? std::span<std::byte>() : partial->place.subspan(chunk.offset, payload_bytes),
                   .index = static_cast<std::size_t>(partial - partial_.data())};
  }
  if (chunk.message != begun_ + 1 || chunk.offset != 0) {
    return error(ErrorKind::kCorrupt, "chunk {} is at byte {} of message {}, which has not begun; {} messages have", sequence,
                 chunk.offset, chunk.message, begun_);
  }
  if (partial_.size() >= kMostPartial) return error(ErrorKind::kCorrupt, "{} messages have begun and not ended", partial_.size());
  return Arrival{.kind = Arrival::Kind::kBegins, .head = chunk.head};
}

std::span<std::byte> Inbox::begin(const wire::MessageHead& head, std::span<std::byte> place, std::size_t payload_bytes) {
  PACELINE_CHECK(place.empty() || place.size() == head.payload_bytes, "a place of {} bytes for a payload of {}", place.size(),
                 head.payload_bytes);
  partial_.push_back({.number = ++begun_, .head = head, .place = place});
  return place_of({.kind = Arrival::Kind::kContinues, .head = head, .place = place, .index = partial_.size() - 1}, payload_bytes);
}

std::span<std::byte> Inbox::place_of(const Arrival& arrival, std::size_t payload_bytes) {
  if (!arrival.place.empty()) return arrival.place.first(payload_bytes);
  Partial& partial = partial_[arrival.index];
  partial.kept.resize(std::max<std::size_t>(partial.kept.size(), partial.next + payload_bytes));
  return std::span(partial.kept).subspan(partial.next, payload_bytes);
}

Result<Inbox::Accepted> Inbox::accept(std::uint64_t sequence, std::span<const std::byte> body, std::size_t payload_bytes) {
  PACELINE_ASSIGN_OR_RETURN(const Arrival arrival, examine(sequence, body, payload_bytes));
  if (arrival.kind == Arrival::Kind::kDuplicate) return Accepted{};
  if (arrival.kind == Arrival::Kind::kBegins) {
    PACELINE_CHECK(payload_bytes == 0, "a chunk of {} bytes was received without a place", payload_bytes);
    ++begun_;
    ++received_;
    return Accepted{.kind = Accepted::Kind::kMessage, .head = arrival.head};
  }
  ++received_;
  Partial* partial = &partial_[arrival.index];
  partial->next += payload_bytes;
  if (partial->next < partial->head.payload_bytes) return Accepted{.kind = Accepted::Kind::kPart, .head = arrival.head};
  Accepted message{.kind = Accepted::Kind::kMessage, .head = partial->head, .payload = partial->place};
  if (partial->place.empty()) {
    taken_ = std::move(partial->kept);
    message.payload = taken_;
  }
  std::swap(*partial, partial_.back());
  partial_.pop_back();
  return message;
}

}  // namespace paceline::session

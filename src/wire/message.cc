#include "wire/message.h"

#include <array>
#include <cstring>

#include "wire/codec.h"

namespace paceline::wire {
namespace {

// By channel.
constexpr std::array<MessageKind, kChannels> kLastOfChannel = {MessageKind::kReached, MessageKind::kStateAsked,
                                                               MessageKind::kState,   MessageKind::kVerdict,
                                                               MessageKind::kBarrier, MessageKind::kCollectiveClosed};
constexpr MessageKind kUnused{2};

}  // namespace

std::optional<MessageKind> message_kind(std::uint8_t byte) {
  const auto kind = static_cast<MessageKind>(byte);
  const auto channel = static_cast<std::size_t>(channel_of(kind));
  const bool known = channel < kChannels && kind <= kLastOfChannel[channel] && kind != kUnused;
  return known ? std::optional(kind) : std::nullopt;
}

std::vector<MessageKind> all_message_kinds() {
  std::vector<MessageKind> kinds;
  for (int byte = 0; byte < 256; ++byte) {
    if (const auto kind = message_kind(static_cast<std::uint8_t>(byte))) kinds.push_back(*kind);
  }
  return kinds;
}

void encode(const ChunkBody& chunk, std::span<std::byte, kChunkBodyBytes> to) {
  std::size_t at = 0;
  const auto put = [&](auto value) {
    std::memcpy(to.data() + at, &value, sizeof value);
    at += sizeof value;
  };
  put(chunk.message);
  put(chunk.offset);
  put(chunk.head.kind);
  put(chunk.head.flags);
  put(std::uint16_t{0});
  put(chunk.head.layer.index);
  put(chunk.head.unit);
  put(chunk.head.detail);
  put(chunk.head.iteration);
  put(chunk.head.payload_bytes);
  static_assert(kChunkBodyBytes == 48);
  PACELINE_CHECK(at == kChunkBodyBytes, "wrote {} bytes", at);
}

Result<ChunkBody> decode_chunk(std::span<const std::byte> body) {
  if (body.size() != kChunkBodyBytes)
    return error(ErrorKind::kCorrupt, "a chunk's body has {} bytes instead of {}", body.size(), kChunkBodyBytes);
  Reader reader(body);
  ChunkBody chunk;
  chunk.message = reader.get<std::uint64_t>();
  chunk.offset = reader.get<std::uint64_t>();
  const auto byte = reader.get<std::uint8_t>();
  chunk.head.flags = reader.get<std::uint8_t>();
  const auto reserved = reader.get<std::uint16_t>();
  chunk.head.layer.index = reader.get<std::int32_t>();
  chunk.head.unit = reader.get<std::uint32_t>();
  chunk.head.detail = reader.get<std::uint32_t>();
  chunk.head.iteration = reader.get<std::int64_t>();
  chunk.head.payload_bytes = reader.get<std::uint64_t>();
  const auto kind = message_kind(byte);
  if (!kind || reserved != 0) return error(ErrorKind::kCorrupt, "a chunk of unknown kind {}", byte);
  chunk.head.kind = *kind;
  if (chunk.head.payload_bytes > kMaxMessageBytes || chunk.offset > chunk.head.payload_bytes) {
    return error(ErrorKind::kCorrupt, "a chunk at offset {} of a message of {} bytes; at most {} are legal", chunk.offset,
                 chunk.head.payload_bytes, kMaxMessageBytes);
  }
  return chunk;
}

}  // namespace paceline::wire

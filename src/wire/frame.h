// The unit of the wire: a fixed header of 48 bytes, a small body, a payload. What every transport carries.
//
//   offset  bytes  field
//        0      4  magic "PLN1"
//        4      1  major version   a receiver refuses another major version
//        5      1  minor version   higher minor versions are accepted
//        6      1  kind            FrameKind
//        7      1  flags           0; refused otherwise
//        8      8  sequence        number of a chunk in its session and direction, from 1; 0 = not sequenced
//       16      8  acknowledged    every chunk up to this number has been received by the sender of this frame
//       24      4  epoch           membership epoch of the sender
//       28      4  body bytes      <= kMaxBody
//       32      4  payload bytes   <= kMaxPayload
//       36      4  payload CRC32C
//       40      4  reserved        0
//       44      4  header CRC32C   over bytes 0..43 and the body
//
// Lengths are checked before anything is allocated or read. Little-endian. Golden bytes of each kind: frame_test.cc.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"

namespace paceline::wire {

inline constexpr std::uint8_t kMajorVersion = 2;
inline constexpr std::uint8_t kMinorVersion = 0;
inline constexpr std::array<char, 4> kMagic = {'P', 'L', 'N', '1'};  // the first bytes of every frame
inline constexpr std::size_t kHeaderBytes = 48;
inline constexpr std::size_t kMaxBody = 208;  // header and body fit in 256 bytes
inline constexpr std::size_t kMaxPayload = std::size_t{1} << 20;
inline constexpr std::size_t kMaxStrangerPayload = 4096;  // until the peer has been admitted

enum class FrameKind : std::uint8_t {
  kHello,        // who I am, which session, what I have received: first frame of the side that connects
  kHelloReply,   // accepted (and what I have received), or refused with a reason
  kChunk,        // a piece of a message
  kAcknowledge,  // carries only `acknowledged`
  kHeartbeat,    // asks the peer's loop to answer
  kHeartbeatReply,
  kGoodbye,  // an orderly end: the peer is leaving, do not wait for a reconnect
};

struct FrameHeader {
  FrameKind kind = FrameKind::kHeartbeat;
  std::uint8_t major = kMajorVersion;
  std::uint8_t minor = kMinorVersion;
  std::uint64_t sequence = 0;
  std::uint64_t acknowledged = 0;
  std::uint32_t epoch = 0;
  std::uint32_t body_bytes = 0;
  std::uint32_t payload_bytes = 0;
  std::uint32_t payload_crc = 0;
  std::uint32_t header_crc = 0;

  bool operator==(const FrameHeader&) const = default;
};

// Header and body as they stand on the wire, ready to be sent in front of the payload.
struct SealedHead {
  std::array<std::byte, kHeaderBytes + kMaxBody> bytes;
  std::uint32_t size = 0;  // header and body
  std::uint32_t payload_bytes = 0;

  std::span<const std::byte> view() const { return std::span(bytes).first(size); }
};

// Fills in lengths and both checksums. Requires: body and payload within their limits.
SealedHead seal(FrameHeader header, std::span<const std::byte> body, std::span<const std::byte> payload);

// Whether a peer's first bytes are those of TLS: a greeting, or an alert.
bool speaks_tls(std::span<const std::byte> bytes);

// Checks magic, version, kind, flags and lengths (payload at most `payload_limit`) of the first 48 bytes. Not the checksum,
// which covers the body too. Errors: kBadRequest for a stranger (TLS is named) or another version (both are named), kCorrupt
// otherwise.
Result<FrameHeader> open_header(std::span<const std::byte, kHeaderBytes> bytes, std::size_t payload_limit);

// Checks the header's checksum once the body is there. `header_and_body` is what was sent.
Status check_head(const FrameHeader& header, std::span<const std::byte> header_and_body);

Status check_payload(const FrameHeader& header, std::span<const std::byte> payload);

}  // namespace paceline::wire

#include "wire/frame.h"

#include <cstring>

#include "base/checksum.h"

namespace paceline::wire {
namespace {

constexpr std::size_t kChecksumOffset = 44;

template <typename T>
void put(std::span<std::byte> to, std::size_t offset, T value) {
  std::memcpy(to.data() + offset, &value, sizeof value);
}

template <typename T>
T get(std::span<const std::byte> from, std::size_t offset) {
  T value;
  std::memcpy(&value, from.data() + offset, sizeof value);
  return value;
}

std::uint32_t head_checksum(std::span<const std::byte> header_and_body) {
  return crc32c(header_and_body.subspan(kHeaderBytes), crc32c(header_and_body.first(kChecksumOffset)));
}

}  // namespace

SealedHead seal(FrameHeader header, std::span<const std::byte> body, std::span<const std::byte> payload) {
  PACELINE_CHECK(body.size() <= kMaxBody, "body of {} bytes", body.size());
  PACELINE_CHECK(payload.size() <= kMaxPayload, "payload of {} bytes", payload.size());
  SealedHead sealed;
  sealed.size = static_cast<std::uint32_t>(kHeaderBytes + body.size());
  sealed.payload_bytes = static_cast<std::uint32_t>(payload.size());
  const std::span<std::byte> to(sealed.bytes);
  std::memcpy(to.data(), kMagic.data(), kMagic.size());
  put(to, 4, header.major);
  put(to, 5, header.minor);
  put(to, 6, header.kind);
  put(to, 7, std::uint8_t{0});
  put(to, 8, header.sequence);
  put(to, 16, header.acknowledged);
  put(to, 24, header.epoch);
  put(to, 28, static_cast<std::uint32_t>(body.size()));
  put(to, 32, sealed.payload_bytes);
  put(to, 36, crc32c(payload));
  put(to, 40, std::uint32_t{0});
  if (!body.empty()) std::memcpy(to.data() + kHeaderBytes, body.data(), body.size());
  put(to, kChecksumOffset, head_checksum(sealed.view()));
  return sealed;
}

bool speaks_tls(std::span<const std::byte> bytes) {
  constexpr std::byte kAlert{21}, kHandshake{22}, kMajor{3};
  return bytes.size() >= 2 && (bytes[0] == kAlert || bytes[0] == kHandshake) && bytes[1] == kMajor;
}

Result<FrameHeader> open_header(std::span<const std::byte, kHeaderBytes> bytes, std::size_t payload_limit) {
  if (speaks_tls(bytes)) {
    return error(
               ErrorKind::kBadRequest,
               "the peer speaks TLS, and this process talks in the clear: it was started without the job's key; give all processes "
               "of the job the same file with --job-key-file")
        .because({"other-key", ""});
  }
  if (std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) {
    return error(ErrorKind::kBadRequest, "the peer does not speak Paceline's protocol (first bytes {:02x} {:02x} {:02x} {:02x})",
                 get<std::uint8_t>(bytes, 0), get<std::uint8_t>(bytes, 1), get<std::uint8_t>(bytes, 2), get<std::uint8_t>(bytes, 3))
        .because({"not-paceline", ""});
  }
  FrameHeader header;
  header.major = get<std::uint8_t>(bytes, 4);
  header.minor = get<std::uint8_t>(bytes, 5);
  if (header.major != kMajorVersion) {
    return error(ErrorKind::kBadRequest,
                 "the peer speaks protocol version {}.{}, this process {}.{}; run the same release everywhere", header.major,
                 header.minor, kMajorVersion, kMinorVersion)
        .because({"release", ""});
  }
  const auto kind = get<std::uint8_t>(bytes, 6);
  const auto flags = get<std::uint8_t>(bytes, 7);
  if (kind > static_cast<std::uint8_t>(FrameKind::kGoodbye)) return error(ErrorKind::kCorrupt, "unknown frame kind {}", kind);
  if (flags != 0) return error(ErrorKind::kCorrupt, "unknown frame flags {:#x}", flags);
  header.kind = static_cast<FrameKind>(kind);
  header.sequence = get<std::uint64_t>(bytes, 8);
  header.acknowledged = get<std::uint64_t>(bytes, 16);
  header.epoch = get<std::uint32_t>(bytes, 24);
  header.body_bytes = get<std::uint32_t>(bytes, 28);
  header.payload_bytes = get<std::uint32_t>(bytes, 32);
  header.payload_crc = get<std::uint32_t>(bytes, 36);
  header.header_crc = get<std::uint32_t>(bytes, kChecksumOffset);
  if (header.body_bytes > kMaxBody)
    return error(ErrorKind::kCorrupt, "a frame announces a body of {} bytes, at most {} are legal", header.body_bytes, kMaxBody);
  if (header.payload_bytes > payload_limit) {
    return error(ErrorKind::kCorrupt, "a frame announces a payload of {} bytes, at most {} are legal here", header.payload_bytes,
                 payload_limit);
  }
  return header;
}

Status check_head([[maybe_unused]] const FrameHeader& header, [[maybe_unused]] std::span<const std::byte> header_and_body) {
#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
  if (get<std::uint32_t>(header_and_body, 40) != 0 || head_checksum(header_and_body) != header.header_crc) {
    return error(ErrorKind::kCorrupt, "the header of a frame was damaged on its way");
  }
#endif
  return {};
}

Status check_payload([[maybe_unused]] const FrameHeader& header, [[maybe_unused]] std::span<const std::byte> payload) {
#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
  if (crc32c(payload) != header.payload_crc) {
    return error(ErrorKind::kCorrupt, "a payload of {} bytes was damaged on its way", payload.size());
  }
#endif
  return {};
}

}  // namespace paceline::wire

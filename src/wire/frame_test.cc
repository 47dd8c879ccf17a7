#include "wire/frame.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "base/checksum.h"

namespace paceline::wire {
namespace {

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string hex_of(std::span<const std::byte> bytes) {
  std::string hex;
  for (const std::byte byte : bytes) hex += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return hex;
}

// What a receiver does with header, body and payload.
Status receive(std::span<const std::byte> head, std::span<const std::byte> payload, std::size_t limit = kMaxPayload) {
  PACELINE_ASSIGN_OR_RETURN(const FrameHeader header, open_header(head.first<kHeaderBytes>(), limit));
  if (head.size() != kHeaderBytes + header.body_bytes) return error(ErrorKind::kCorrupt, "another length of the body");
  PACELINE_RETURN_IF_ERROR(check_head(header, head));
  if (payload.size() != header.payload_bytes) return error(ErrorKind::kCorrupt, "another length of the payload");
  return check_payload(header, payload);
}

struct Golden {
  FrameKind kind;
  std::uint64_t sequence;
  std::uint64_t acknowledged;
  std::uint32_t epoch;
  std::string body;
  std::string payload;
  std::string head;  // computed by a bit-by-bit CRC32C outside this program
};

std::vector<Golden> goldens() {
  return {
      {FrameKind::kHello, 0x0, 0x0, 0x1, "who", "",
       "504c4e310200000000000000000000000000000000000000010000000300000000000000000000000000000000dcfa7b"
       "77686f"},
      {FrameKind::kHelloReply, 0x0, 0x3, 0x2, "ok", "welcome",
       "504c4e3102000100000000000000000003000000000000000200000002000000070000000aa434c200000000928033b0"
       "6f6b"},
      {FrameKind::kChunk, 0x1122334455667788, 0x99aabbccddeeff00, 0xdeadbeef, "place", "payload bytes",
       "504c4e3102000200887766554433221100ffeeddccbbaa99efbeadde050000000d0000004898cad2000000004de72997"
       "706c616365"},
      {FrameKind::kAcknowledge, 0x0, 0x5, 0x0, "", "",
       "504c4e310200030000000000000000000500000000000000000000000000000000000000000000000000000058bcc742"},
      {FrameKind::kHeartbeat, 0x0, 0x0, 0x0, "", "",
       "504c4e31020004000000000000000000000000000000000000000000000000000000000000000000000000004fe01eac"},
      {FrameKind::kHeartbeatReply, 0x0, 0x1, 0x0, "", "",
       "504c4e31020005000000000000000000010000000000000000000000000000000000000000000000000000005bcb844d"},
      {FrameKind::kGoodbye, 0x0, 0x7, 0x4, "", "",
       "504c4e310200060000000000000000000700000000000000040000000000000000000000000000000000000064545296"},
  };
}

TEST(Frame, EachKindHasItsGoldenBytesAndReadsBackAsItWas) {
  for (const Golden& golden : goldens()) {
    SCOPED_TRACE(static_cast<int>(golden.kind));
    const FrameHeader header{
        .kind = golden.kind, .sequence = golden.sequence, .acknowledged = golden.acknowledged, .epoch = golden.epoch};
    const SealedHead sealed = seal(header, bytes_of(golden.body), bytes_of(golden.payload));
    EXPECT_EQ(hex_of(sealed.view()), golden.head);
    EXPECT_EQ(sealed.payload_bytes, golden.payload.size());
    EXPECT_TRUE(receive(sealed.view(), bytes_of(golden.payload)).ok());
    const auto opened = open_header(sealed.view().first<kHeaderBytes>(), kMaxPayload);
    ASSERT_TRUE(opened.ok());
    EXPECT_EQ(opened->kind, golden.kind);
    EXPECT_EQ(opened->major, kMajorVersion);
    EXPECT_EQ(opened->minor, kMinorVersion);
    EXPECT_EQ(opened->sequence, golden.sequence);
    EXPECT_EQ(opened->acknowledged, golden.acknowledged);
    EXPECT_EQ(opened->epoch, golden.epoch);
    EXPECT_EQ(opened->body_bytes, golden.body.size());
    EXPECT_EQ(opened->payload_bytes, golden.payload.size());
    EXPECT_EQ(opened->payload_crc, crc32c(bytes_of(golden.payload)));
  }
  EXPECT_EQ(goldens().size(), static_cast<std::size_t>(FrameKind::kGoodbye) + 1);
}

TEST(Frame, EveryChangeOfEveryByteIsFound) {
  for (const Golden& golden : goldens()) {
    const auto payload = bytes_of(golden.payload);
    const SealedHead sealed =
        seal({.kind = golden.kind, .sequence = golden.sequence, .acknowledged = golden.acknowledged, .epoch = golden.epoch},
             bytes_of(golden.body), payload);
    for (std::size_t at = 0; at < sealed.size + payload.size(); ++at) {
      for (unsigned change = 1; change < 256; ++change) {
        SealedHead head = sealed;
        auto changed = payload;
        (at < sealed.size ? head.bytes[at] : changed[at - sealed.size]) ^= static_cast<std::byte>(change);
        EXPECT_FALSE(receive(head.view(), changed).ok())
            << "kind " << static_cast<int>(golden.kind) << " byte " << at << " xor " << change;
      }
    }
  }
}

TEST(Frame, RandomFramesReadBackAndRandomDamageIsFound) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    std::vector<std::byte> body(random() % (kMaxBody + 1));
    std::vector<std::byte> payload(random() % 300);
    for (std::byte& byte : body) byte = static_cast<std::byte>(random());
    for (std::byte& byte : payload) byte = static_cast<std::byte>(random());
    SealedHead sealed = seal({.kind = static_cast<FrameKind>(random() % 7),
                              .sequence = random(),
                              .acknowledged = random(),
                              .epoch = static_cast<std::uint32_t>(random())},
                             body, payload);
    EXPECT_TRUE(receive(sealed.view(), payload).ok());
    EXPECT_TRUE(std::ranges::equal(sealed.view().subspan(kHeaderBytes), body));
    std::size_t flips = 1 + random() % 3;  // up to three bits: within the guaranteed distance of CRC32C at these lengths
    std::vector<std::size_t> bits;
    while (bits.size() < flips) {
      const std::size_t bit = random() % (8 * sealed.size);
      if (std::find(bits.begin(), bits.end(), bit) == bits.end()) bits.push_back(bit);
    }
    for (const std::size_t bit : bits) sealed.bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_FALSE(receive(sealed.view(), payload).ok()) << fmt::format("bits {}", fmt::join(bits, ","));
  }
}

TEST(Frame, LengthsBeyondTheirLimitsAreRefusedBeforeAnythingElseIsAsked) {
  const auto with_length = [](std::size_t offset, std::uint32_t length) {
    SealedHead sealed = seal({}, {}, {});
    std::memcpy(sealed.bytes.data() + offset, &length, sizeof length);
    return open_header(sealed.view().first<kHeaderBytes>(), kMaxStrangerPayload);
  };
  EXPECT_TRUE(with_length(28, kMaxBody).ok());
  EXPECT_TRUE(with_length(32, kMaxStrangerPayload).ok());
  for (const std::uint32_t length : {std::uint32_t{kMaxBody + 1}, std::uint32_t{0x7fffffff}, std::uint32_t{0xffffffff}}) {
    EXPECT_EQ(with_length(28, length).status().kind(), ErrorKind::kCorrupt);
  }
  for (const std::uint32_t length :
       {std::uint32_t{kMaxStrangerPayload + 1}, std::uint32_t{kMaxPayload}, std::uint32_t{0xffffffff}}) {
    const auto refused = with_length(32, length);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.status().kind(), ErrorKind::kCorrupt);
    EXPECT_NE(refused.status().message().find(std::to_string(length)), std::string::npos);
    EXPECT_NE(refused.status().message().find(std::to_string(kMaxStrangerPayload)), std::string::npos);
  }
}

TEST(Frame, TheLargestBodyAndPayloadAreLegal) {
  const std::vector<std::byte> body(kMaxBody, std::byte{1});
  const std::vector<std::byte> payload(kMaxPayload, std::byte{2});
  const SealedHead sealed = seal({}, body, payload);
  EXPECT_EQ(sealed.size, 256U);
  EXPECT_TRUE(receive(sealed.view(), payload).ok());
  EXPECT_FALSE(receive(sealed.view(), payload, kMaxPayload - 1).ok());
}

TEST(Frame, AnotherMajorVersionIsABadRequestThatNamesBothAndAHigherMinorIsAccepted) {
  SealedHead other = seal({}, {}, {});
  other.bytes[4] = std::byte{kMajorVersion + 1};
  other.bytes[5] = std::byte{7};
  const auto refused = open_header(other.view().first<kHeaderBytes>(), kMaxPayload);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().kind(), ErrorKind::kBadRequest);
  EXPECT_NE(refused.status().message().find(fmt::format("{}.7", kMajorVersion + 1)), std::string::npos);
  EXPECT_NE(refused.status().message().find(fmt::format("{}.{}", kMajorVersion, kMinorVersion)), std::string::npos);

  const SealedHead newer = seal({.minor = kMinorVersion + 1}, {}, {});
  EXPECT_TRUE(receive(newer.view(), {}).ok());
}

TEST(Frame, AStrangerIsABadRequestAndUnknownKindsAndFlagsAreCorrupt) {
  const std::string http = "GET / HTTP/1.1\r\nHost: example.org\r\nAccept: */*\r\n\r\n";
  EXPECT_EQ(open_header(std::span<const std::byte>(bytes_of(http)).first<kHeaderBytes>(), kMaxPayload).status().kind(),
            ErrorKind::kBadRequest);
  SealedHead kind = seal({}, {}, {});
  kind.bytes[6] = std::byte{static_cast<unsigned>(FrameKind::kGoodbye) + 1};
  EXPECT_EQ(open_header(kind.view().first<kHeaderBytes>(), kMaxPayload).status().kind(), ErrorKind::kCorrupt);
  SealedHead flags = seal({}, {}, {});
  flags.bytes[7] = std::byte{1};
  EXPECT_EQ(open_header(flags.view().first<kHeaderBytes>(), kMaxPayload).status().kind(), ErrorKind::kCorrupt);
}

TEST(FrameDeathTest, SealingMoreThanTheLimitsIsAProgrammerError) {
  const std::vector<std::byte> body(kMaxBody + 1);
  EXPECT_DEATH(seal({}, body, {}), "body of 209 bytes");
  const std::vector<std::byte> payload(kMaxPayload + 1);
  EXPECT_DEATH(seal({}, {}, payload), "payload of 1048577 bytes");
}

}  // namespace
}  // namespace paceline::wire

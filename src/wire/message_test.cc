#include "wire/message.h"

#include <algorithm>
#include <array>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::wire {
namespace {

using ::testing::HasSubstr;
using Bytes48 = std::array<std::byte, kChunkBodyBytes>;

Bytes48 encoded(const ChunkBody& chunk) {
  Bytes48 bytes;
  encode(chunk, bytes);
  return bytes;
}

ChunkBody example() {
  return {.message = 0x0102030405060708,
          .offset = 0x10,
          .head = {.kind = MessageKind::kValue,
                   .flags = 1,
                   .layer = {-1},
                   .unit = 0x11223344,
                   .detail = 7,
                   .iteration = -2,
                   .payload_bytes = 0x1000}};
}

TEST(Message, AChunkHasTheBytesOfProtocol2) {
  std::string hex;
  for (const std::byte byte : encoded(example())) hex += fmt::format("{:02x}", std::to_integer<int>(byte));
  EXPECT_EQ(hex,
            "0807060504030201"
            "1000000000000000"
            "40"
            "01"
            "0000"
            "ffffffff"
            "44332211"
            "07000000"
            "feffffffffffffff"
            "0010000000000000");
}

// The heads of the messages of pace, as they travel.
TEST(Message, TheMessagesOfPaceHaveTheirBytes) {
  const auto head_of = [](MessageKind kind, std::uint32_t unit, Iteration iteration) {
    const ChunkBody chunk{
        .message = 1, .offset = 0, .head = {.kind = kind, .layer = kControlLayer, .unit = unit, .iteration = iteration}};
    std::string hex;
    const Bytes48 bytes = encoded(chunk);
    for (const std::byte byte : std::span(bytes).subspan(16)) hex += fmt::format("{:02x}", std::to_integer<int>(byte));
    return hex;
  };
  EXPECT_EQ(head_of(MessageKind::kBarrier, 3, 17),
            "81000000ffffffff0300000000000000"
            "1100000000000000"
            "0000000000000000");
  EXPECT_EQ(head_of(MessageKind::kMiniBatch, 2, 300),
            "60000000ffffffff0200000000000000"
            "2c01000000000000"
            "0000000000000000");
  EXPECT_EQ(head_of(MessageKind::kDone, 0, 75),
            "24000000ffffffff0000000000000000"
            "4b00000000000000"
            "0000000000000000");
}

TEST(Message, EachKindBelongsToItsChannel) {
  std::array<int, kChannels> kinds{};
  for (const MessageKind kind : all_message_kinds()) ++kinds.at(static_cast<std::size_t>(channel_of(kind)));
  EXPECT_EQ(kinds, (std::array{20, 8, 4, 2, 2, 5}));
  EXPECT_EQ(message_kind(2), std::nullopt) << "nobody sends it any more";
  EXPECT_EQ(message_kind(3), MessageKind::kReady) << "the others keep their numbers";
  EXPECT_EQ(channel_of(MessageKind::kPull), Channel::kGradients);
  EXPECT_EQ(channel_of(MessageKind::kNotify), Channel::kValues);
  EXPECT_EQ(channel_of(MessageKind::kCollectiveClosed), Channel::kCollective);
}

TEST(Message, WhatIsWrittenIsReadAgain) {
  std::mt19937_64 random(1);
  const auto kinds = all_message_kinds();
  for (int i = 0; i < 5000; ++i) {
    ChunkBody chunk;
    chunk.message = random();
    chunk.head.kind = kinds[random() % kinds.size()];
    chunk.head.flags = static_cast<std::uint8_t>(random());
    chunk.head.layer.index = static_cast<std::int32_t>(random());
    chunk.head.unit = static_cast<std::uint32_t>(random());
    chunk.head.detail = static_cast<std::uint32_t>(random());
    chunk.head.iteration = static_cast<std::int64_t>(random());
    chunk.head.payload_bytes = random() % (kMaxMessageBytes + 1);
    chunk.offset = random() % (chunk.head.payload_bytes + 1);
    const auto again = decode_chunk(encoded(chunk));
    ASSERT_TRUE(again.ok()) << again.status().message();
    ASSERT_EQ(*again, chunk) << i;
  }
}

TEST(Message, AnyOtherLengthIsRefused) {
  std::array<std::byte, kChunkBodyBytes + 1> longer{};
  const Bytes48 bytes = encoded(example());
  std::ranges::copy(bytes, longer.begin());
  for (std::size_t length = 0; length <= longer.size(); ++length) {
    EXPECT_EQ(decode_chunk(std::span<const std::byte>(longer).first(length)).ok(), length == kChunkBodyBytes) << length;
  }
}

TEST(Message, ValuesOutOfRangeAreRefused) {
  Bytes48 bytes = encoded(example());
  for (unsigned kind = 0; kind < 256; ++kind) {
    bytes[16] = static_cast<std::byte>(kind);
    const bool known = std::ranges::count(all_message_kinds(), static_cast<MessageKind>(kind)) > 0;
    EXPECT_EQ(decode_chunk(bytes).ok(), known) << kind;
    if (known) continue;
    EXPECT_THAT(decode_chunk(bytes).status().message(), HasSubstr("unknown kind"));
  }
  bytes = encoded(example());
  bytes[18] = std::byte{1};
  EXPECT_FALSE(decode_chunk(bytes).ok()) << "reserved bytes are zero";
  ChunkBody chunk = example();
  chunk.offset = chunk.head.payload_bytes;
  EXPECT_TRUE(decode_chunk(encoded(chunk)).ok()) << "the end of an empty payload";
  ++chunk.offset;
  EXPECT_EQ(decode_chunk(encoded(chunk)).status().kind(), ErrorKind::kCorrupt);
  chunk = example();
  chunk.head.payload_bytes = kMaxMessageBytes;
  EXPECT_TRUE(decode_chunk(encoded(chunk)).ok());
  ++chunk.head.payload_bytes;
  EXPECT_THAT(decode_chunk(encoded(chunk)).status().message(), HasSubstr("at most 68719476736 are legal"));
}

}  // namespace
}  // namespace paceline::wire

#include "wire/collective.h"

#include <array>
#include <random>

#include <gtest/gtest.h>

namespace paceline::wire {
namespace {

CollectiveHead random_head(std::mt19937_64& random) {
  CollectiveHead head;
  head.kind = static_cast<CollectiveKind>(random() % (static_cast<unsigned>(kLastCollectiveKind) + 1));
  head.dtype = static_cast<std::uint8_t>(random() % kCollectiveDTypes);
  if (head.dtype < kAddedCollectiveDTypes) head.reduction = static_cast<std::uint8_t>(random() % kCollectiveReductions);
  head.algorithm = static_cast<std::uint8_t>(random() % kCollectiveAlgorithms);
  head.root = static_cast<std::int32_t>(random() % kMostCollectiveRanks);
  head.count = static_cast<std::int64_t>(random() % (kMostCollectiveCount + 1));
  head.group = static_cast<std::uint32_t>(random() % (kMostCollectiveGroup + 1));
  head.number = static_cast<std::uint32_t>(random());
  head.index = static_cast<std::uint32_t>(random() % (kMostCollectiveIndex + 1));
  return head;
}

TEST(Collective, AHeadHasTheBytesOfProtocol2) {
  const CollectiveHead head{.kind = CollectiveKind::kReduceScatter,
                            .dtype = 4,
                            .reduction = 2,
                            .algorithm = 3,
                            .root = 0x1abc,
                            .count = 0x0102030405,
                            .group = 0x2a7f,
                            .number = 0x11223344,
                            .index = 0xa1b2c3};
  ChunkBody chunk{.message = 1, .offset = 0, .head = {.kind = MessageKind::kCollective, .layer = {2}, .payload_bytes = 8}};
  pack(head, chunk.head);
  std::array<std::byte, kChunkBodyBytes> bytes;
  encode(chunk, bytes);
  std::string hex;
  for (const std::byte byte : bytes) hex += fmt::format("{:02x}", std::to_integer<int>(byte));
  EXPECT_EQ(hex,
            "0100000000000000"
            "0000000000000000"
            "a0"
            "7f"
            "0000"
            "02000000"
            "44332211"
            "438e57ab"
            "0504030201c3b2a1"
            "0800000000000000");
}

TEST(Collective, WhatIsPackedIsReadAgain) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 10'000; ++i) {
    const CollectiveHead head = random_head(random);
    MessageHead message;
    message.layer = {static_cast<std::int32_t>(i)};
    message.payload_bytes = 77;
    pack(head, message);
    const auto again = unpack(message);
    ASSERT_TRUE(again.ok()) << again.status().message();
    ASSERT_EQ(*again, head);
    ASSERT_EQ(message.layer.index, i);
    ASSERT_EQ(message.payload_bytes, 77);
  }
}

TEST(Collective, AGroupIsReadAsItWasWrittenAndNothingElseIs) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 1000; ++i) {
    CollectiveGroup group{.name = random()};
    for (std::int32_t rank = 0; rank < 50; ++rank) {
      if (random() % 2 == 0) group.ranks.push_back(Rank{rank});
    }
    auto bytes = encode(group);
    ASSERT_LE(bytes.size(), kMostCollectiveGroupBytes);
    ASSERT_EQ(decode_collective_group(bytes).value(), group);
    bytes.resize(random() % bytes.size());
    ASSERT_EQ(decode_collective_group(bytes).status().kind(), ErrorKind::kCorrupt);
  }
  for (const auto& wrong : std::vector<std::vector<Rank>>{{}, {Rank{-1}}, {Rank{1}, Rank{1}}, {Rank{2}, Rank{1}}})
    EXPECT_FALSE(decode_collective_group(encode(CollectiveGroup{.name = 1, .ranks = wrong})).ok());
}

TEST(Collective, AnyBitsAreRefusedOrReadSuchThatPackingGivesThemAgain) {
  std::mt19937_64 random(4);
  int legal = 0;
  for (int i = 0; i < 100'000; ++i) {
    MessageHead message;
    message.flags = static_cast<std::uint8_t>(random());
    message.detail = static_cast<std::uint32_t>(random());
    message.unit = static_cast<std::uint32_t>(random());
    message.iteration = static_cast<std::int64_t>(random());
    const auto head = unpack(message);
    if (!head.ok()) {
      ASSERT_EQ(head.status().kind(), ErrorKind::kCorrupt);
      continue;
    }
    ++legal;
    MessageHead again = message;
    pack(*head, again);
    ASSERT_EQ(again, message);
  }
  EXPECT_GT(legal, 1000);
  EXPECT_LT(legal, 99'000);
}

}  // namespace
}  // namespace paceline::wire

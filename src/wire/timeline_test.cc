#include "wire/timeline.h"

#include <random>

#include <gtest/gtest.h>

namespace paceline::wire {
namespace {

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", std::to_integer<int>(byte));
  return text;
}

TEST(Timeline, MessagesHaveTheBytesOfProtocol2) {
  const TimelinePart part{.thread = TimelineThread::kLoop,
                          .dropped = 5,
                          .events = {{.what = Happening::kArrived,
                                      .message = MessageKind::kValue,
                                      .peer = 2,
                                      .unit = 0x11223344,
                                      .detail = 7,
                                      .iteration = 9,
                                      .begin = 0x0102030405060708,
                                      .end = 0x0102030405060709}}};
  EXPECT_EQ(hex(encode(part)),
            "01"
            "0500000000000000"
            "01000000"
            "0a"
            "40"
            "02000000"
            "44332211"
            "07000000"
            "0900000000000000"
            "0807060504030201"
            "0907060504030201");
  EXPECT_EQ(hex(encode(ClockReading{-2})), "feffffffffffffff");
}

TEST(Timeline, TheKindsOfItsMessagesHaveTheirNumbers) {
  EXPECT_EQ(static_cast<int>(MessageKind::kClockAsk), 14);
  EXPECT_EQ(static_cast<int>(MessageKind::kClockTell), 15);
  EXPECT_EQ(static_cast<int>(MessageKind::kTimeline), 16);
}

const std::vector<MessageKind> kMessageKinds = all_message_kinds();

TimelinePart random_part(std::mt19937_64& random) {
  TimelinePart part{.thread = static_cast<TimelineThread>(random() % 2), .dropped = random(), .events = {}};
  part.events.resize(random() % 5);
  for (Event& event : part.events) {
    event = {.what = static_cast<Happening>(random() % 11),
             .message = kMessageKinds[random() % kMessageKinds.size()],
             .peer = static_cast<std::int32_t>(random()),
             .unit = static_cast<std::uint32_t>(random()),
             .detail = static_cast<std::uint32_t>(random()),
             .iteration = static_cast<std::int64_t>(random()),
             .begin = static_cast<std::int64_t>(random() >> 2)};
    event.end = event.begin + static_cast<std::int64_t>(random() >> 2);
  }
  return part;
}

TEST(Timeline, WhatIsWrittenIsReadAgainAndNoPartOfIt) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    const TimelinePart part = random_part(random);
    auto bytes = encode(part);
    const auto again = decode_timeline_part(bytes);
    ASSERT_TRUE(again.ok()) << again.status().message();
    ASSERT_EQ(*again, part);
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      const auto shorter = decode_timeline_part(std::span<const std::byte>(bytes).first(length));
      ASSERT_FALSE(shorter.ok()) << length << " of " << bytes.size() << " bytes";
      ASSERT_EQ(shorter.status().kind(), ErrorKind::kCorrupt);
    }
    bytes.push_back({});
    ASSERT_FALSE(decode_timeline_part(bytes).ok());
  }
}

TEST(Timeline, ValuesOutOfRangeAndCountsWithoutBytesAreRefused) {
  const auto refused = [](std::size_t at, int value) {
    auto bytes = encode(TimelinePart{.thread = TimelineThread::kTraining, .dropped = 0, .events = {{}}});
    bytes[at] = std::byte(value);
    return !decode_timeline_part(bytes).ok();
  };
  EXPECT_TRUE(refused(0, 2)) << "there are two threads";
  EXPECT_TRUE(refused(12, 0x7f)) << "two thousand million events in one event's bytes";
  EXPECT_TRUE(refused(13, 11)) << "there are eleven kinds of happening";
  EXPECT_TRUE(refused(14, 21)) << "there is no such kind of message";
  EXPECT_TRUE(refused(13 + 22, 1)) << "an end before the beginning";
  EXPECT_FALSE(decode_clock_reading(std::vector<std::byte>(7)).ok());
  EXPECT_FALSE(decode_clock_reading(std::vector<std::byte>(9)).ok());
}

}  // namespace
}  // namespace paceline::wire

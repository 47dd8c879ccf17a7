#include "wire/hello.h"

#include <cstring>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::wire {
namespace {

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", std::to_integer<int>(byte));
  return text;
}

Hello example() {
  Hello hello;
  hello.session = 0x1122334455667788;
  hello.job = 0x0102030405060708;
  hello.received = 0x99;
  hello.epoch = 7;
  hello.attempt = 3;
  hello.from = {.role = 1, .rank = 2};
  hello.to = {.role = 2, .rank = -1};
  hello.resume = Hello::Resume::kYes;
  return hello;
}

TEST(Hello, HasTheBytesOfRelease0_1) {
  EXPECT_EQ(hex(encode(example())),
            "8877665544332211"
            "0807060504030201"
            "9900000000000000"
            "07000000"
            "03000000"
            "0100"
            "0100"
            "01"
            "02"
            "01"
            "00"
            "02000000"
            "ffffffff");
  HelloReply reply;
  reply.session = 0x1122334455667788;
  reply.job = 5;
  reply.received = 0x0a0b;
  reply.epoch = 9;
  reply.verdict = Verdict::kUnknown;
  reply.from = {.role = 2, .rank = 4};
  EXPECT_EQ(hex(encode(reply)),
            "8877665544332211"
            "0500000000000000"
            "0b0a000000000000"
            "09000000"
            "0100"
            "0100"
            "02"
            "02"
            "0000"
            "04000000");
}

TEST(Hello, WhatIsWrittenIsReadAgain) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    Hello hello;
    hello.session = random() | 1;
    hello.job = random();
    hello.received = random();
    hello.epoch = static_cast<std::uint32_t>(random());
    hello.attempt = static_cast<std::uint32_t>(random()) | 1;
    hello.lowest = static_cast<std::uint16_t>(random() % 100);
    hello.highest = static_cast<std::uint16_t>(hello.lowest + random() % 100);
    hello.from = {static_cast<std::uint8_t>(random()), static_cast<std::int32_t>(random() % 1000) - 1};
    hello.to = {static_cast<std::uint8_t>(random()), static_cast<std::int32_t>(random() % 1000) - 1};
    hello.resume = random() % 2 == 0 ? Hello::Resume::kNo : Hello::Resume::kYes;
    const auto again = decode_hello(encode(hello));
    ASSERT_TRUE(again.ok()) << again.status().message();
    ASSERT_EQ(*again, hello) << i;

    HelloReply reply;
    reply.session = random();
    reply.received = random();
    reply.verdict = static_cast<Verdict>(random() % 3);
    reply.from = hello.from;
    const auto reply_again = decode_hello_reply(encode(reply));
    ASSERT_TRUE(reply_again.ok());
    ASSERT_EQ(*reply_again, reply) << i;
  }
}

TEST(Hello, EveryShorterBodyIsRefusedAndALongerOneIsReadAsFarAsItIsKnown) {
  const auto bytes = encode(example());
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(decode_hello(std::span(bytes).first(length)).ok()) << length;
    if (length < kHelloReplyBytes) {
      EXPECT_FALSE(decode_hello_reply(std::span(bytes).first(length)).ok()) << length;
    }
  }
  std::vector<std::byte> longer(bytes.begin(), bytes.end());
  longer.resize(longer.size() + 9, std::byte{0x55});
  ASSERT_TRUE(decode_hello(longer).ok());
  EXPECT_EQ(*decode_hello(longer), example());
}

TEST(Hello, ValuesOutOfRangeAreRefused) {
  const auto refused = [](auto change) {
    Hello hello = example();
    change(hello);
    return !decode_hello(encode(hello)).ok();
  };
  EXPECT_FALSE(refused([](Hello&) {}));
  EXPECT_TRUE(refused([](Hello& h) { h.session = 0; }));
  EXPECT_TRUE(refused([](Hello& h) { h.attempt = 0; }));
  EXPECT_TRUE(refused([](Hello& h) {
    h.lowest = 3;
    h.highest = 2;
  }));
  EXPECT_TRUE(refused([](Hello& h) { h.from.rank = -2; }));
  EXPECT_TRUE(refused([](Hello& h) { h.to.rank = -2; }));
  EXPECT_TRUE(refused([](Hello& h) { h.resume = static_cast<Hello::Resume>(2); }));
  HelloReply reply;
  reply.verdict = static_cast<Verdict>(3);
  EXPECT_FALSE(decode_hello_reply(encode(reply)).ok());
}

TEST(Hello, AReasonFromOutsideCannotBreakALogLine) {
  const std::string text = "no\nwarning: fake\x1b[31m";
  EXPECT_EQ(printable_reason(std::as_bytes(std::span(text))), "no?warning: fake?[31m");
  const std::string long_text(5000, 'x');
  EXPECT_EQ(printable_reason(std::as_bytes(std::span(long_text))).size(), kMaxReason);
}

}  // namespace
}  // namespace paceline::wire

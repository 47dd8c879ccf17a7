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
  hello.from = {.roles = Role::kWorker, .rank = {2}, .incarnation = 0xa1a2a3a4};
  hello.to = {.roles = Role::kServer, .rank = {-1}, .incarnation = 0xb1b2b3b4};
  hello.resume = Hello::Resume::kYes;
  hello.nonce.fill(std::byte{0xcc});
  hello.key.fill(std::byte{0xdd});
  hello.proof.fill(std::byte{0xee});
  hello.door = 0xfa;
  return hello;
}

std::string times(int count, const std::string& text) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

std::vector<std::byte> bytes_of(const std::string& hex) {
  std::vector<std::byte> bytes;
  for (std::size_t at = 0; at < hex.size(); at += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(at, 2), nullptr, 16)));
  return bytes;
}

TEST(Hello, HasTheBytesOfRelease0_1) {
  EXPECT_EQ(hex(encode(example())), std::string("8877665544332211"
                                                "0807060504030201"
                                                "9900000000000000"
                                                "07000000"
                                                "03000000"
                                                "0400"
                                                "0400"
                                                "01"
                                                "02"
                                                "01"
                                                "00"
                                                "02000000"
                                                "ffffffff"
                                                "a4a3a2a1"
                                                "b4b3b2b1") +
                                        times(16, "cc") + times(32, "dd") + times(32, "ee") + "fa00");
  HelloReply reply;
  reply.session = 0x1122334455667788;
  reply.job = 5;
  reply.received = 0x0a0b;
  reply.epoch = 9;
  reply.verdict = Verdict::kUnknown;
  reply.from = {.roles = Role::kServer, .rank = {4}, .incarnation = 0xa1a2a3a4};
  reply.nonce.fill(std::byte{0xcc});
  reply.proof.fill(std::byte{0xee});
  EXPECT_EQ(hex(encode(reply)), std::string("8877665544332211"
                                            "0500000000000000"
                                            "0b0a000000000000"
                                            "09000000"
                                            "0400"
                                            "0400"
                                            "02"
                                            "02"
                                            "0000"
                                            "04000000"
                                            "a4a3a2a1"
                                            "00000000") +
                                    times(16, "cc") + times(32, "ee"));
}

// What a process of session protocol version 1 says, so that it can be told both versions.
TEST(Hello, OfAnotherVersionIsReadAsFarAsAllVersionsAreAlike) {
  const auto old =
      decode_hello(bytes_of("88776655443322110807060504030201990000000000000007000000030000000100010001020100"
                            "02000000ffffffff"));
  ASSERT_TRUE(old.ok()) << old.status().message();
  EXPECT_EQ(old->highest, 1);
  EXPECT_EQ(old->from, (PeerName{.roles = Role::kWorker, .rank = {2}}));
  const auto reply =
      decode_hello_reply(bytes_of("887766554433221105000000000000000b0a000000000000090000000100010001020000"
                                  "04000000"));
  ASSERT_TRUE(reply.ok()) << reply.status().message();
  EXPECT_EQ(reply->verdict, Verdict::kRefused);
  Hello newer = example();
  newer.lowest = newer.highest = 99;
  newer.to.roles = Roles(7);
  EXPECT_TRUE(decode_hello(encode(newer)).ok()) << "a role that only it knows does not hide that its version is another";
}

TEST(Hello, AProofHoldsForOneSecretOneChallengeAndWhatWasSaidOnly) {
  const Secret secret = draw_secret();
  const Nonce challenge = draw_nonce();
  const Hello hello = example();
  const Proof proof = proof_for(hello, secret, challenge);
  Hello proven = hello;
  proven.proof = proof;
  EXPECT_EQ(proof_for(proven, secret, challenge), proof) << "the field itself does not count";
  EXPECT_NE(proof_for(hello, draw_secret(), challenge), proof);
  EXPECT_NE(proof_for(hello, secret, draw_nonce()), proof);
  const auto differs = [&](auto change) {
    Hello other = hello;
    change(other);
    return proof_for(other, secret, challenge) != proof;
  };
  EXPECT_TRUE(differs([](Hello& h) { ++h.session; }));
  EXPECT_TRUE(differs([](Hello& h) { ++h.attempt; }));
  EXPECT_TRUE(differs([](Hello& h) { h.from.rank = {3}; }));
  EXPECT_TRUE(differs([](Hello& h) { h.to.roles = Role::kWorker; }));
  EXPECT_TRUE(differs([](Hello& h) { h.to.incarnation = 1; }));
  EXPECT_TRUE(differs([](Hello& h) { h.key = {}; }));
  EXPECT_TRUE(differs([](Hello& h) { ++h.door; }));
  const HelloReply reply{.session = hello.session, .from = hello.to};
  const Proof answer = proof_for(reply, secret, hello, challenge);
  EXPECT_NE(answer, proof);
  EXPECT_NE(proof_for(reply, secret, hello, draw_nonce()), answer);
  Hello again = hello;
  again.nonce = draw_nonce();
  EXPECT_NE(proof_for(reply, secret, again, challenge), answer) << "an answer that was recorded";
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
    hello.lowest = static_cast<std::uint16_t>(random() % (kHighestSession + 1));
    hello.highest = static_cast<std::uint16_t>(kHighestSession + random() % 100);
    hello.from = {Roles(static_cast<std::uint8_t>(random() % 4)), {static_cast<std::int32_t>(random() % 1000) - 1}};
    hello.to = {Roles(static_cast<std::uint8_t>(random() % 4)), {static_cast<std::int32_t>(random() % 1000) - 1}};
    hello.from.incarnation = static_cast<std::uint32_t>(random());
    hello.nonce = draw_nonce();
    hello.key = draw_secret();
    hello.resume = random() % 2 == 0 ? Hello::Resume::kNo : Hello::Resume::kYes;
    const auto again = decode_hello(encode(hello));
    ASSERT_TRUE(again.ok()) << again.status().message();
    ASSERT_EQ(*again, hello) << i;

    HelloReply reply;
    reply.session = random();
    reply.received = random();
    reply.verdict = static_cast<Verdict>(random() % 4);
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
  EXPECT_TRUE(refused([](Hello& h) { h.from.rank = {-2}; }));
  EXPECT_TRUE(refused([](Hello& h) { h.to.rank = {-2}; }));
  EXPECT_TRUE(refused([](Hello& h) { h.from.roles = Roles(4); }));
  EXPECT_TRUE(refused([](Hello& h) { h.to.roles = Roles(4); }));
  EXPECT_TRUE(refused([](Hello& h) { h.resume = static_cast<Hello::Resume>(2); }));
  HelloReply reply;
  reply.verdict = static_cast<Verdict>(4);
  EXPECT_FALSE(decode_hello_reply(encode(reply)).ok());
  reply.verdict = Verdict::kAccepted;
  EXPECT_TRUE(decode_hello_reply(encode(reply)).ok());
  reply.from.roles = Roles(4);
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

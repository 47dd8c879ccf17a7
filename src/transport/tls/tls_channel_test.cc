// Two honest sides, and what may happen to the bytes between them. Who attacks with a TLS of his own: tls_attack_test.cc.
#include "transport/tls/tls_channel.h"

#include <numeric>
#include <random>

#include <gmock/gmock.h>

#include "transport/tls/tls_channel_testing.h"
#include "wire/frame.h"

namespace paceline::transport::testing {
namespace {

using ::testing::HasSubstr;
using Outcome = Stream::Moved::Outcome;

Bytes some_bytes(std::size_t count, std::uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  Bytes bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// Where the records of a stream begin.
std::vector<std::size_t> records_of(const std::deque<std::byte>& stream) {
  std::vector<std::size_t> at;
  for (std::size_t i = 0; i + 5 <= stream.size();) {
    at.push_back(i);
    i += 5 + (std::to_integer<std::size_t>(stream[i + 3]) << 8 | std::to_integer<std::size_t>(stream[i + 4]));
  }
  return at;
}

// The pieces of `bytes`, of these lengths in turn.
std::vector<iovec> cut(const Bytes& bytes, std::mt19937_64& random) {
  std::vector<iovec> pieces;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t lengths[] = {1, random() % 300, random() % 20000, 70000};
    const std::size_t length = std::min(bytes.size() - at, lengths[random() % 4]);
    pieces.push_back({const_cast<std::byte*>(bytes.data()) + at, length});
    at += length;
  }
  return pieces;
}

TEST(TlsChannel, BytesArriveAsTheyWereHoweverPiecesSpacesAndTheSocketCutThem) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    Pair pair;
    pair.shake_hands();
    ASSERT_TRUE(pair.established());
    const Bytes sent = some_bytes(random() % 300000, seed);
    Bytes got;
    for (std::size_t done = 0; got.size() < sent.size();) {
      pair.there.room = random() % 3 == 0 ? random() % 40 : random() % 40000;
      const Bytes rest(sent.begin() + static_cast<std::ptrdiff_t>(done), sent.end());
      auto pieces = cut(rest, random);
      if (!pieces.empty()) done += pair.connecting.write(pieces).bytes;
      const auto moved = read_into(pair.accepting, got, 1 + random() % 50000);
      ASSERT_NE(moved.outcome, Outcome::kEnd) << moved.reason.message();
    }
    EXPECT_TRUE(got == sent);
  }
}

// The last bytes of a handshake and the first ones behind it often come together, and then nothing more does.
TEST(TlsChannel, WhatCameTogetherWithTheEndOfTheHandshakeIsReadWithoutAnotherByte) {
  Pair pair;
  pair.connected = pair.connecting.shake_hands();
  pair.accepted = pair.accepting.shake_hands();
  pair.connected = pair.connecting.shake_hands();
  ASSERT_EQ(pair.connected, TlsChannel::Next::kDone);
  const Bytes sent = some_bytes(100);
  write_from(pair.connecting, sent);
  ASSERT_EQ(pair.accepting.shake_hands(), TlsChannel::Next::kDone);
  EXPECT_TRUE(pair.accepting.may_have_more());
  Bytes got;
  read_into(pair.accepting, got);
  EXPECT_TRUE(got == sent);
  EXPECT_FALSE(pair.accepting.may_have_more());
}

TEST(TlsChannel, RecordsAreFullWhateverThePiecesAre) {
  Pair pair;
  pair.shake_hands();
  const Bytes sent = some_bytes(100000);
  std::vector<iovec> pieces;
  for (std::size_t at = 0; at < sent.size(); at += 50) pieces.push_back({const_cast<std::byte*>(sent.data()) + at, 50});
  EXPECT_EQ(pair.connecting.write(pieces).bytes, sent.size());
  EXPECT_EQ(records_of(pair.there.bytes).size(), 7U) << "of 16384 bytes each, the last of what is left";
}

TEST(TlsChannel, TheKeyChangesByVolumeAndByRecordsAndNothingIsLost) {
  for (const TlsOptions& options : {TlsOptions{.bytes_per_key = 50000}, TlsOptions{.records_per_key = 5}}) {
    Pair pair(options);
    pair.shake_hands();
    const Bytes sent = some_bytes(300000);
    Bytes got, back;
    for (std::size_t at = 0; at < sent.size(); at += 10000) {
      const Bytes part(sent.begin() + static_cast<std::ptrdiff_t>(at), sent.begin() + static_cast<std::ptrdiff_t>(at + 10000));
      ASSERT_EQ(write_from(pair.connecting, part).bytes, part.size());
      ASSERT_EQ(write_from(pair.accepting, part).bytes, part.size());
      read_into(pair.accepting, got);
      read_into(pair.connecting, back);
    }
    EXPECT_TRUE(got == sent && back == sent);
    EXPECT_GT(pair.connecting.keys_used(), 4U);
    EXPECT_GT(pair.accepting.keys_used(), 4U);
  }
}

TEST(TlsChannel, WhoHoldsAnotherKeyIsRefusedAndBothSidesSayWhy) {
  const JobKey ours = JobKey::draw(), theirs = JobKey::draw();
  Pair pair(theirs, ours);
  pair.shake_hands();
  ASSERT_EQ(pair.accepted, TlsChannel::Next::kFailed);
  ASSERT_EQ(pair.connected, TlsChannel::Next::kFailed);
  EXPECT_EQ(pair.accepting.failure().kind(), ErrorKind::kBadRequest);
  EXPECT_THAT(pair.accepting.failure().message(), HasSubstr(theirs.name()));
  EXPECT_THAT(pair.accepting.failure().message(), HasSubstr(ours.name()));
  EXPECT_THAT(pair.accepting.failure().message(), HasSubstr("--job-key-file"));
  EXPECT_EQ(pair.connecting.failure().kind(), ErrorKind::kBadRequest);
  EXPECT_THAT(pair.connecting.failure().message(), HasSubstr("it refused this process's job key (paceline/1 key=" + theirs.name()));
}

TEST(TlsChannel, WhoTalksInTheClearIsNamedAndAnsweredInTheClear) {
  Way in, out;
  RawEnd end(in, out);
  TlsChannel channel(std::make_shared<TlsContext>(JobKey::draw()), TlsChannel::Side::kAccepts, end);
  const auto hello = wire::seal({.kind = wire::FrameKind::kHello}, {}, {});
  in.bytes.assign(hello.view().begin(), hello.view().end());
  EXPECT_EQ(channel.shake_hands(), TlsChannel::Next::kFailed);
  EXPECT_EQ(channel.failure().kind(), ErrorKind::kBadRequest);
  EXPECT_THAT(channel.failure().message(), HasSubstr("it talks in the clear"));
  const Bytes answer(out.bytes.begin(), out.bytes.end());
  EXPECT_TRUE(wire::speaks_tls(answer));

  Way there, back;
  RawEnd greeting(back, there);
  TlsChannel connecting(std::make_shared<TlsContext>(JobKey::draw()), TlsChannel::Side::kConnects, greeting);
  EXPECT_EQ(connecting.shake_hands(), TlsChannel::Next::kRead);
  back.bytes.assign(hello.view().begin(), hello.view().end());
  EXPECT_EQ(connecting.shake_hands(), TlsChannel::Next::kFailed);
  EXPECT_THAT(connecting.failure().message(), HasSubstr("it talks in the clear"));
}

// One record in the middle of three is damaged in one place. A damaged length makes the reader wait for more, which comes.
TEST(TlsChannel, EveryFlippedBitEndsTheConnectionAndNoWrongByteComesOut) {
  const Bytes sent = some_bytes(30);
  for (std::size_t offset = 0;; ++offset) {
    Pair pair;
    pair.shake_hands();
    ASSERT_TRUE(pair.established());
    for (int i = 0; i < 3; ++i) write_from(pair.connecting, sent);
    const auto records = records_of(pair.there.bytes);
    ASSERT_EQ(records.size(), 3U);
    if (records[1] + offset == records[2]) break;
    pair.there.bytes[records[1] + offset] ^= std::byte{static_cast<unsigned char>(1U << offset % 8)};
    Bytes got;
    auto moved = read_into(pair.accepting, got);
    for (int more = 0; more < 10 && moved.outcome != Outcome::kEnd; ++more) {
      write_from(pair.connecting, some_bytes(16000));
      moved = read_into(pair.accepting, got);
    }
    ASSERT_EQ(moved.outcome, Outcome::kEnd) << "offset " << offset;
    EXPECT_EQ(moved.reason.kind(), ErrorKind::kCorrupt) << moved.reason.message();
    EXPECT_TRUE(got == sent) << "offset " << offset << ": what came before, and nothing else";
    // It is told, and it stays so.
    EXPECT_EQ(read_into(pair.accepting, got).outcome, Outcome::kEnd);
    moved = read_into(pair.connecting, got);
    EXPECT_EQ(moved.outcome, Outcome::kEnd);
    EXPECT_THAT(moved.reason.message(), HasSubstr("it broke off"));
  }
}

TEST(TlsChannel, RecordsThatAreSwappedDroppedOrDoubledEndTheConnection) {
  const Bytes sent = some_bytes(100);
  for (const std::vector<std::size_t>& order : {std::vector<std::size_t>{1, 0, 2}, {0, 2}, {0, 0, 1, 2}, {2}}) {
    Pair pair;
    pair.shake_hands();
    for (int i = 0; i < 3; ++i) write_from(pair.connecting, sent);
    const auto records = records_of(pair.there.bytes);
    const std::deque<std::byte> whole = std::exchange(pair.there.bytes, {});
    for (const std::size_t record : order) {
      const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(records[record]);
      pair.there.bytes.insert(pair.there.bytes.end(), begin, begin + static_cast<std::ptrdiff_t>(records[1] - records[0]));
    }
    Bytes got;
    auto moved = read_into(pair.accepting, got);
    if (moved.outcome == Outcome::kSome) moved = read_into(pair.accepting, got);
    EXPECT_EQ(moved.outcome, Outcome::kEnd);
    EXPECT_EQ(moved.reason.kind(), ErrorKind::kCorrupt);
    EXPECT_EQ(got.size(), order[0] == 0 ? sent.size() : 0);
  }
}

TEST(TlsChannel, AnEndWithoutGoodbyeIsNoOrderlyEnd) {
  for (const bool goodbye : {true, false}) {
    Pair pair;
    pair.shake_hands();
    write_from(pair.connecting, some_bytes(10));
    if (goodbye) pair.connecting.say_goodbye();
    pair.there.ended = true;
    Bytes got;
    EXPECT_EQ(read_into(pair.accepting, got).bytes, 10U);
    const auto moved = read_into(pair.accepting, got);
    ASSERT_EQ(moved.outcome, Outcome::kEnd);
    EXPECT_EQ(moved.reason.ok(), goodbye) << moved.reason.message();
    if (!goodbye) {
      EXPECT_THAT(moved.reason.message(), HasSubstr("cut off"));
    }
  }
}

TEST(TlsChannel, WhatWasRecordedOpensNothing) {
  const JobKey key = JobKey::draw();
  Bytes recorded;
  {
    Pair pair(key, key);
    while (!pair.established()) {
      pair.connected = pair.connecting.shake_hands();
      recorded.insert(recorded.end(), pair.there.bytes.begin(), pair.there.bytes.end());
      pair.accepted = pair.accepting.shake_hands();
    }
    write_from(pair.connecting, some_bytes(1000));
    recorded.insert(recorded.end(), pair.there.bytes.begin(), pair.there.bytes.end());
  }
  Way in, out;
  RawEnd end(in, out);
  TlsChannel channel(std::make_shared<TlsContext>(key), TlsChannel::Side::kAccepts, end);
  in.bytes.assign(recorded.begin(), recorded.end());
  EXPECT_EQ(channel.shake_hands(), TlsChannel::Next::kFailed);
  EXPECT_EQ(channel.failure().kind(), ErrorKind::kBadRequest) << channel.failure().message();
}

TEST(TlsChannel, WhoSendsTooMuchBeforeTheKeyIsCutOff) {
  Way in, out;
  RawEnd end(in, out);
  TlsChannel channel(std::make_shared<TlsContext>(JobKey::draw()), TlsChannel::Side::kAccepts, end);
  // A greeting of 100 000 bytes in records of 1000.
  for (int record = 0; record < 100; ++record) {
    for (const int byte : {22, 3, 1, 1000 >> 8, 1000 & 255}) in.bytes.push_back(static_cast<std::byte>(byte));
    Bytes body(1000);
    if (record == 0) body[0] = std::byte{1}, body[1] = std::byte{1}, body[2] = std::byte{0x86}, body[3] = std::byte{0xa0};
    in.bytes.insert(in.bytes.end(), body.begin(), body.end());
  }
  EXPECT_EQ(channel.shake_hands(), TlsChannel::Next::kFailed);
  EXPECT_THAT(channel.failure().message(), HasSubstr("more than 16384 bytes"));
  EXPECT_GE(in.bytes.size(), 100000 - kMostHandshake);
}

}  // namespace
}  // namespace paceline::transport::testing

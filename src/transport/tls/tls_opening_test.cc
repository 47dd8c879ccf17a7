// Channels that only open a connection (TlsOptions::only_opens).
#include <algorithm>

#include <gmock/gmock.h>
#include <openssl/crypto.h>
#include <unistd.h>

#include "transport/tls/tls_channel_testing.h"

namespace paceline::transport::testing {
namespace {

using ::testing::HasSubstr;

constexpr TlsOptions kOnlyOpens = {.only_opens = true};

TEST(TlsChannel, ThatOnlyOpensIsPastWithTheHandshakeAndReadsNothingThatFollows) {
  for (std::size_t room : {std::size_t{1}, std::size_t{100}, SIZE_MAX}) {
    Pair pair(kOnlyOpens);
    for (int round = 0; round < 10000 && !pair.established(); ++round) {
      pair.there.room = pair.back.room = room;
      if (pair.connected != TlsChannel::Next::kDone) pair.connected = pair.connecting.shake_hands();
      if (pair.accepted != TlsChannel::Next::kDone) pair.accepted = pair.accepting.shake_hands();
      ASSERT_NE(pair.connected, TlsChannel::Next::kFailed) << pair.connecting.failure().message();
      ASSERT_NE(pair.accepted, TlsChannel::Next::kFailed) << pair.accepting.failure().message();
      // The side that accepts is past first, and may send at once.
      if (pair.accepted == TlsChannel::Next::kDone && pair.connected == TlsChannel::Next::kRead)
        pair.back.bytes.push_back(std::byte{7});
    }
    ASSERT_TRUE(pair.established());
    EXPECT_TRUE(pair.connecting.is_past() && pair.accepting.is_past());
    EXPECT_TRUE(pair.there.bytes.empty());
    EXPECT_TRUE(std::ranges::all_of(pair.back.bytes, [](std::byte byte) { return byte == std::byte{7}; }));
    pair.connecting.say_goodbye();
    EXPECT_TRUE(pair.there.bytes.empty()) << "the channel has nothing to say any more";
  }
}

TEST(TlsChannel, WhoEncryptsDataAndWhoDoesNotRefuseEachOtherAndBothSaySo) {
  const JobKey key = JobKey::draw();
  for (const bool connects : {false, true}) {
    Pair pair(key, TlsOptions{.only_opens = connects}, TlsOptions{.only_opens = !connects});
    pair.shake_hands();
    EXPECT_EQ(pair.connected, TlsChannel::Next::kFailed);
    EXPECT_EQ(pair.accepted, TlsChannel::Next::kFailed);
    EXPECT_EQ(pair.connecting.failure().kind(), ErrorKind::kBadRequest);
    EXPECT_THAT(pair.connecting.failure().message(),
                HasSubstr(connects ? "it encrypts data, and this process does not" : "it sends data in the clear"));
    EXPECT_THAT(pair.accepting.failure().message(), HasSubstr("--allow-clear-data"));
  }
}

TEST(TlsChannel, ThatOnlyOpensRefusesAnotherKeyAsEveryChannel) {
  Pair pair(JobKey::draw(), JobKey::draw(), kOnlyOpens);
  pair.shake_hands();
  EXPECT_EQ(pair.connected, TlsChannel::Next::kFailed);
  EXPECT_EQ(pair.accepted, TlsChannel::Next::kFailed);
  EXPECT_THAT(pair.connecting.failure().message(), HasSubstr("it refused this process's job key"));
}

// As at the end of a process whose loop goes on for a moment: OpenSSL leaves before it.
TEST(TlsChannelDeathTest, ThatOpenSslDoesNotGiveAnyMoreFailsAndEndsNoProcess) {
  const auto attempt = [] {
    Way there, back;
    RawEnd end(back, there);
    const auto context = std::make_shared<TlsContext>(JobKey::draw());
    OPENSSL_cleanup();
    TlsChannel channel(context, TlsChannel::Side::kConnects, end);
    const bool failed = channel.shake_hands() == TlsChannel::Next::kFailed && channel.failure().kind() == ErrorKind::kIo;
    _exit(failed ? 7 : 8);
  };
  EXPECT_EXIT(attempt(), ::testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace paceline::transport::testing

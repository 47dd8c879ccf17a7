// What only TLS over TCP can show: who does not hold the key, who talks in the clear, and who takes his time with the handshake.
#include <atomic>

#include <gmock/gmock.h>

#include "harness.h"
#include "strangers.h"
#include "transport/tcp/tcp_transport.h"
#include "transport/tls/tls_channel.h"

namespace paceline::transport::testing {
namespace {

using ::testing::HasSubstr;

constexpr ListenOptions kPatientListener = {.strangers = 64, .stranger_deadline = std::chrono::hours(1)};

class Tls : public LeakCheck {
 protected:
  Backend backend_ = tls_backend();
};

// The first bytes of a side that holds some key: a greeting that is right as far as it goes.
std::vector<std::byte> greeting() {
  struct Mouth final : RawStream {
    Stream::Moved read_raw(std::span<std::byte>) override { return {.outcome = Stream::Moved::Outcome::kLater, .reason = {}}; }
    Stream::Moved write_raw(std::span<const std::byte> from) override {
      said.insert(said.end(), from.begin(), from.end());
      return {.outcome = Stream::Moved::Outcome::kSome, .bytes = from.size(), .reason = {}};
    }
    std::vector<std::byte> said;
  } mouth;
  TlsChannel channel(std::make_shared<TlsContext>(JobKey::draw()), TlsChannel::Side::kConnects, mouth);
  channel.shake_hands();
  return mouth.said;
}

TEST_F(Tls, EveryStrangerIsClosedWithAReasonAndHonestPeersAreNotDisturbed) {
  World world(backend_, 2);
  auto [accepted, connected] = world.pair(0, 1);
  accepted.start();
  connected.start();
  const Address address = world.listen(0, kPatientListener, [](End&) {});
  std::size_t index = 1;
  for (const Strange& strange : strange_greetings()) {
    SCOPED_TRACE(strange.name);
    Stranger stranger(address);
    stranger.say(strange.bytes);
    if (strange.name == "TLS") stranger.hang_up();  // the beginning of a greeting
    End& end = world.wait_accepted(index++);
    end.start();
    end.wait_closed();
    EXPECT_EQ(end.reason.kind(), strange.name == "TLS" ? ErrorKind::kPeerLost : ErrorKind::kBadRequest) << end.reason.message();
    EXPECT_TRUE(end.received.empty());
    if (strange.name != "TLS") stranger.listen_to_the_end();
    connected.send({}, {}, std::vector<std::byte>(1000), index);
  }
  accepted.wait_until("all frames", [&](const End& end) { return end.received.size() == index - 1; });
}

TEST_F(Tls, WhoTalksInTheClearAndWhoEncryptsRefuseEachOtherAndBothSayWhy) {
  for (const bool plain_listens : {true, false}) {
    SCOPED_TRACE(plain_listens ? "TLS to a plain port" : "plain to a TLS port");
    World plain(tcp_backend(), 1), encrypted(backend_, 1);
    World& listening = plain_listens ? plain : encrypted;
    World& connecting = plain_listens ? encrypted : plain;
    const Address address = listening.listen(0, kPatientListener, [](End& end) { end.connection->start(end); });
    auto result = connecting.try_connect(0, address);
    if (plain_listens) {
      ASSERT_FALSE(result.ok());
      EXPECT_EQ(result.status().kind(), ErrorKind::kBadRequest);
      EXPECT_THAT(result.status().message(), HasSubstr("it talks in the clear"));
      EXPECT_THAT(result.status().message(), HasSubstr(address.text()));
    } else {
      ASSERT_TRUE(result.ok()) << result.status().message();
      End end(connecting.rank(0));
      connecting.rank(0).on_loop([&] { end.adopt(std::move(result).value()); });
      end.start();
      end.send({.kind = wire::FrameKind::kHello}, {}, {}, 1);
      end.wait_closed();
      EXPECT_EQ(end.reason.kind(), ErrorKind::kBadRequest);
      EXPECT_THAT(end.reason.message(), HasSubstr("the peer speaks TLS"));
      end.destroy();
    }
    End& end = listening.wait_accepted(0);
    end.wait_closed();
    EXPECT_EQ(end.reason.kind(), ErrorKind::kBadRequest);
    EXPECT_THAT(end.reason.message(), HasSubstr(plain_listens ? "the peer speaks TLS" : "it talks in the clear"));
    EXPECT_THAT(end.reason.message(), HasSubstr("--job-key-file"));
  }
}

TEST_F(Tls, AnotherKeyIsRefusedBeforeAFrameIsHeard) {
  World ours(backend_, 1), theirs(tls_backend(), 1);
  const Address address = ours.listen(0, kPatientListener, [](End& end) { end.connection->start(end); });
  const auto result = theirs.try_connect(0, address);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().kind(), ErrorKind::kBadRequest);
  EXPECT_THAT(result.status().message(), HasSubstr("it refused this process's job key"));
  End& end = ours.wait_accepted(0);
  end.wait_closed();
  EXPECT_THAT(end.reason.message(), HasSubstr("it offers another job key"));
  EXPECT_TRUE(end.received.empty());
}

TEST_F(Tls, WhoDoesNotFinishTheHandshakeIsClosedAtTheDeadlineOfStrangers) {
  const auto hello = greeting();
  World world(backend_, 1);
  const Address address = world.listen(0, {.strangers = 64, .stranger_deadline = std::chrono::milliseconds(50)}, [](End&) {});
  std::size_t index = 0;
  for (const std::size_t said : {std::size_t{0}, std::size_t{3}, hello.size() - 1}) {
    SCOPED_TRACE(said);
    Stranger stranger(address);
    stranger.say(std::span(hello).first(said));
    stranger.listen_to_the_end();
    End& end = world.wait_accepted(index++);
    end.start();
    end.wait_closed();
    EXPECT_EQ(end.reason.kind(), ErrorKind::kDeadline) << end.reason.message();
  }
  // One byte after the other does not make the time longer.
  Stranger stranger(address);
  std::atomic<bool> over = false;
  std::thread dripping([&] {
    for (std::size_t i = 0; !over && i + 1 < hello.size(); ++i) {
      stranger.say(std::span(hello).subspan(i, 1));
      std::this_thread::yield();
    }
  });
  stranger.listen_to_the_end();
  End& end = world.wait_accepted(index);
  end.start();
  end.wait_closed();
  over = true;
  dripping.join();
  EXPECT_EQ(end.reason.kind(), ErrorKind::kDeadline) << end.reason.message();
}

TEST_F(Tls, WhoHasShownNoKeyForLongestGoesWhenPlacesAreShort) {
  World world(backend_, 2);
  ListenOptions options = kPatientListener;
  options.strangers = 3;
  const Address address = world.listen(0, options, [](End& end) { end.connection->start(end); });
  std::vector<std::unique_ptr<Stranger>> crowd;
  for (int i = 0; i < 3; ++i) crowd.push_back(std::make_unique<Stranger>(address));
  // Three members come, one after the other, and each takes the place of a stranger.
  for (std::size_t i = 0; i < 3; ++i) {
    End& member = world.connect(1, address);
    member.start();
    member.send({}, {}, {}, 1);
    crowd[i]->listen_to_the_end();
    // The listener tells of both, in whatever order.
    int gone = 0, heard = 0;
    for (const std::size_t index : {2 * i, 2 * i + 1}) {
      End& end = world.wait_accepted(index);
      end.wait_until("a frame or the end", [](const End& at) { return at.closed == 1 || at.received.size() == 1; });
      end.closed == 1 ? ++gone : ++heard;
      if (end.closed == 1) {
        EXPECT_EQ(end.reason.kind(), ErrorKind::kOverloaded);
      }
    }
    EXPECT_EQ(gone, 1);
    EXPECT_EQ(heard, 1);
  }
}

// Members that have not said who they are yet keep their places.
TEST_F(Tls, WhoHasShownTheKeyIsNotPushedOutByThoseWhoHaveNot) {
  World world(backend_, 2);
  ListenOptions options = kPatientListener;
  options.strangers = 2;
  const Address address = world.listen(0, options, [](End&) {});
  End& first = world.connect(1, address);
  End& second = world.connect(1, address);
  for (End* const end : {&first, &second}) end->start();
  for (std::size_t i = 0; i < 2; ++i) world.wait_accepted(i).start();
  for (int i = 0; i < 5; ++i) Stranger(address).listen_to_the_end();
  EXPECT_EQ(world.try_connect(1, address).status().kind(), ErrorKind::kPeerLost);
  for (End* const end : {&first, &second}) end->send({}, {}, {}, 1);
  for (std::size_t i = 0; i < 2; ++i)
    world.wait_accepted(i).wait_until("a frame", [](const End& end) { return end.received.size() == 1; });
}

TEST_F(Tls, WhoAcceptsAndSaysNothingIsADeadline) {
  World silent(tcp_backend(), 1), world(backend_, 1);
  const Address address = silent.listen(0, kPatientListener, [](End&) {});
  const auto result = world.try_connect(0, address, std::chrono::milliseconds(100));
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().kind(), ErrorKind::kDeadline) << result.status().message();
}

TEST_F(Tls, ATransportMayGoInTheMiddleOfAHandshake) {
  World silent(tcp_backend(), 1);
  const Address nobody = silent.listen(0, kPatientListener, [](End&) {});
  World world(backend_, 2);
  const Address address = world.listen(0, kPatientListener, [](End&) {});
  const Stranger half(address);
  world.rank(1).on_loop([&] {
    world.rank(1).transport().connect(nobody, std::chrono::hours(1), [](Result<std::unique_ptr<Connection>>) { FAIL(); });
  });
  silent.wait_accepted(0);
}

}  // namespace
}  // namespace paceline::transport::testing

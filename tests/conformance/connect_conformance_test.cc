// What every backend of transport/transport.h promises about connecting, listening and strangers.
#include <gmock/gmock.h>

#include "harness.h"

namespace paceline::transport::testing {
namespace {

using ::testing::HasSubstr;

class ConnectConformance : public LeakCheck, public ::testing::WithParamInterface<MakeBackend> {
 protected:
  Backend backend_ = GetParam()();
};

INSTANTIATE_TEST_SUITE_P(Backends, ConnectConformance,
                         ::testing::Values(&inproc_backend, &unix_backend, &tcp_backend, &tls_backend, &clear_data_backend,
                                           &faultless_backend, &faultless_tls_backend),
                         backend_name);

constexpr ListenOptions kPatientListener = {.strangers = 64, .stranger_deadline = std::chrono::hours(1)};

TEST_P(ConnectConformance, ConnectingToNobodyIsPeerLostAndNamesTheAddress) {
  World world(backend_, 2);
  Address address;
  world.rank(0).on_loop([&] {  // a port that was just free
    auto listener = world.rank(0).transport().listen({backend_.host, 0}, {}, [](std::unique_ptr<Connection>) { FAIL(); });
    ASSERT_TRUE(listener.ok());
    address = listener.value()->address();
  });
  const auto result = world.try_connect(1, address);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().kind(), ErrorKind::kPeerLost);
  // A file that is gone proves nothing of who listened there: anybody may have removed it.
  EXPECT_EQ(result.status().code() == kRefused, !address.is_file()) << result.status().code();
  EXPECT_THAT(result.status().message(), HasSubstr(address.text()));
}

TEST_P(ConnectConformance, ConnectingWithoutTimeIsADeadlineAndNamesTheAddress) {
  World world(backend_, 2);
  const Address address = world.listen(0);
  const auto result = world.try_connect(1, address, Duration::zero());
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().kind(), ErrorKind::kDeadline);
  EXPECT_THAT(result.status().message(), HasSubstr(address.text()));
}

TEST_P(ConnectConformance, AUsedPortIsRefusedByName) {
  World world(backend_, 2);
  const Address address = world.listen(0);
  EXPECT_NE(address.port, 0);
  world.rank(1).on_loop([&] {
    const auto second = world.rank(1).transport().listen(address, {}, [](std::unique_ptr<Connection>) {});
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.status().kind(), ErrorKind::kIo);
    EXPECT_THAT(second.status().message(), HasSubstr(address.text()));
  });
}

TEST_P(ConnectConformance, APortIsFreeAgainOnceItsListenerIsGoneAndConnectionsLiveOn) {
  World world(backend_, 2);
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Connection> kept;
  std::promise<void> taken;
  Address address;
  const auto listen = [&](const Address& at) {
    world.rank(0).on_loop([&] {
      auto result = world.rank(0).transport().listen(at, kPatientListener, [&](std::unique_ptr<Connection> connection) {
        kept = std::move(connection);
        listener.reset();  // inside its own callback
        taken.set_value();
      });
      ASSERT_TRUE(result.ok()) << result.status().message();
      listener = std::move(result).value();
      address = listener->address();
    });
  };
  listen({backend_.host, 0});
  End& first = world.connect(1, address);
  ASSERT_EQ(taken.get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_FALSE(world.try_connect(1, address).ok());
  listen(address);
  // The first connection still works.
  End echo(world.rank(0));
  world.rank(0).on_loop([&] { echo.adopt(std::move(kept)); });
  echo.start();
  first.send({.sequence = 3}, {}, {}, 1);
  echo.wait_until("a frame", [](const End& end) { return end.received.size() == 1; });
  echo.destroy();
  world.rank(0).on_loop([&] { listener.reset(); });
}

TEST_P(ConnectConformance, AStrangerThatSaysNothingIsClosedAtItsDeadline) {
  World world(backend_, 2);
  const Address address = world.listen(0, {.strangers = 64, .stranger_deadline = std::chrono::milliseconds(50)}, [](End&) {});
  End& connected = world.connect(1, address);
  connected.start();
  End& accepted = world.wait_accepted(0);
  accepted.start();
  accepted.wait_closed();
  connected.wait_closed();
  EXPECT_EQ(accepted.reason.kind(), ErrorKind::kDeadline);
  EXPECT_EQ(connected.reason.kind(), ErrorKind::kPeerLost);
}

TEST_P(ConnectConformance, AnAdmittedPeerHasNoDeadline) {
  World world(backend_, 2);
  constexpr Duration kDeadline = std::chrono::milliseconds(30);
  const Address address =
      world.listen(0, {.strangers = 64, .stranger_deadline = kDeadline}, [](End& end) { end.connection->admit(); });
  End& connected = world.connect(1, address);
  connected.start();
  End& accepted = world.wait_accepted(0);
  accepted.start();
  // Long past the deadline by the loop's own timers.
  std::promise<void> late;
  world.rank(0).on_loop([&] { world.rank(0).loop().run_after(3 * kDeadline, [&] { late.set_value(); }); });
  ASSERT_EQ(late.get_future().wait_for(kPatience), std::future_status::ready);
  connected.send({}, {}, {}, 1);
  accepted.wait_until("a frame", [](const End& end) { return end.received.size() == 1; });
}

TEST_P(ConnectConformance, StrangersBeyondTheLimitAreClosedAtOnceAndAdmittedOnesDoNotCount) {
  World world(backend_, 2);
  ListenOptions options = kPatientListener;
  options.strangers = 3;
  const Address address = world.listen(0, options, [](End&) {});
  std::vector<End*> connected;
  for (std::size_t i = 0; i < 3; ++i) {
    connected.push_back(&world.connect(1, address));
    connected.back()->start();
    world.wait_accepted(i).start();
  }
  const auto refused = [&] {
    auto connection = world.try_connect(1, address);
    if (!connection.ok()) {  // a backend that shakes hands first notices while it connects
      EXPECT_EQ(connection.status().kind(), ErrorKind::kPeerLost) << connection.status().message();
      return;
    }
    End end(world.rank(1));
    world.rank(1).on_loop([&] { end.adopt(std::move(connection).value()); });
    end.start();
    end.wait_closed();
    EXPECT_EQ(end.reason.kind(), ErrorKind::kPeerLost);
    end.destroy();
  };
  refused();
  refused();
  // One is admitted, one goes: two places.
  world.rank(0).on_loop([&] { world.wait_accepted(0).connection->admit(); });
  connected[1]->close();
  world.wait_accepted(1).wait_closed();
  for (std::size_t i = 3; i < 5; ++i) {
    connected.push_back(&world.connect(1, address));
    connected.back()->start();
    world.wait_accepted(i).start();
  }
  refused();
  for (const std::size_t i : {0UL, 2UL, 3UL, 4UL}) {
    connected[i]->send({}, {}, {}, 1);
    world.wait_accepted(i).wait_until("a frame", [](const End& end) { return end.received.size() == 1; });
  }
}

TEST_P(ConnectConformance, AStrangersPayloadIsLimitedUntilItIsAdmitted) {
  World world(backend_, 2);
  const Address address = world.listen(0, kPatientListener, [](End&) {});
  End& polite = world.connect(1, address);
  polite.start();
  End& accepted = world.wait_accepted(0);
  accepted.frame_hook = [&accepted](const Frame&) { accepted.connection->admit(); };
  accepted.start();
  polite.send({}, {}, std::vector<std::byte>(wire::kMaxStrangerPayload), 1);
  accepted.wait_until("a frame", [](const End& end) { return end.received.size() == 1; });
  polite.send({}, {}, std::vector<std::byte>(wire::kMaxPayload), 2);
  accepted.wait_until("a frame", [](const End& end) { return end.received.size() == 2; });

  End& rude = world.connect(1, address);
  rude.start();
  End& refusing = world.wait_accepted(1);
  refusing.start();
  rude.send({}, {}, std::vector<std::byte>(wire::kMaxStrangerPayload + 1), 1);
  refusing.wait_closed();
  EXPECT_EQ(refusing.reason.kind(), ErrorKind::kCorrupt);
  EXPECT_TRUE(refusing.received.empty());
}

TEST_P(ConnectConformance, TheSideThatConnectsIsNoStranger) {
  World world(backend_, 2);
  auto [accepted, connected] = world.pair(0, 1);
  accepted.start();
  connected.start();
  accepted.send({}, {}, std::vector<std::byte>(wire::kMaxPayload), 1);
  connected.wait_until("a frame", [](const End& end) { return end.received.size() == 1; });
}

TEST_P(ConnectConformance, ATransportMayGoWithAConnectUnderWay) {
  World world(backend_, 2);
  const Address address = world.listen(0);
  world.rank(1).on_loop([&] {
    world.rank(1).loop().stop();
    world.rank(1).transport().connect(address, std::chrono::seconds(60), [](Result<std::unique_ptr<Connection>>) { FAIL(); });
  });
}

}  // namespace
}  // namespace paceline::transport::testing

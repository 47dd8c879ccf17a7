// What only TCP can show: strangers that speak something else, descriptors running out, names, and addresses that do not answer.
#include <cstring>
#include <filesystem>

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness.h"
#include "strangers.h"
#include "transport/tcp/tcp_transport.h"

namespace paceline::transport::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

class Tcp : public LeakCheck {
 protected:
  Backend backend_ = tcp_backend();
};

TEST_F(Tcp, EveryStrangerIsClosedWithAReasonAndHonestPeersAreNotDisturbed) {
  World world(backend_, 2);
  auto [accepted, connected] = world.pair(0, 1);
  accepted.start();
  connected.start();
  const Address address = world.listen(0, {.strangers = 64, .stranger_deadline = std::chrono::hours(1)}, [](End&) {});
  std::size_t index = 1;
  for (const Strange& strange : strange_greetings()) {
    SCOPED_TRACE(strange.name);
    Stranger stranger(address);
    stranger.say(strange.bytes);
    End& end = world.wait_accepted(index++);
    end.start();
    end.wait_closed();
    EXPECT_EQ(end.reason.kind(), strange.kind) << end.reason.message();
    EXPECT_TRUE(end.received.empty());
    stranger.listen_to_the_end();
    connected.send({}, {}, std::vector<std::byte>(1000), index);
  }
  accepted.wait_until("all frames", [&](const End& end) { return end.received.size() == index - 1; });
}

TEST_F(Tcp, APeerOfAnotherReleaseIsToldOurVersionAndBothAreNamed) {
  World world(backend_, 1);
  const Address address = world.listen(0, {.strangers = 64, .stranger_deadline = std::chrono::hours(1)}, [](End&) {});
  wire::SealedHead head = wire::seal({.kind = wire::FrameKind::kHello}, {}, {});
  head.bytes[4] = std::byte{9};
  Stranger stranger(address);
  stranger.say(head.view());
  End& end = world.wait_accepted(0);
  end.start();
  end.wait_closed();
  EXPECT_THAT(end.reason.message(), HasSubstr("version 9.0"));
  EXPECT_THAT(end.reason.message(), HasSubstr(fmt::format("this process {}.{}", wire::kMajorVersion, wire::kMinorVersion)));
  const auto heard = stranger.listen_to_the_end();
  ASSERT_EQ(heard.size(), wire::kHeaderBytes);
  const auto reply = wire::open_header(std::span(heard).first<wire::kHeaderBytes>(), 0);
  ASSERT_TRUE(reply.ok()) << reply.status().message();
  EXPECT_EQ(reply->major, wire::kMajorVersion);
}

TEST_F(Tcp, HalfAHeaderThenTheEndIsPeerLostAndHalfAHeaderThenNothingADeadline) {
  World world(backend_, 1);
  const wire::SealedHead head = wire::seal({.kind = wire::FrameKind::kHello}, {}, {});
  std::size_t index = 0;
  for (const std::size_t bytes : {1UL, 5UL, 6UL, 24UL, 47UL}) {
    SCOPED_TRACE(bytes);
    const Address patient = world.listen(0, {.strangers = 64, .stranger_deadline = std::chrono::hours(1)}, [](End&) {});
    Stranger hasty(patient);
    hasty.say(head.view().first(bytes));
    End& first = world.wait_accepted(index++);
    first.start();
    hasty.hang_up();
    first.wait_closed();
    EXPECT_EQ(first.reason.kind(), ErrorKind::kPeerLost);
    EXPECT_THAT(first.reason.message(), HasSubstr("in the middle of a frame"));

    const Address strict = world.listen(0, {.strangers = 64, .stranger_deadline = std::chrono::milliseconds(50)}, [](End&) {});
    Stranger slow(strict);
    slow.say(head.view().first(bytes));
    End& second = world.wait_accepted(index++);
    second.start();
    slow.listen_to_the_end();
    second.wait_closed();
    EXPECT_EQ(second.reason.kind(), ErrorKind::kDeadline);
  }
}

TEST_F(Tcp, AStrangerThatDripsIsClosedAtItsDeadlineAllTheSame) {
  World world(backend_, 1);
  const Address address = world.listen(0, {.strangers = 64, .stranger_deadline = std::chrono::milliseconds(100)}, [](End&) {});
  Stranger stranger(address);
  End& end = world.wait_accepted(0);
  end.start();
  // A whole legal frame, byte by byte, again and again, is not an identification.
  const wire::SealedHead head = wire::seal({.kind = wire::FrameKind::kHeartbeat}, {}, {});
  std::atomic<bool> over = false;
  std::thread dripping([&] {
    for (std::size_t i = 0; !over; i = (i + 1) % head.size) stranger.say(head.view().subspan(i, 1));
  });
  end.wait_closed();
  over = true;
  dripping.join();
  EXPECT_EQ(end.reason.kind(), ErrorKind::kDeadline);
}

TEST_F(Tcp, WithoutDescriptorsNewOnesAreRefusedOldOnesGoOnAndLaterNewOnesAreTakenAgain) {
  World world(backend_, 2);
  auto [accepted, connected] = world.pair(0, 1);
  accepted.start();
  connected.start();
  const Address address = world.listen(0);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  {
    Stranger first(address);
    world.wait_accepted(1);
    const int client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    rlimit tight = before;
    tight.rlim_cur = static_cast<rlim_t>(client) + 1;  // every number below is in use or taken now
    std::vector<int> fillers;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
    for (int filler = ::dup(0); filler >= 0; filler = ::dup(0)) fillers.push_back(filler);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(address.port);
    ::inet_pton(AF_INET, address.host.c_str(), &to.sin_addr);
    ASSERT_EQ(::connect(client, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    std::byte byte;
    EXPECT_LE(::recv(client, &byte, 1, 0), 0) << "it was refused, not left waiting";
    world.rank(0).on_loop([] {});  // the listener has its spare descriptor back
    ::close(client);
    // Connecting needs a descriptor too: the place of `client` is filled again first.
    fillers.push_back(::dup(0));
    const auto refused = world.try_connect(1, address);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.status().kind(), ErrorKind::kIo);
    // Those that exist do not notice.
    connected.send({}, {}, std::vector<std::byte>(100000), 1);
    accepted.wait_until("a frame", [](const End& end) { return end.received.size() == 1; });
    for (const int filler : fillers) ::close(filler);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  }
  End& later = world.connect(1, address);
  later.start();
  later.send({}, {}, {}, 1);
  End& end = world.wait_accepted(2);
  end.start();
  end.wait_until("a frame", [](const End& now) { return now.received.size() == 1; });
}

TEST_F(Tcp, NoDescriptorIsInheritedByAChildProgram) {
  const auto numbers = [] {
    std::vector<int> all;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
      all.push_back(std::stoi(entry.path().filename()));
    return all;
  };
  const auto before = numbers();
  World world(backend_, 2);
  auto [accepted, connected] = world.pair(0, 1);
  accepted.start();
  connected.start();
  for (const int number : numbers()) {
    const int flags = ::fcntl(number, F_GETFD);
    if (flags < 0 || std::find(before.begin(), before.end(), number) != before.end()) continue;  // the listing's own
    EXPECT_TRUE(flags & FD_CLOEXEC) << std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(number));
  }
}

TEST_F(Tcp, BothEndsAreSetToLeaveAtOnceAndToNoticeACutLinkWithinSeconds) {
  backend_.make = [] { return make_tcp_transport({.user_timeout = std::chrono::milliseconds(4321)}); };
  World world(backend_, 2);
  world.pair(0, 1);
  int connected = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int number = std::stoi(entry.path().filename());
    sockaddr_storage peer{};
    socklen_t length = sizeof peer;
    if (::getpeername(number, reinterpret_cast<sockaddr*>(&peer), &length) != 0 || peer.ss_family != AF_INET) continue;
    ++connected;
    const auto option = [number](int level, int name) {
      int value = -1;
      socklen_t size = sizeof value;
      ::getsockopt(number, level, name, &value, &size);
      return value;
    };
    EXPECT_EQ(option(IPPROTO_TCP, TCP_NODELAY), 1);
    EXPECT_EQ(option(IPPROTO_TCP, TCP_USER_TIMEOUT), 4321);
    EXPECT_EQ(option(SOL_SOCKET, SO_KEEPALIVE), 1);
    EXPECT_EQ(option(IPPROTO_TCP, TCP_KEEPIDLE), 1);
    EXPECT_EQ(option(IPPROTO_TCP, TCP_KEEPINTVL), 1);
  }
  EXPECT_EQ(connected, 2);
}

TEST_F(Tcp, AnAddressThatDoesNotAnswerIsADeadline) {
  // A listener that accepts nothing and whose queue is full: the kernel drops whoever knocks.
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  socklen_t length = sizeof address;
  ASSERT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length), 0);
  ASSERT_EQ(::listen(listener, 0), 0);
  std::vector<int> knocking;
  for (int i = 0; i < 8; ++i) {
    knocking.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    static_cast<void>(::connect(knocking.back(), reinterpret_cast<const sockaddr*>(&address), sizeof address));
  }
  {
    World world(backend_, 1);
    const Address to{"127.0.0.1", ntohs(address.sin_port)};
    const auto result = world.try_connect(0, to, std::chrono::milliseconds(200));
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.status().kind(), ErrorKind::kDeadline);
    EXPECT_THAT(result.status().message(), HasSubstr(to.text()));
  }
  for (const int socket : knocking) ::close(socket);
  ::close(listener);
}

TEST_F(Tcp, NamesAreLookedUp) {
  World world(backend_, 2);
  const Address address = world.listen(0);
  const auto result = world.try_connect(1, {"localhost", address.port});
  EXPECT_TRUE(result.ok()) << result.status().message();
  // ".invalid" never exists (RFC 2606); whether the answer comes in time depends on the resolver.
  const auto nobody = world.try_connect(1, {"nobody.invalid", 4100}, std::chrono::seconds(20));
  ASSERT_FALSE(nobody.ok());
  EXPECT_THAT(nobody.status().kind(), AnyOf(ErrorKind::kPeerLost, ErrorKind::kDeadline));
  EXPECT_THAT(nobody.status().message(), HasSubstr("nobody.invalid:4100"));
}

TEST_F(Tcp, AnAddressThatIsNotThisMachinesIsRefusedByName) {
  World world(backend_, 1);
  world.rank(0).on_loop([&] {
    for (const char* const host : {"192.0.2.1", "nobody.invalid"}) {  // RFC 5737: nobody's
      const auto listener = world.rank(0).transport().listen({host, 0}, {}, [](std::unique_ptr<Connection>) {});
      ASSERT_FALSE(listener.ok());
      EXPECT_EQ(listener.status().kind(), ErrorKind::kBadRequest);
      EXPECT_THAT(listener.status().message(), HasSubstr(host));
    }
  });
}

TEST_F(Tcp, Ipv6LiteralsWorkWhereTheMachineHasThem) {
  const int probe = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in6 loopback{};
  loopback.sin6_family = AF_INET6;
  loopback.sin6_addr = in6addr_loopback;
  const bool has_ipv6 = probe >= 0 && ::bind(probe, reinterpret_cast<const sockaddr*>(&loopback), sizeof loopback) == 0;
  if (probe >= 0) ::close(probe);
  backend_.host = "::1";
  World world(backend_, 2);
  if (!has_ipv6) {
    world.rank(0).on_loop([&] {
      const auto listener = world.rank(0).transport().listen({"::1", 0}, {}, [](std::unique_ptr<Connection>) {});
      ASSERT_FALSE(listener.ok());
      EXPECT_THAT(listener.status().message(), HasSubstr("[::1]:0"));
    });
    return;
  }
  auto [accepted, connected] = world.pair(0, 1);
  accepted.start();
  connected.start();
  connected.send({.sequence = 5}, {}, std::vector<std::byte>(1000), 1);
  accepted.wait_until("a frame", [](const End& end) { return end.received.size() == 1; });
  std::string peer;
  connected.rank().on_loop([&] { peer = connected.connection->peer(); });
  EXPECT_THAT(peer, ::testing::StartsWith("[::1]:"));
}

TEST_F(Tcp, OptionsOutOfRangeAreRefused) {
  EXPECT_EQ(try_make_tcp_transport({.user_timeout = std::chrono::milliseconds(999)}).status().kind(), ErrorKind::kBadRequest);
  EXPECT_EQ(try_make_tcp_transport({.user_timeout = std::chrono::hours(2)}).status().kind(), ErrorKind::kBadRequest);
  EXPECT_EQ(try_make_tcp_transport({.send_buffer = Bytes{100}}).status().kind(), ErrorKind::kBadRequest);
}

TEST_F(Tcp, ASmallSendBufferStillCarriesLargeFrames) {
  backend_.make = [] { return make_tcp_transport({.send_buffer = Bytes{65536}}); };
  World world(backend_, 2);
  auto [accepted, connected] = world.pair(0, 1);
  accepted.start();
  connected.start();
  std::mt19937_64 random(6);
  const auto payload = random_bytes(random, wire::kMaxPayload);
  for (std::uint64_t i = 0; i < 8; ++i) connected.send({.sequence = i}, {}, payload, i);
  accepted.wait_until("frames", [](const End& end) { return end.received.size() == 8; });
  for (const Received& frame : accepted.received) EXPECT_TRUE(frame.payload == payload);
}

}  // namespace
}  // namespace paceline::transport::testing

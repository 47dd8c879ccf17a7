#include "transport/sockets/socket_connector.h"

#include <algorithm>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

namespace paceline::transport {
namespace {

// A host name with these places.
class NameOf final : public SocketFamily {
 public:
  explicit NameOf(std::vector<SocketEndpoint> places) : places_(std::move(places)) {}
  Result<std::vector<SocketEndpoint>> known(const Address&) const override { return places_; }
  std::unique_ptr<Search> search(SocketLoop&, const Address&, Found) const override { return nullptr; }
  Result<Listening> listen(SocketLoop&, const Address&) const override { return error(ErrorKind::kIo, "not here"); }
  bool configure(int) const override { return true; }
  Ends ends(int, const SocketEndpoint&, const SocketEndpoint&) const override { return {}; }

 private:
  std::vector<SocketEndpoint> places_;
};

Status connected_to(std::vector<SocketEndpoint> places) {
  auto transport = try_make_socket_transport(std::make_shared<NameOf>(std::move(places)), {}).value();
  Loop& loop = transport->loop();
  Status how;
  loop.post([&] {
    transport->connect({"host", 1}, std::chrono::minutes(1), [&](Result<std::unique_ptr<Connection>> result) {
      how = result.status();
      loop.stop();
    });
  });
  loop.run();
  return how;
}

// Of a port that is taken and at which nobody listens.
struct NobodyListens {
  NobodyListens() {
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(descriptor, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size), 0);
  }
  ~NobodyListens() { ::close(descriptor); }
  SocketEndpoint endpoint() const { return {&address, sizeof address, IPPROTO_TCP}; }

  int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
};

// As ::1 is to a machine without IPv6: here a family of addresses that Linux has no more.
SocketEndpoint unknown_here() {
  sockaddr address{};
  address.sa_family = AF_DECnet;
  return {&address, sizeof address, 0};
}

TEST(SocketConnector, AnAddressThatThisMachineHasNoWayToSaysNothingOfTheOthers) {
  const NobodyListens one, other;
  EXPECT_EQ(connected_to({one.endpoint(), other.endpoint()}).code(), kRefused);
  for (const auto& places : {std::vector{unknown_here(), one.endpoint()}, {one.endpoint(), unknown_here()}}) {
    const Status how = connected_to(places);
    EXPECT_EQ(how.kind(), ErrorKind::kPeerLost);
    EXPECT_EQ(how.code(), kRefused) << how.message();
    EXPECT_NE(how.message().find("refused"), std::string::npos) << how.message();
  }
}

TEST(SocketConnector, OneWithoutAnyWayIsUnreachableAndNotRefused) {
  const Status how = connected_to({unknown_here()});
  EXPECT_EQ(how.kind(), ErrorKind::kPeerLost);
  EXPECT_NE(how.code(), kRefused);
  EXPECT_NE(how.message().find("Address family not supported"), std::string::npos) << how.message();
}

}  // namespace
}  // namespace paceline::transport

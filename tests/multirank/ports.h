// Addresses of the loopback for tests that have to name one before anybody listens there.
#pragma once

#include <string>
#include <vector>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

namespace paceline::testing {

// Ports that the kernel has chosen and keeps for whoever may use an address again, until the end of the test.
class Ports {
 public:
  ~Ports() {
    for (const int socket : sockets_) close(socket);
  }
  std::string next() {
    const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockets_.push_back(made);
    const int yes = 1;
    setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    EXPECT_EQ(bind(made, reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(getsockname(made, reinterpret_cast<sockaddr*>(&address), &length), 0);
    return "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  std::vector<std::string> next(int count) {
    std::vector<std::string> addresses;
    for (int i = 0; i < count; ++i) addresses.push_back(next());
    return addresses;
  }

 private:
  std::vector<int> sockets_;
};

}  // namespace paceline::testing

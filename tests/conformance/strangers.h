// Programs that are not Paceline, at a port of it, and what they say.
#pragma once

#include <cerrno>
#include <cstring>
#include <utility>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness.h"

namespace paceline::transport::testing {

// A program that is not Paceline: a plain blocking socket.
class Stranger {
 public:
  explicit Stranger(const Address& to) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(to.port);
    ::inet_pton(AF_INET, to.host.c_str(), &address.sin_addr);
    PACELINE_CHECK(::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0, "connect: {}",
                   std::strerror(errno));
  }
  ~Stranger() { hang_up(); }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;

  void say(std::span<const std::byte> bytes) { ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  void say(const std::string& text) { say(std::as_bytes(std::span(text))); }
  void hang_up() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }
  // Everything the other side says until it closes.
  std::vector<std::byte> listen_to_the_end() {
    std::vector<std::byte> heard;
    std::byte buffer[1024];
    while (true) {
      pollfd waiting{.fd = socket_, .events = POLLIN, .revents = 0};
      const auto patience = std::chrono::duration_cast<std::chrono::milliseconds>(kPatience).count();
      if (::poll(&waiting, 1, static_cast<int>(patience)) != 1) give_up("the end of a stranger's connection");
      const ssize_t count = ::recv(socket_, buffer, sizeof buffer, 0);
      if (count <= 0) return heard;
      heard.insert(heard.end(), buffer, buffer + count);
    }
  }

 private:
  int socket_;
};

inline wire::SealedHead with(wire::SealedHead head, std::size_t offset, std::uint32_t value) {
  std::memcpy(head.bytes.data() + offset, &value, sizeof value);
  return head;
}

struct Strange {
  std::string name;
  std::vector<std::byte> bytes;
  ErrorKind kind;
};

inline std::vector<Strange> strange_greetings() {
  const auto text = [](const std::string& said) {
    const auto bytes = std::as_bytes(std::span(said));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  const auto head = [](const wire::SealedHead& sealed) {
    return std::vector<std::byte>(sealed.view().begin(), sealed.view().end());
  };
  const wire::SealedHead good = wire::seal({.kind = wire::FrameKind::kHello}, {}, {});
  std::mt19937_64 random(1);
  std::vector<Strange> all = {
      {"HTTP", text("GET / HTTP/1.1\r\nHost: example.org\r\n\r\n"), ErrorKind::kBadRequest},
      {"a short word", text("QUIT\r\n"), ErrorKind::kBadRequest},
      {"TLS", text(std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11)), ErrorKind::kBadRequest},
      {"SSH", text("SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"), ErrorKind::kBadRequest},
      {"zeros", std::vector<std::byte>(10000), ErrorKind::kBadRequest},
      {"random bytes", random_bytes(random, 100000), ErrorKind::kBadRequest},
      {"another major version", head([&] {
         auto other = good;
         other.bytes[4] = static_cast<std::byte>(wire::kMajorVersion + 1);
         return other;
       }()),
       ErrorKind::kBadRequest},
      {"a body of 4 GiB", head(with(good, 28, 0xffffffff)), ErrorKind::kCorrupt},
      {"a payload of 4 GiB", head(with(good, 32, 0xffffffff)), ErrorKind::kCorrupt},
      {"lengths of 2^62", head(with(with(good, 28, 0x40000000), 32, 0x40000000)), ErrorKind::kCorrupt},
      {"a payload that only an admitted peer may send", head(with(good, 32, wire::kMaxStrangerPayload + 1)), ErrorKind::kCorrupt},
      {"a kind that there is not", head(with(good, 4, 0x00ff0000U | wire::kMajorVersion)), ErrorKind::kCorrupt},
      {"a wrong checksum", head(with(good, 44, 1)), ErrorKind::kCorrupt},
      {"something in the reserved field", head(with(good, 40, 1)), ErrorKind::kCorrupt},
  };
  return all;
}

}  // namespace paceline::transport::testing

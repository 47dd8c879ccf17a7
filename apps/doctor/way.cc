#include "doctor/way.h"

#include <algorithm>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "process/child.h"

namespace paceline::cli {
namespace {

constexpr int kPatience = 2000;  // milliseconds for a connection

// What both ends and all between them let through, as the kernel knows once a connection stands.
int segment_bytes(const transport::Address& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.host.c_str(), std::to_string(host.port).c_str(), &hints, &found) != 0) return 0;
  int bytes = 0;
  if (const int probe = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); probe >= 0) {
    (void)connect(probe, found->ai_addr, found->ai_addrlen);  // in progress; what comes of it is asked below
    pollfd end{probe, POLLOUT, 0};
    int problem = 0;
    socklen_t size = sizeof problem;
    const bool stands =
        poll(&end, 1, kPatience) == 1 && getsockopt(probe, SOL_SOCKET, SO_ERROR, &problem, &size) == 0 && problem == 0;
    size = sizeof bytes;
    if (!stands || getsockopt(probe, IPPROTO_TCP, TCP_MAXSEG, &bytes, &size) != 0) bytes = 0;
    close(probe);
  }
  freeaddrinfo(found);
  return bytes;
}

std::vector<unsigned char> bytes_of(const std::string& address) {
  std::vector<unsigned char> bytes(sizeof(in6_addr));
  if (inet_pton(AF_INET, address.c_str(), bytes.data()) == 1) {
    bytes.resize(sizeof(in_addr));
  } else if (inet_pton(AF_INET6, address.c_str(), bytes.data()) != 1) {
    bytes.clear();
  }
  return bytes;
}

bool is_in_network(const std::string& host, const Interface& interface) {
  const auto one = bytes_of(host), other = bytes_of(interface.address);
  if (one.size() != other.size() || one.empty() || interface.network_bits == 0) return false;
  for (int bit = 0; bit < interface.network_bits; ++bit) {
    const int mask = 0x80 >> (bit % 8);
    if (((one[static_cast<std::size_t>(bit / 8)] ^ other[static_cast<std::size_t>(bit / 8)]) & mask) != 0) return false;
  }
  return true;
}

// By iproute2, where it is installed.
std::string gateway_to(const std::string& host) {
  const auto child = Child::start("ip", {"ip", "-j", "route", "get", host});
  if (!child.ok()) return "";
  const auto printed = (*child)->finish(std::chrono::seconds(5));
  if (!printed.ok()) return "";
  const auto routes = nlohmann::json::parse(*printed, nullptr, /*allow_exceptions=*/false);
  return routes.is_array() && !routes.empty() && routes[0].is_object() ? routes[0].value("gateway", "") : "";
}

}  // namespace

Way way_to(const transport::Address& host, const std::vector<Interface>& interfaces) {
  Way way;
  const auto number = numeric_address(host.host);
  if (!number.ok()) return way;
  way.neighbour = std::ranges::any_of(interfaces, [&](const Interface& one) { return is_in_network(*number, one); });
  const auto own = address_toward(host.host);
  if (!own.ok()) return way;
  way.own_address = *own;
  const auto by = std::ranges::find(interfaces, way.own_address, &Interface::address);
  if (by != interfaces.end()) {
    way.interface = by->name;
    way.bytes_per_second = by->loopback ? 0 : by->bytes_per_second;
    way.mtu = by->mtu;
  }
  way.gateway = gateway_to(*number);
  way.segment_bytes = segment_bytes(host);
  return way;
}

}  // namespace paceline::cli

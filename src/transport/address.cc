#include <charconv>

#include "transport/transport.h"

namespace paceline::transport {

std::string Address::text() const {
  const bool ipv6 = host.find(':') != std::string::npos;
  return ipv6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

Result<Address> parse_address(std::string_view text) {
  const auto refuse = [&](const char* why) {
    return error(ErrorKind::kBadRequest, "'{}' is not an address: {}; write host:port, for example 127.0.0.1:4100 or [::1]:4100",
                 text, why);
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return refuse("the port is missing");
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);

  if (host.starts_with('[')) {
    if (!host.ends_with(']')) return refuse("'[' without ']' in front of the port");
    host = host.substr(1, host.size() - 2);
    if (host.find(':') == std::string_view::npos) return refuse("no IPv6 address between the brackets");
  } else if (host.find(':') != std::string_view::npos) {
    return refuse("an IPv6 address stands in brackets");
  }
  if (host.empty()) return refuse("the host is missing");
  for (const char c : host) {
    if (c <= ' ' || c == '[' || c == ']' || c == '/' || c == 0x7f) return refuse("the host has a character that no host name has");
  }

  unsigned port = 0;
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (digits.empty() || failure != std::errc() || end != digits.data() + digits.size() || port > 65535) {
    return refuse("the port is not a number from 0 to 65535");
  }
  return Address{std::string(host), static_cast<std::uint16_t>(port)};
}

}  // namespace paceline::transport

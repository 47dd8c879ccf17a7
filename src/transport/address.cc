#include "transport/address.h"

#include <algorithm>
#include <charconv>

#include <arpa/inet.h>

namespace paceline::transport {
namespace {

// What names a file: lower-case letters, a colon and a path from the root on. "http://host" does not.
std::string_view scheme_of(std::string_view text) {
  const std::size_t end = std::min(text.find_first_not_of("abcdefghijklmnopqrstuvwxyz"), text.size());
  return text.substr(end).starts_with(":/") && !text.substr(end).starts_with("://") ? text.substr(0, end) : std::string_view();
}

bool is_wildcard_of_ipv4(const in6_addr& address) {
  return IN6_IS_ADDR_V4MAPPED(&address) &&
         std::all_of(address.s6_addr + 12, address.s6_addr + 16, [](auto byte) { return byte == 0; });
}

}  // namespace

std::string_view Address::scheme() const { return scheme_of(host); }

std::string Address::text() const {
  if (is_file()) return host;
  const bool ipv6 = host.find(':') != std::string::npos;
  return ipv6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

Result<Address> parse_address(std::string_view text) {
  if (!scheme_of(text).empty()) return Address{std::string(text), Address::kTheFile};
  const auto refuse = [&](const char* why) {
    return error(ErrorKind::kBadRequest,
                 "'{}' is not an address: {}; write host:port, for example 127.0.0.1:4100 or [::1]:4100, or "
                 "unix:/PATH",
                 text, why)
        .because({"address", ""});
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

bool is_wildcard(std::string_view host) {
  const std::string text(host);
  in_addr four{};
  if (::inet_aton(text.c_str(), &four) == 1) return four.s_addr == INADDR_ANY;  // "0" too, as look-ups have it
  in6_addr six{};
  return ::inet_pton(AF_INET6, text.c_str(), &six) == 1 && (IN6_IS_ADDR_UNSPECIFIED(&six) || is_wildcard_of_ipv4(six));
}

Result<Address> place_at(const std::string& host, std::uint16_t port) {
  const auto refuse = [&](const char* why) {
    return error(ErrorKind::kBadRequest, "'{}' is no place: {}", host, why).because({"address", ""});
  };
  if (!Address{host}.is_file()) {
    if (host.starts_with("unix:")) return refuse("the path of a file begins with /, as in unix:/run/job");
    if (host.find_first_of("[]") != std::string::npos)
      return refuse("an IPv6 address stands without brackets where no port follows");
    return Address{host, port};
  }
  if (port != 0)
    return error(ErrorKind::kBadRequest, "{} is a file and has no port {}; leave the port out", host, port)
        .because({"address", ""});
  return parse_address(host);
}

Result<Address> own_place(const std::string& bind, const Address& meeting) {
  if (bind.empty()) return Address{meeting.is_file() ? meeting.host : "127.0.0.1", 0};
  PACELINE_ASSIGN_OR_RETURN(Address place, place_at(bind, 0));
  place.port = 0;
  // Who meets at such a host is on this machine.
  if (is_wildcard(place.host) && !meeting.host.empty() && !is_wildcard(meeting.host)) {
    return error(ErrorKind::kBadRequest,
                 "{} names no host that the others can connect to; give the address at which they reach this machine", bind)
        .because({"address", ""});
  }
  return place;
}

}  // namespace paceline::transport

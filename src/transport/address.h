// Where a process listens or is connected to.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace paceline::transport {

// "127.0.0.1:4100", "[::1]:4100", "host:4100"; port 0 when listening = the kernel chooses. inproc: any name and number.
// Or a file, which is for this machine alone: "unix:/run/job.sock", all of which is the host. It has no ports: kTheFile is the file
// itself, and 0 when listening = one beside it, which the transport chooses.
struct Address {
  static constexpr std::uint16_t kTheFile = 1;

  std::string host;
  std::uint16_t port = 0;

  bool operator==(const Address&) const = default;
  std::string text() const;
  std::string_view scheme() const;  // "unix" of "unix:/run/job.sock"; "": of one with a port
  bool is_file() const { return !scheme().empty(); }
};
Result<Address> parse_address(std::string_view text);

// Of whoever listens: all hosts that this machine is. Of whoever connects: itself. "0.0.0.0", "::".
bool is_wildcard(std::string_view host);

// What a host and a port of a command line mean; port 0: whichever is free, or the file itself. Errors: kBadRequest.
Result<Address> place_at(const std::string& host, std::uint16_t port);
// Where to listen for whoever was told only where the others meet; `bind` may name the host. Any port that is free, or any
// file that is, beside the one of that name. `bind` "": the loopback, or beside the file where they meet. Of whoever meets nobody
// elsewhere, `meeting` has no host. Errors: kBadRequest, also for a wildcard, which is no place that others reach.
Result<Address> own_place(const std::string& bind, const Address& meeting);

}  // namespace paceline::transport

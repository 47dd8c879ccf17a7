// The commands that build a lab, as text for `ip -batch` and `tc -batch`. Pure.
//
// A host is a network namespace with one interface, eth0, whose other end, port<i>, is at a bridge in one more namespace, the
// switch. What a host sends is shaped at its eth0, what it receives at the switch's port.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "base/status.h"

namespace paceline::lab {

constexpr int kMostHosts = 250;  // one /24 network

struct Shape {
  std::vector<BytesPerSecond> rates;               // of each host's link, in each direction
  Duration queue = std::chrono::milliseconds(10);  // what waits in front of a link before packets are dropped
  std::optional<Bytes> burst{};                    // what a link may send at once after a pause; none: burst_of()'s
};

// Errors: kBadRequest: no host or more than kMostHosts, a rate below 1 Mb/s or above 100 Gb/s, a queue out of 1 ms .. 10 s, a burst
// out of 4 KB .. 16 MB.
Status check(const Shape& shape);

std::string address(int host);  // 10.77.0.1 for host 0

// What a token bucket may send at once. Unless the shape says it: 4 ms of the rate, since a late timer loses the tokens that do not
// fit, and never less than 96 KiB, since a smaller bucket has every 64 KiB packet cut up by the processor. With less than 128
// KiB given, the host sends packets of half as much.
Bytes burst_of(const Shape& shape, BytesPerSecond rate);

// For `ip` in the switch's namespace; `namespaces` are paths of the hosts' network namespaces.
std::string switch_links(const std::vector<std::string>& namespaces);
// For `tc` in the switch's namespace: the ports' egress.
std::string switch_shaping(const Shape& shape);
// For `ip` and `tc` in the namespace of `host`.
std::string host_links(const Shape& shape, int host);
std::string host_shaping(const Shape& shape, int host);

}  // namespace paceline::lab

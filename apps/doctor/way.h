// The way to a host: what this machine's kernel says of it.
#pragma once

#include <string>
#include <vector>

#include "paceline/machine.h"
#include "transport/transport.h"

namespace paceline::cli {

struct Way {
  std::string own_address;      // of this machine on it; "": there is no way
  std::string interface;        // that has that address
  bool neighbour = false;       // the host is in a network of one of this machine's interfaces
  std::string gateway;          // the first machine on the way; "": the host itself, or not known
  double bytes_per_second = 0;  // that the interface says it can do; 0: not known
  int mtu = 0;                  // of the interface, bytes; 0: not known
  int segment_bytes = 0;        // most of a TCP segment between the two; 0: nobody answers there
};

Way way_to(const transport::Address& host, const std::vector<Interface>& interfaces);

}  // namespace paceline::cli

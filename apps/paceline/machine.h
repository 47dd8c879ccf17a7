// What `paceline doctor` says of this machine. Looks only; changes nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "lab/rights.h"

namespace paceline::cli {

struct Interface {
  std::string name;
  std::string address;   // IPv4 or IPv6
  int network_bits = 0;  // of the address, that all machines of its network have in common
  bool up = false;
  bool loopback = false;
  int mtu = 0;                  // bytes of a packet; 0: not known
  double bytes_per_second = 0;  // that its driver says it can do; 0: it says nothing
};

struct Machine {
  std::string name, system, processor;
  int cores = 0;         // of the machine
  int usable_cores = 0;  // that this process may run on
  std::int64_t memory_bytes = 0, available_bytes = 0;
  std::vector<Interface> interfaces;
  lab::Rights lab;  // whether `paceline lab` works here
};

Machine this_machine();
// That this process may run on; 0: not known.
int usable_cores();

// The first address of `host`. kBadRequest when there is none.
Result<std::string> numeric_address(const std::string& host);
// This machine's address on the way to `host`; no packet is sent. kBadRequest when there is no such host or no way to it.
Result<std::string> address_toward(const std::string& host);

}  // namespace paceline::cli

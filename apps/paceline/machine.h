// What `paceline doctor` says of this machine. Looks only; changes nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lab/rights.h"

namespace paceline::cli {

struct Interface {
  std::string name;
  std::string address;  // IPv4 or IPv6
  bool up = false;
  bool loopback = false;
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

}  // namespace paceline::cli

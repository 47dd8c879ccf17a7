// What `paceline doctor` says of this machine. Looks only; changes nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace paceline::cli {

struct Interface {
  std::string name;
  std::string address;  // IPv4 or IPv6
  bool up = false;
  bool loopback = false;
};

// Whether `paceline lab` could make network namespaces and shaped links here.
struct LabRights {
  bool namespaces = false;
  std::string reason;  // why, or why not
  std::string ip, tc;  // paths of the two programs it needs; "" = not installed
};

struct Machine {
  std::string name, system, processor;
  int cores = 0;         // of the machine
  int usable_cores = 0;  // that this process may run on
  std::int64_t memory_bytes = 0, available_bytes = 0;
  std::vector<Interface> interfaces;
  LabRights lab;
};

Machine this_machine();

}  // namespace paceline::cli

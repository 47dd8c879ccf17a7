// What holds a job up on the way to a host, from what was measured: the dearest first. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "base/status.h"
#include "doctor/way.h"

namespace paceline::cli {

struct HostFacts {
  std::string host;  // HOST:PORT
  Way way;
  Status reached;                    // why not, else
  double there = 0, back = 0;        // bytes a second by one connection
  double several = 0;                // there, by several connections together
  double clock_offset = 0;           // seconds that its clock is ahead
  double round_trip = 0;             // seconds, the least
  std::string release, own_release;  // of the two programs
  std::optional<double> label;  // bytes a second that the link should carry, if it is given; else the interface's own word counts
};

struct Finding {
  double cost = 1;  // how many times as long as without it what waits for the link may take, roughly; the order in which they stand
  std::string code;  // for programs: slow, one-way-slow, one-stream-slow, mtu, route, release, clock, unreachable
  std::string what, remedy;
};

std::vector<Finding> findings(const HostFacts& facts);

}  // namespace paceline::cli

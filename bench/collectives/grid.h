// Which operations `paceline bench collectives` times, who takes part in each, and what the times mean. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "base/status.h"
#include "cost/link_cost.h"

namespace paceline::bench {

// Who runs an operation: processes (a team, field.h) and, for ours, an algorithm.
struct Entry {
  std::string name;       // "paceline", "paceline-lp", "gloo", ...
  std::string team;       // "paceline", "paceline-alike", "paceline-spin", "gloo", "openmpi", "openmpi-pipelined"
  std::string algorithm;  // "best" or a name of collectives::Algorithm
};

// "paceline" and "paceline-spin" (the library's own choice), "paceline-lp", "-mst", "-be", "-ring", "-direct", "paceline-alike" and
// "paceline-alike-lp" (which take all links for alike), "gloo", "openmpi", "openmpi-pipelined". Errors: kBadRequest with the legal
// names and the nearest one.
Result<Entry> entry_of(const std::string& name);
std::vector<std::string> entry_names();
// Whether a block counts: ours by the linear pipeline, or by a choice that may take it.
bool has_blocks(const Entry& entry, const std::string& operation);

// "broadcast", "reduce", "allreduce", "reduce-scatter", "allgather", "barrier".
const std::vector<std::string>& operation_names();

struct CollectivesGrid {
  std::vector<std::string> operations = {"broadcast", "reduce", "allreduce"};
  std::vector<Bytes> sizes;
  std::vector<int> hosts = {2, 4, 8};
  std::vector<Entry> entries;
  std::vector<BytesPerSecond> rates = {{125e6}};  // one for all hosts, or one for each; then `hosts` has their number only
  Duration rest{0};                               // of all ranks before each repetition's barrier
  std::optional<Bytes> block;                     // of what sends blocks (has_blocks); absent: the one predicted fastest
};

// The entries that run an operation one after the other, in turns.
struct Heat {
  std::string operation;
  Bytes size;
  int hosts = 0;
  std::vector<BytesPerSecond> rates;  // of every host
  Duration rest{0};                   // see CollectivesGrid
  std::optional<Bytes> block;         // likewise
  std::vector<Entry> entries;
};

// The largest message that the algorithms for the paper's figures are run on: larger ones only take longer.
inline constexpr Bytes kMostOfAlgorithms{64'000'000};

// By hosts, operation and size, ascending. Entries that cannot run the operation, or not at this size, are left out. A barrier has
// one size, no bytes.
std::vector<Heat> heats(const CollectivesGrid& grid);
std::string key_of(const Heat& heat, const Entry& entry);  // different for all

// What no implementation beats: the bytes that must pass the busiest port (broadcast, reduce: all once; allreduce: 2(p-1)/p of
// them, and all once through the slowest port; reduce-scatter, allgather: (p-1)/p of them; barrier: 0). `goodput`: what a host's
// rate lets through, by host.
double bound_seconds(const std::string& operation, std::span<const BytesPerSecond> goodput, Bytes size);
// Bus over algorithm bandwidth, as nccl-tests define them; 0 of a barrier.
double bus_factor(const std::string& operation, int hosts);

// How often an operation that takes about `expected` seconds is repeated in a turn of about `length` seconds: 1 to 200 times.
int repetitions_for(double expected, double length);

}  // namespace paceline::bench

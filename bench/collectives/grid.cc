#include "bench/collectives/grid.h"

#include <algorithm>
#include <cmath>

#include <fmt/ranges.h>

#include "base/text.h"

namespace paceline::bench {
namespace {

const std::vector<Entry>& all_entries() {
  static const std::vector<Entry> entries = {{"paceline", "paceline", "best"},
                                             {"paceline-spin", "paceline-spin", "best"},
                                             {"paceline-lp", "paceline", "lp"},
                                             {"paceline-mst", "paceline", "mst"},
                                             {"paceline-be", "paceline", "be"},
                                             {"paceline-ring", "paceline", "ring"},
                                             {"paceline-direct", "paceline", "direct"},
                                             {"gloo", "gloo", "-"},
                                             {"openmpi", "openmpi", "-"},
                                             {"openmpi-pipelined", "openmpi-pipelined", "-"}};
  return entries;
}

bool can_run(const Entry& entry, const std::string& operation, Bytes size) {
  const bool own_algorithm = entry.team == "paceline" && entry.algorithm != "best";
  if (own_algorithm && size > kMostOfAlgorithms) return false;
  return (entry.algorithm != "ring" && entry.algorithm != "direct") || operation == "allreduce";
}

}  // namespace

std::vector<std::string> entry_names() {
  std::vector<std::string> names;
  for (const Entry& entry : all_entries()) names.push_back(entry.name);
  return names;
}

Result<Entry> entry_of(const std::string& name) {
  for (const Entry& entry : all_entries())
    if (entry.name == name) return entry;
  const auto names = entry_names();
  return error(ErrorKind::kBadRequest, "no contestant is called '{}'{}; legal: {}", name, suggestion(name, names),
               fmt::join(names, ", "));
}

std::vector<Heat> heats(const CollectivesGrid& grid) {
  std::vector<Heat> all;
  auto sizes = grid.sizes;
  std::ranges::sort(sizes);
  for (const int hosts : grid.hosts) {
    for (const std::string& operation : grid.operations) {
      for (const Bytes size : sizes) {
        Heat heat{operation, size, hosts, grid.rate, {}};
        for (const Entry& entry : grid.entries)
          if (can_run(entry, operation, size)) heat.entries.push_back(entry);
        if (!heat.entries.empty()) all.push_back(std::move(heat));
      }
    }
  }
  return all;
}

std::string key_of(const Heat& heat, const Entry& entry) {
  return fmt::format("{} of {} B between {} hosts at {:.0f} B/s: {}", heat.operation, heat.size.count, heat.hosts, heat.rate.value,
                     entry.name);
}

double bus_factor(const std::string& operation, int hosts) { return operation == "allreduce" ? 2.0 * (hosts - 1) / hosts : 1.0; }

double bound_seconds(const std::string& operation, int hosts, Bytes size, BytesPerSecond goodput) {
  return bus_factor(operation, hosts) * static_cast<double>(size.count) / goodput.value;
}

int repetitions_for(double expected, double length) {
  return static_cast<int>(std::clamp(std::floor(length / std::max(expected, 1e-6)), 1.0, 200.0));
}

}  // namespace paceline::bench

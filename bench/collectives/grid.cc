#include "bench/collectives/grid.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/ranges.h>

#include "base/text.h"
#include "collectives/plan/cost.h"

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
                                             {"paceline-alike", "paceline-alike", "best"},
                                             {"paceline-alike-lp", "paceline-alike", "lp"},
                                             {"gloo", "gloo", "-"},
                                             {"openmpi", "openmpi", "-"},
                                             {"openmpi-pipelined", "openmpi-pipelined", "-"}};
  return entries;
}

bool scatters(const std::string& operation) { return operation == "reduce-scatter" || operation == "allgather"; }

std::span<const collectives::Algorithm> algorithms_of(const std::string& operation) {
  using collectives::Operation;
  constexpr std::array kOperations = {Operation::kBroadcast, Operation::kReduce, Operation::kAllreduce, Operation::kReduceScatter,
                                      Operation::kAllgather};
  for (const auto each : kOperations) {
    if (operation == to_string(each)) return collectives::algorithms_for(each);
  }
  return {};
}

bool can_run(const Entry& entry, const std::string& operation, Bytes size, int hosts) {
  // torch.distributed wants parts of one size.
  if (entry.team == "gloo") return !scatters(operation) || size.count % (hosts * static_cast<std::int64_t>(sizeof(float))) == 0;
  if (entry.algorithm == "-" || entry.algorithm == "best") return true;
  if (size > kMostOfAlgorithms) return false;
  return std::ranges::any_of(algorithms_of(operation),
                             [&](const auto algorithm) { return entry.algorithm == to_string(algorithm); });
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

bool has_blocks(const Entry& entry, const std::string& operation) {
  return std::ranges::any_of(algorithms_of(operation), [&](const auto algorithm) {
    return collectives::has_blocks(algorithm) && (entry.algorithm == "best" || entry.algorithm == to_string(algorithm));
  });
}

const std::vector<std::string>& operation_names() {
  static const std::vector<std::string> names = {"broadcast", "reduce", "allreduce", "reduce-scatter", "allgather", "barrier"};
  return names;
}

std::vector<Heat> heats(const CollectivesGrid& grid) {
  std::vector<Heat> all;
  auto sizes = grid.sizes;
  std::ranges::sort(sizes);
  for (const int hosts : grid.hosts) {
    for (const std::string& operation : grid.operations) {
      for (const Bytes size : operation == "barrier" ? std::vector<Bytes>{{0}} : sizes) {
        Heat heat{operation, size, hosts, grid.rates, grid.rest, grid.block, {}};
        if (heat.rates.size() == 1) heat.rates.resize(static_cast<std::size_t>(hosts), heat.rates.front());
        for (const Entry& entry : grid.entries)
          if (can_run(entry, operation, size, hosts)) heat.entries.push_back(entry);
        if (!heat.entries.empty()) all.push_back(std::move(heat));
      }
    }
  }
  return all;
}

std::string key_of(const Heat& heat, const Entry& entry) {
  std::vector<std::string> rates;
  for (const BytesPerSecond rate : heat.rates) rates.push_back(fmt::format("{:.0f}", rate.value));
  if (std::ranges::count(rates, rates.front()) == static_cast<std::ptrdiff_t>(rates.size())) rates.resize(1);
  const std::string rested = heat.rest > Duration::zero() ? fmt::format(", rested {}", to_text(heat.rest)) : "";
  const bool cut = heat.block && has_blocks(entry, heat.operation);
  const std::string blocks = cut ? fmt::format(", blocks of {} B", heat.block->count) : "";
  return fmt::format("{} of {} B between {} hosts at {} B/s{}{}: {}", heat.operation, heat.size.count, heat.hosts,
                     fmt::join(rates, ","), rested, blocks, entry.name);
}

double bus_factor(const std::string& operation, int hosts) {
  if (operation == "barrier") return 0;
  if (scatters(operation)) return 1.0 * (hosts - 1) / hosts;
  return operation == "allreduce" ? 2.0 * (hosts - 1) / hosts : 1.0;
}

double bound_seconds(const std::string& operation, std::span<const BytesPerSecond> goodput, Bytes size) {
  const auto [slowest, fastest] = std::minmax_element(goodput.begin(), goodput.end());
  const double factor = bus_factor(operation, static_cast<int>(goodput.size()));
  const auto bytes = static_cast<double>(size.count);
  return std::max(factor * bytes / fastest->value, std::min(factor, 1.0) * bytes / slowest->value);
}

int repetitions_for(double expected, double length) {
  return static_cast<int>(std::clamp(std::floor(length / std::max(expected, 1e-6)), 1.0, 200.0));
}

}  // namespace paceline::bench

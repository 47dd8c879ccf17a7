#include "exchange/late.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include <fmt/ranges.h>

namespace paceline::exchange {
namespace {

using Ranks = std::vector<std::int32_t>;

std::string named(const Ranks& ranks) {
  constexpr std::size_t kMost = 8;
  const auto some = std::span(ranks).first(std::min(ranks.size(), kMost));
  const std::string more = ranks.size() > kMost ? fmt::format(" and {} more", ranks.size() - kMost) : "";
  return fmt::format("{} {}{}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(some, ", "), more);
}

std::string silence_of(const Ranks& ranks) {
  return fmt::format("{} {} not answer", named(ranks), ranks.size() == 1 ? "does" : "do");
}

// By how many iterations a worker may be ahead of the slowest. Where barriers are predicted that changes: it waits at one for whom
// it is ahead of.
std::int64_t lead_of(const sync::SyncOptions& options) { return options.kind == sync::SyncKind::kSsp ? options.staleness : 0; }

}  // namespace

std::string who_is_late(Rank worker, Iteration current, const job::PlanOptions& options, const std::map<Rank, Iteration>& reached) {
  Iteration last = current - lead_of(options.sync);
  for (const auto& [rank, iteration] : reached) last = std::min(last, iteration);
  Ranks behind, silent;
  for (std::int32_t rank = 0; rank < options.workers; ++rank) {
    if (Rank{rank} == worker) continue;
    const auto told = reached.find(Rank{rank});
    if (told == reached.end())
      silent.push_back(rank);
    else if (told->second == last && last < current - lead_of(options.sync))
      behind.push_back(rank);
  }
  if (!behind.empty()) {
    return fmt::format(", which waits for {}: {} gradients of iteration {} are missing{}", named(behind),
                       behind.size() == 1 ? "its" : "their", last, silent.empty() ? "" : "; " + silence_of(silent));
  }
  return silent.empty() || reached.empty() ? "" : "; " + silence_of(silent);
}

}  // namespace paceline::exchange

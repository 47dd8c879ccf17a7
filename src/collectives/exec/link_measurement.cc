#include "collectives/exec/link_measurement.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "collectives/exec/largest.h"

namespace paceline::collectives {
namespace {

constexpr Bytes kBlock{65'536};

class LinkMeter {
 public:
  LinkMeter(Engine& engine, const Communicator::Post& post, Rank self, std::int32_t ranks, const CommunicatorOptions& options,
            const LinkTrial& trial)
      : self_(self.value), ranks_(ranks), trial_(trial), message_(static_cast<std::size_t>(trial.size.count) / sizeof(float)) {
    // A group's number may serve several pairs, because no rank is in two of them.
    for (int round = 0; round < pairing_rounds(ranks); ++round) {
      const auto other = partner_of(self_, ranks, round);
      if (!other) continue;
      Group pair;
      pair.id = kFirstPairGroup + static_cast<std::uint32_t>(round);
      pair.ranks = {Rank{std::min(self_, *other)}, Rank{std::max(self_, *other)}};
      pair.self = self_ < *other ? 0 : 1;
      partners_.push_back(*other);
      pairs_.push_back(std::make_unique<Communicator>(engine, post, std::move(pair), options));
    }
    Group everybody = world_group(self, ranks);
    everybody.id = kFirstPairGroup + kMostRanksMeasured - 1;  // a tournament of the most ranks has one round fewer
    all_ = std::make_unique<Communicator>(engine, post, std::move(everybody), options);
  }

  // Seconds per byte from every rank to every other, as those who received have seen them.
  Result<std::vector<double>> pass() {
    const auto ranks = static_cast<std::size_t>(ranks_);
    std::vector<double> links(ranks * ranks, 0.0);
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      for (int root = 0; root < 2; ++root) {
        PACELINE_ASSIGN_OR_RETURN(const double time, receive(*pairs_[i], root));
        if (pairs_[i]->rank() == root) continue;
        links[static_cast<std::size_t>(partners_[i]) * ranks + static_cast<std::size_t>(self_)] =
            time / static_cast<double>(trial_.size.count);
      }
    }
    PACELINE_RETURN_IF_ERROR(take_largest(*all_, links));
    return links;
  }

 private:
  // The time of the fastest message but the first.
  Result<double> receive(Communicator& pair, int root) {
    double least = std::numeric_limits<double>::infinity();
    for (int i = 0; i <= trial_.repetitions; ++i) {
      PACELINE_RETURN_IF_ERROR(pair.run({.kind = CollectiveKind::kBarrier}));
      const auto begin = std::chrono::steady_clock::now();
      PACELINE_RETURN_IF_ERROR(pair.run({.kind = CollectiveKind::kBroadcast,
                                         .output = message_.data(),
                                         .count = static_cast<std::int64_t>(message_.size()),
                                         .root = root,
                                         .algorithm = Algorithm::kLinearPipeline,
                                         .block = kBlock}));
      if (i > 0) least = std::min(least, seconds(std::chrono::steady_clock::now() - begin));
    }
    return std::max(least, 1e-9);
  }

  int self_;
  std::int32_t ranks_;
  LinkTrial trial_;
  std::vector<float> message_;
  std::vector<int> partners_;
  std::vector<std::unique_ptr<Communicator>> pairs_;  // with those
  std::unique_ptr<Communicator> all_;
};

}  // namespace

int pairing_rounds(int ranks) { return ranks < 2 ? 0 : ranks - 1 + ranks % 2; }

// The circle method: the last of an even number stays, the others turn around it; with an odd number that one is missing.
std::optional<int> partner_of(int rank, int ranks, int round) {
  const int rounds = pairing_rounds(ranks);
  const int fixed = rounds;  // the one that stays
  const int mirrored = (2 * round - rank % rounds + 2 * rounds) % rounds;
  int partner = rank == fixed ? round : mirrored == rank ? fixed : mirrored;
  if (partner >= ranks) return std::nullopt;
  return partner;
}

LinkTrial link_trial_for(double seconds) {
  if (seconds > 0.5) return {Bytes{131'072}, 1};
  if (seconds > 0.05) return {Bytes{262'144}, 1};
  if (seconds > 0.005) return {Bytes{1'048'576}, 2};
  return {Bytes{1'048'576}, 8};
}

Result<std::optional<LinkRates>> measure_links(Engine& engine, const Communicator::Post& post, Rank self, std::int32_t ranks,
                                               const CommunicatorOptions& options, const LinkTrial& trial) {
  if (ranks < 3 || ranks > kMostRanksMeasured) return std::optional<LinkRates>();
  LinkMeter meter(engine, post, self, ranks, options, trial);
  PACELINE_ASSIGN_OR_RETURN(std::vector<double> links, meter.pass());
  PACELINE_ASSIGN_OR_RETURN(LinkRates rates, LinkRates::make(ranks, links));
  if (!rates.differ()) return std::optional<LinkRates>();
  PACELINE_ASSIGN_OR_RETURN(const std::vector<double> again, meter.pass());
  for (std::size_t i = 0; i < links.size(); ++i) links[i] = std::min(links[i], again[i]);
  PACELINE_ASSIGN_OR_RETURN(rates, LinkRates::make(ranks, links));
  return rates.differ() ? std::optional(rates) : std::nullopt;
}

}  // namespace paceline::collectives

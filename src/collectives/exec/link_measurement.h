// How fast each link of a job is against the others: every pair of ranks sends to each other alone, as many pairs at once as there
// are. For jobs whose links differ; calibration.h says what a link costs.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "collectives/exec/communicator.h"
#include "collectives/plan/link_rates.h"

namespace paceline::collectives {

// With more ranks nothing is measured, and all links are taken for alike.
inline constexpr std::int32_t kMostRanksMeasured = 64;
// The groups from kFirstPairGroup on, as many as kMostRanksMeasured, belong to this.
inline constexpr std::uint32_t kFirstPairGroup = wire::kMostCollectiveGroup - 1 - kMostRanksMeasured;

// A tournament: in each of so many rounds every rank meets at most one other, and in all rounds together each of the others once.
int pairing_rounds(int ranks);
// Whom `rank` meets; nothing: it waits. Pure.
std::optional<int> partner_of(int rank, int ranks, int round);

// What one direction of a link is measured with: the fastest of so many messages, behind one that uses up what a shaper lets pass
// at once.
struct LinkTrial {
  Bytes size;
  int repetitions = 1;
};
// For links of which a chain of ranks passes on 1 MiB in `seconds`: little where they are slow, often where they are so fast that
// a thread's waking up counts.
LinkTrial link_trial_for(double seconds);

// All ranks of the job call it once, each on a thread that may wait, with the same trial. The same rates on all ranks, in
// proportion only; nothing where they do not differ or there are fewer than 3 ranks or more than kMostRanksMeasured. Where they
// seem to differ they are measured a second time, and the faster counts. Takes 2 * (ranks - 1) times that of (repetitions + 1)
// messages on the slowest link. Errors: as of an operation.
Result<std::optional<LinkRates>> measure_links(Engine& engine, const Communicator::Post& post, Rank self, std::int32_t ranks,
                                               const CommunicatorOptions& options, const LinkTrial& trial);

}  // namespace paceline::collectives

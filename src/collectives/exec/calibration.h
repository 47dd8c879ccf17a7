// What the links of a job cost, measured with whole operations when everybody is connected, so that algorithms and blocks can be
// chosen for them (cost.h). All ranks get the same numbers, so that they choose alike.
//
// Small broadcasts tell what waking up costs, small exchanges what it costs when all ranks send at once; then pipelined broadcasts
// and reduces of several sizes and blocks run one after the other; an operation's time is that of its slowest rank. Takes about 1 s
// at 1 Gb/s, less on faster links, and some seconds at 10 Mb/s: sizes are smaller where the link is slow. Then the links are
// compared with each other (link_measurement.h), unless sums are taken in rank order: chains follow the ranks then, whatever the
// links.
#pragma once

#include "collectives/exec/communicator.h"
#include "collectives/exec/expectation.h"
#include "collectives/exec/link_measurement.h"
#include "cost/cost_fit.h"

namespace paceline::collectives {

// The groups that these functions use; others must leave them alone.
inline constexpr std::uint32_t kCalibrationGroup = wire::kMostCollectiveGroup;
inline constexpr std::uint32_t kAgreementGroup = wire::kMostCollectiveGroup - 1;

// A number that must be the same on all ranks.
struct Setting {
  const char* name;
  double value;  // finite
};

// Seconds that a message costs the processors of both ends, at least. A link that is slower than they are hides it from a
// measurement, and a pipeline that takes messages for free has blocks of a few bytes.
inline constexpr double kLeastAlpha = 10e-6;

struct Calibration {
  cost::CostFit fit;     // of long messages, for the choice; beta: of the slowest link along the ranks' own chain
  double latency = 0;    // see CollectiveProblem
  double crowding = 0;   // likewise
  Expectation expected;  // of shorter ones too, without the latency, for predictions: see Rules
  std::vector<CalibrationSample> samples;
  std::shared_ptr<const LinkRates> links;  // where they differ: scaled to fit.cost.beta; null: they do not, or nobody looked
};

// Whether calibrate() compares links with each other.
enum class CompareLinks { kYes, kNo };

// All ranks of the job call it once, with the same settings in the same order. Errors: as of an operation; kBadRequest naming the
// first setting that differs, and what is the least and the most of it.
Status check_alike(Engine& engine, Communicator::Post post, Rank self, std::int32_t ranks, const CommunicatorOptions& options,
                   const std::vector<Setting>& settings);

// All ranks of the job call it once, each on a thread that may wait. One rank: the cost that Rules begins with, and no samples.
// Errors: as of an operation. A machine too busy to measure anything gives a poor fit, which its residual says, and no error.
Result<Calibration> calibrate(Engine& engine, const Communicator::Post& post, Rank self, std::int32_t ranks,
                              const CommunicatorOptions& options, CompareLinks compare = CompareLinks::kYes);

}  // namespace paceline::collectives

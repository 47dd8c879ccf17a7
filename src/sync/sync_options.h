// Which synchronisation model a job uses, and its numbers. A plain value, the same on every server and worker of a job.
//
// BSP: everyone waits for everyone. ASP: nobody waits. SSP(s): a worker may be at most s iterations ahead of the slowest.
// ElasticBSP(R): barriers whose position is predicted, at most R iterations apart (X. Zhao et al., "Elastic Bulk Synchronous
// Parallel Model for Distributed Deep Learning").
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace paceline::sync {

enum class SyncKind { kBsp, kAsp, kSsp, kElasticBsp };

// What a predicted barrier minimises.
enum class Objective {
  kSpan,          // latest end - earliest end, as in the paper; near-equal workers then get a barrier after every iteration
  kWaitingShare,  // waiting / (workers * time since now): may pass over a near barrier for one that wastes a smaller share
};

// What one gradient is multiplied by before it is applied.
enum class GradientScale {
  kOfModel,  // kMean where pushes are summed over the workers (BSP), kFull where each is applied on its own
  kMean,     // 1 / workers
  kFull,     // 1
};

struct SyncOptions {
  SyncKind kind = SyncKind::kBsp;
  std::int64_t staleness = 3;   // SSP: iterations, 0 (the pace of BSP) .. kMaxStaleness
  std::int64_t lookahead = 15;  // ElasticBSP: R, iterations per worker that a barrier may lie ahead, 1 .. kMaxLookahead
  Objective objective = Objective::kWaitingShare;
  std::int64_t history = 5;  // ElasticBSP: intervals of a worker that its prediction is the median of, 1 (the paper) .. kMaxHistory
  GradientScale scale = GradientScale::kOfModel;

  bool operator==(const SyncOptions&) const = default;
};

inline constexpr std::int64_t kMaxStaleness = 1'000'000;
inline constexpr std::int64_t kMaxLookahead = 1'000'000;
inline constexpr std::int64_t kMaxHistory = 1'000;

// The options, or kBadRequest that names the field, its value and the legal range. Fields of other kinds are checked too.
Result<SyncOptions> validated(SyncOptions options);

// bsp, asp, ssp, elastic-bsp.
std::string_view to_text(SyncKind kind);
Result<SyncKind> parse_sync_kind(std::string_view text);

// span, waiting-share.
std::string_view to_text(Objective objective);
Result<Objective> parse_objective(std::string_view text);

// model, mean, full.
std::string_view to_text(GradientScale scale);
Result<GradientScale> parse_gradient_scale(std::string_view text);

}  // namespace paceline::sync

#include "membership/verdict.h"

namespace paceline::membership {
namespace {

// Nothing: the job goes on.
std::optional<wire::Stop> reason(const Standing& standing) {
  if (standing.cause) return standing.cause;
  if (standing.free_seats > 0 || standing.unready > 0 || standing.working > 0) return std::nullopt;
  if (standing.asked.empty()) return wire::Stop{};
  return wire::Stop{wire::StopKind::kInterrupted, ErrorKind::kCancelled, standing.asked};
}

}  // namespace

Verdict verdict(const Standing& standing) {
  if (const auto stop = reason(standing)) return {standing.staying > 0 ? Phase::kEnding : Phase::kEnded, *stop};
  if (standing.free_seats > 0) return {Phase::kGathering, {}};
  return {standing.unready > 0 ? Phase::kPreparing : Phase::kRunning, {}};
}

}  // namespace paceline::membership

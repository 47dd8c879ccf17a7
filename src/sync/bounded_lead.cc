#include "sync/bounded_lead.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace paceline::sync {
namespace {

// Far beyond any iteration, and sums with one do not overflow.
constexpr std::int64_t kUnbounded = std::numeric_limits<std::int64_t>::max() / 2;

std::int64_t lead_of(const SyncOptions& options) {
  switch (options.kind) {
    case SyncKind::kBsp:
      return 0;
    case SyncKind::kSsp:
      return options.staleness;
    default:
      return kUnbounded;
  }
}

}  // namespace

BoundedLead::BoundedLead(const SyncOptions& options) : kind_(options.kind), lead_(lead_of(options)) {}

Iteration BoundedLead::summed_until() const { return kind_ == SyncKind::kBsp ? std::numeric_limits<Iteration>::max() : 0; }

Delivery BoundedLead::delivery() const {
  switch (kind_) {
    case SyncKind::kBsp:
      return Delivery::kToAll;
    case SyncKind::kAsp:
      return Delivery::kToPusher;
    default:
      return Delivery::kAtStart;
  }
}

std::int64_t BoundedLead::ahead(Rank worker) const {
  const WorkerProgress* progress = find(worker);
  if (progress == nullptr) return 0;
  return std::max<std::int64_t>(0, progress->started - 1 - ended_by_all());
}

Iteration BoundedLead::limit_of(Rank /*worker*/) const { return slowest_ + lead_ + 1; }
Iteration BoundedLead::awaited_of(Rank /*other*/, Iteration wanted) const { return wanted - 1 - lead_; }

PacedRule::Concerns BoundedLead::before_starts(TimePoint /*now*/) {
  const Iteration before = std::exchange(slowest_, ended_by_all());
  return before == slowest_ ? Concerns::kNobodyElse : Concerns::kEverybody;
}

}  // namespace paceline::sync

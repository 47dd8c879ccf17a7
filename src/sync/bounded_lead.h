// BSP, SSP and ASP are one rule with a number: a worker may start iteration i when all live workers have ended i - 1 - lead,
// with lead 0, s, and unbounded.
#pragma once

#include "sync/paced_rule.h"

namespace paceline::sync {

class BoundedLead final : public PacedRule {
 public:
  // options: validated, of kind kBsp, kAsp or kSsp.
  explicit BoundedLead(const SyncOptions& options);

  SyncKind kind() const override { return kind_; }
  Delivery delivery() const override;
  Iteration summed_until() const override;
  std::int64_t ahead(Rank worker) const override;

 private:
  Iteration limit_of(Rank worker) const override;
  Iteration awaited_of(Rank other, Iteration wanted) const override;
  Concerns before_starts(TimePoint now) override;

  SyncKind kind_;
  std::int64_t lead_;
  Iteration slowest_ = 0;  // ended by all when starts were last looked for
};

}  // namespace paceline::sync

// BSP, SSP and ASP are one rule with a number: a worker may start iteration i when all live workers have ended i - 1 - lead,
// with lead 0, s, and unbounded.
#pragma once

#include "sync/sync_model.h"
#include "sync/unit_updates.h"
#include "sync/workers.h"

namespace paceline::sync {

class BoundedLead final : public SyncModel {
 public:
  // options: validated, of kind kBsp, kAsp or kSsp.
  BoundedLead(const SyncOptions& options, std::int32_t units);

  SyncKind kind() const override { return kind_; }
  Delivery delivery() const override;
  Status on_push(Rank worker, std::int32_t unit, Iteration iteration, std::vector<Update>& updates) override;
  Status on_start_asked(Rank worker, Iteration iteration, TimePoint now, std::vector<Start>& starts) override;
  Status on_joined(Rank worker, Iteration first) override;
  Iteration earliest_join() const override;
  Result<Decisions> on_left(Rank worker, TimePoint now) override;
  std::optional<Wait> waits_for(Rank worker) const override;
  std::int64_t ahead(Rank worker) const override;

 private:
  void start_waiting(std::vector<Start>& starts);

  SyncKind kind_;
  std::int64_t lead_;
  Workers workers_;
  UnitUpdates updates_;
};

}  // namespace paceline::sync

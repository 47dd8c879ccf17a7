// job::UpdateOptions::verdict: what a worker hears from servers of each iteration's means. Where their parts are received, and what
// is known once all are there.
//
// Threads: the loop; `ledger()` under the gatehouse's lock.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "exchange/verdict.h"
#include "job/plan.h"

namespace paceline::paramserver {

class HeardVerdicts {
 public:
  explicit HeardVerdicts(const job::Plan& plan);

  // Where a part of the iteration is received; nothing: no such server has a part of so many bytes.
  std::span<std::byte> place(Rank server, Iteration iteration, std::uint64_t bytes);
  // Locked. It is there. `current`: the iteration that the worker is in. kBadRequest: nobody awaits it.
  Status on_part(Rank server, Iteration iteration, std::span<const std::byte> payload, Iteration current);
  const exchange::VerdictLedger& ledger() const { return ledger_; }

 private:
  exchange::VerdictLedger ledger_;
  exchange::VerdictPart part_;
  std::vector<std::array<std::vector<std::byte>, 2>> places_;  // by server and parity of the iteration
};

}  // namespace paceline::paramserver

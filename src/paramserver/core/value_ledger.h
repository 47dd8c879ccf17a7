// Which values of one server leave: to all to whom they are due, or to those who have asked. A part of ServerLedger, which says
// when a value is new; it shares the books. Pure; owned by one progress loop.
//
// A value's label (wire::Value::iteration) is the iteration that its receiver has completed with it: in BSP the number of updates
// of the unit, as all workers know it; in ASP the iteration of the push it answers; with Delivery::kAtStart the iteration before
// the start. A worker that has a label of i - 1 for a layer may start that layer's forward of iteration i.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "paramserver/core/server_books.h"
#include "paramserver/core/server_effect.h"
#include "sync/pace_rule.h"

namespace paceline::paramserver {

class ValueLedger {
 public:
  // `books` outlive it.
  ValueLedger(ServerBooks& books, sync::Delivery delivery);

  // The label of the latest value that there is for the worker, and of the latest that it was sent.
  Iteration due(std::uint32_t unit, Rank worker) const;
  Iteration answered(std::uint32_t unit, Rank worker) const;

  // As in ServerLedger.
  Status on_pull(Rank worker, const wire::Pull& asked, ServerEffects& effects);
  // The worker's asking ends, and nothing is kept for it.
  void on_left(Rank worker, ServerEffects& effects);

  // The initial value of the unit is there: worker 0 has it, all others are sent it.
  void send_initial(std::uint32_t unit, ServerEffects& effects);
  // There is a new value for the worker, or for all.
  void offer(std::uint32_t unit, Rank worker, ServerEffects& effects);
  void offer_to_all(std::uint32_t unit, ServerEffects& effects);
  // Delivery::kAtStart: the worker starts, with the values of this moment.
  void offer_at_start(const sync::Start& start, ServerEffects& effects);
  // Nobody computes any more: all get the same values, asked for or not, once.
  void send_final(ServerEffects& effects);

 private:
  struct Pull {  // of several units that waits for some of them
    std::uint32_t unit = 0, last = 0;
    std::size_t missing = 0;
  };

  Status check_pull(Rank worker, std::uint32_t unit, Iteration label) const;
  std::vector<Pull>& pulls(Rank worker) { return pulls_[static_cast<std::size_t>(worker.value)]; }
  void keep(std::uint32_t unit, Rank worker, ServerEffects& effects);
  void forget_kept(std::uint32_t unit, Rank worker, ServerEffects& effects);
  void send(const Pull& pull, Rank worker, Iteration label, ServerEffects& effects);

  ServerBooks& books_;
  sync::Delivery delivery_;
  std::vector<std::vector<Pull>> pulls_;  // by worker
  bool final_values_sent_ = false;
};

}  // namespace paceline::paramserver

// Of CollectiveCarrier: what is done to sums on the loop, in pieces.
#include <algorithm>

#include "base/log.h"
#include "collectives/training/collective_carrier.h"
#include "tensor/reduce.h"

namespace paceline::collectives {

using Kind = RoundLedger::Action::Kind;
using Lock = exchange::Gatehouse::Lock;

void CollectiveCarrier::release_updates() {
  held_ = false;
  signal_->raise();
}

// Does one piece of the most urgent update. False: there is none.
bool CollectiveCarrier::work_piece() {
  if (work_.empty()) return false;
  Work& work = work_.back();
  const scheduling::Unit& unit = plan_.units().units[work.action.unit];
  const scheduling::Part& part = plan_.units().parts[unit.first_part + work.part];
  const std::int64_t elements = std::min(kPieceElements, part.elements - work.begin);
  if (const Status worked = work_on(work, elements); !worked.ok()) {
    house_.fail(worked);
    return false;
  }
  work.begin += elements;
  if (work.begin < part.elements) return true;
  work.begin = 0;
  if (++work.part < unit.parts) return true;
  const RoundLedger::Action action = work.action;
  work_.pop_back();
  end_work(action);
  return true;
}

// The sum becomes the mean where it is looked at first.
Status CollectiveCarrier::work_on(const Work& work, std::int64_t elements) {
  const bool updates = work.action.kind == Kind::kUpdate;
  const scheduling::Unit& unit = plan_.units().units[work.action.unit];
  const std::span<float> sums = staged(work.action.unit);
  const std::uint32_t part = unit.first_part + work.part;
  if (!UnitFlags::used(unit, work.part, sums)) {
    if (verdicts_) verdicts_->part.add_unused(plan_.units().parts[part].tensor);
    return {};
  }
  const auto offset = static_cast<std::size_t>(plan_.units().parts[part].offset - unit.offset + work.begin);
  const std::span<float> mean = sums.subspan(offset, static_cast<std::size_t>(elements));
  if (!updates || !plan_.holds_updates()) {
    const std::int32_t workers = plan_.options().workers;
    if (workers > 1) tensor::scale(mean, 1.0 / static_cast<double>(workers));
    if (!shard_.look(mean)) PACELINE_RETURN_IF_ERROR(shard_.on_broken(shard_.broken_sum(part, ledger_.round())));
  }
  if (verdicts_) judge(work, plan_.units().parts[part].tensor, mean);
  if (!updates || shard_.decision().skip) return {};
  if (const float coefficient = shard_.decision().coefficient; coefficient != 1.0F)
    tensor::scale(mean, static_cast<double>(coefficient));
  shard_.step(part, static_cast<std::size_t>(work.begin), {ledger_.round()}, mean,
              memory_.parameters(work.action.unit).subspan(offset, mean.size()));
  return {};
}

void CollectiveCarrier::end_work(const RoundLedger::Action& action) {
  const bool updates = action.kind == Kind::kUpdate;
  {
    const Lock lock = house_.lock();
    if (updates) {
      ledger_.on_updated(action.unit, house_.loop().now(), actions_);
      if (verdicts_ && ledger_.all_updated()) {
        const Status told = verdicts_->ledger.on_part(self_, ledger_.round(), verdicts_->part, house_.gates().current());
        PACELINE_CHECK(told.ok(), "{}", told.message());
        verdicts_->part.clear();
      }
    } else if (ledger_.on_inspected(actions_) == RoundLedger::Inspection::kAll && shard_.decide(ledger_.round()).skip) {
      log::warn("iteration {} changes nothing: a gradient is not finite (--non-finite skip)", ledger_.round());
    }
  }
  if (!updates) return;
  if (ledger_.all_updated() && on_updated_) on_updated_(ledger_.round());
  house_.wake();
}

void CollectiveCarrier::judge(const Work& work, std::uint32_t tensor, std::span<const float> mean) {
  if (verdicts_->part.add(mean)) return;
  const scheduling::Unit& unit = plan_.units().units[work.action.unit];
  verdicts_->part.add_non_finite({.rank = flags_.non_finite(unit, work.part, staged(work.action.unit)), .tensor = tensor});
}

}  // namespace paceline::collectives

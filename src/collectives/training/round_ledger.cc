#include "collectives/training/round_ledger.h"

#include <algorithm>

namespace paceline::collectives {

using Kind = RoundLedger::Action::Kind;
using wire::Happening;

RoundLedger::RoundLedger(exchange::GateLedger& gates, Rank self, TrainingOptions options, wire::EventSink* events)
    : gates_(gates),
      events_(events),
      self_(self),
      root_(root_of(options, gates.plan().options().workers)),
      options_(options),
      updates_here_(updates_everywhere(options_.loop) || self == root_),
      round_(gates.current() - 1),
      units_(gates.plan().units().units.size()) {}

void RoundLedger::tell(Happening what, std::uint32_t unit, TimePoint now) const {
  if (events_ != nullptr) events_->on_event(wire::at(now, {.what = what, .unit = unit, .iteration = round_}));
}

// --- a round begins ---

void RoundLedger::on_start(TimePoint now, Actions& actions) {
  starting_ = broadcasts_ = true;
  reduces_begun_ = count();
  for (Unit& unit : units_) unit.updated = self_ == Rank{0};
  begin_broadcasts(now, actions);
}

void RoundLedger::begin_round() {
  PACELINE_CHECK(open_operations_ == 0, "the round of iteration {} begins while operations of the one before are under way",
                 round_ + 1);
  ++round_;
  starting_ = free_ = false;
  reduces_begun_ = broadcasts_begun_ = inspected_ = updated_ = 0;
  broadcasts_ = !updates_everywhere(options_.loop) ||
                (options_.broadcast_every > 0 && round_ % options_.broadcast_every == 0 && plan().options().workers > 1);
  std::ranges::fill(units_, Unit());
}

void RoundLedger::begin_reduce(std::uint32_t unit, TimePoint now, Actions& actions) {
  ++reduces_begun_;
  ++open_operations_;
  tell(Happening::kPushing, unit, now);
  actions.push_back({Kind::kReduce, unit});
}

void RoundLedger::on_staged(const exchange::GateLedger::Complete& complete, TimePoint now, Actions& actions) {
  if (free_) begin_round();
  units_[complete.unit].staged = true;
  if (complete.unused_parts != scheduling::all_parts(plan().units().units[complete.unit])) gates_.on_free(complete.unit);
  if (!overlaps(options_.loop)) return;
  while (reduces_begun_ < count() && units_[count() - 1 - reduces_begun_].staged)
    begin_reduce(count() - 1 - reduces_begun_, now, actions);
}

void RoundLedger::on_free(TimePoint now, Actions& actions) {
  if (free_) begin_round();
  free_ = true;
  if (!overlaps(options_.loop)) {
    for (std::uint32_t unit = 0; unit < count(); ++unit) begin_reduce(unit, now, actions);
  }
  for (std::uint32_t unit = 0; unit < count(); ++unit) {
    if (units_[unit].reduced) after_sum(unit, actions);
  }
  begin_broadcasts(now, actions);
}

// --- a unit's way through it ---

void RoundLedger::on_reduced(std::uint32_t unit, TimePoint now, Actions& actions) {
  --open_operations_;
  units_[unit].reduced = true;
  tell(Happening::kPushed, unit, now);
  if (free_) after_sum(unit, actions);
}

// Updates wait for the end of backward; so does looking at sums, which is not worth a second rule.
void RoundLedger::after_sum(std::uint32_t unit, Actions& actions) {
  if (updates_here_) actions.push_back({plan().holds_updates() ? Kind::kInspect : Kind::kUpdate, unit});
}

RoundLedger::Inspection RoundLedger::on_inspected(Actions& actions) {
  if (++inspected_ < count()) return Inspection::kMore;
  for (std::uint32_t unit = 0; unit < count(); ++unit) actions.push_back({Kind::kUpdate, unit});
  return Inspection::kAll;
}

void RoundLedger::on_updated(std::uint32_t unit, TimePoint now, Actions& actions) {
  units_[unit].updated = true;
  ++updated_;
  tell(Happening::kStepped, unit, now);
  if (!broadcasts_ || self_ == broadcast_root()) complete(unit, now);
  begin_broadcasts(now, actions);
}

// In forward order, each when this rank's own value (which the others overwrite, so that it must be over with) is there.
void RoundLedger::begin_broadcasts(TimePoint now, Actions& actions) {
  if (!broadcasts_ || !free_ || reduces_begun_ < count()) return;
  const bool own_first = starting_ ? self_ == Rank{0} : updates_here_;
  while (broadcasts_begun_ < count() && (!own_first || units_[broadcasts_begun_].updated)) {
    if (starting_ && self_ == Rank{0}) complete(broadcasts_begun_, now);
    ++open_operations_;
    tell(Happening::kPulling, broadcasts_begun_, now);
    actions.push_back({Kind::kBroadcast, broadcasts_begun_++});
  }
}

void RoundLedger::on_broadcast_begins(std::uint32_t unit, TimePoint now) {
  if (units_[unit].returning) return;
  units_[unit].returning = true;
  tell(Happening::kReturning, unit, now);
}

void RoundLedger::on_broadcast(std::uint32_t unit, TimePoint now) {
  --open_operations_;
  tell(Happening::kPulled, unit, now);
  if (self_ != broadcast_root()) complete(unit, now);
}

// What the root itself sends does not have to come.
void RoundLedger::complete(std::uint32_t unit, TimePoint now) {
  if (broadcasts_) on_broadcast_begins(unit, now);
  tell(Happening::kComplete, unit, now);
  gates_.on_value(unit);
}

std::string RoundLedger::describe(std::optional<std::uint32_t> unit) const {
  if (!unit) return fmt::format("the operations of iteration {} to end", round_);
  const std::string where = plan().layer_text(plan().units().units[*unit].layer);
  if (!starting_ && !units_[*unit].reduced) return fmt::format("the sum of the gradients of {} of iteration {}", where, round_);
  return fmt::format("the weights of {} after iteration {}", where, round_);
}

}  // namespace paceline::collectives

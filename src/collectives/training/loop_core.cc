#include "collectives/training/loop_core.h"

#include <algorithm>
#include <utility>

namespace paceline::collectives {

using paramserver::Account;
using Kind = LoopCore::Action::Kind;

LoopCore::LoopCore(std::shared_ptr<const paramserver::JobPlan> plan, Rank self, TrainingOptions options)
    : plan_(std::move(plan)),
      self_(self),
      root_(root_of(options, plan_->options().workers)),
      options_(options),
      updates_here_(updates_everywhere(options_.loop) || self == root_),
      current_(plan_->options().first),
      round_(current_ - 1),
      units_(plan_->units().units.size()),
      tensors_(plan_->table().tensors.size(), TensorState::kAwaited),
      missing_in_(static_cast<std::size_t>(plan_->layers()), 0) {}

scheduling::UnitRange LoopCore::units_of(std::optional<Layer> layer) const {
  if (!layer || !overlaps(options_.loop)) return {0, count()};
  return plan_->units().of_layer[static_cast<std::size_t>(layer->index)];
}

// --- a round begins ---

void LoopCore::on_start(TimePoint now, Actions& actions) {
  starting_ = broadcasts_ = true;
  reduces_begun_ = count();
  broadcasts_begun_ = 0;
  for (std::uint32_t unit = 0; unit < count(); ++unit) {
    units_[unit].updated = self_ == Rank{0};
    units_[unit].complete = false;
    const scheduling::Unit& planned = plan_->units().units[unit];
    for (Layer layer = planned.layer; layer <= planned.last_layer; ++layer.index)
      ++missing_in_[static_cast<std::size_t>(layer.index)];
    ++missing_;
  }
  begin_broadcasts(now, actions);
}

void LoopCore::settle(std::uint32_t tensor, TensorState state, std::vector<std::uint32_t>& complete) {
  if (round_ != current_) {  // the first of its iteration
    round_ = current_;
    starting_ = free_ = false;
    reduces_begun_ = broadcasts_begun_ = inspected_ = 0;
    broadcasts_ = !updates_everywhere(options_.loop) ||
                  (options_.broadcast_every > 0 && round_ % options_.broadcast_every == 0 && plan_->options().workers > 1);
    for (Unit& unit : units_) unit = {};
    for (std::uint32_t unit = 0; unit < count(); ++unit) units_[unit].awaited_parts = plan_->units().units[unit].parts;
  }
  tensors_[tensor] = state;
  const scheduling::UnitRange units = plan_->units().of_tensor[tensor];
  for (std::uint32_t unit = units.begin; unit < units.end; ++unit) {
    Unit& of = units_[unit];
    if (state == TensorState::kUnused) {
      const scheduling::Unit& planned = plan_->units().units[unit];
      for (std::uint32_t i = 0; i < planned.parts; ++i) {
        if (plan_->units().parts[planned.first_part + i].tensor == tensor) of.unused_parts |= std::uint32_t{1} << i;
      }
    }
    if (--of.awaited_parts == 0) complete.push_back(unit);
  }
}

Status LoopCore::on_gradient_ready(std::uint32_t tensor, std::vector<std::uint32_t>& complete) {
  if (tensor >= tensors_.size())
    return error(ErrorKind::kBadRequest, "tensor {} does not exist; the model has {}", tensor, tensors_.size());
  if (tensors_[tensor] != TensorState::kAwaited) {
    return error(ErrorKind::kBadRequest, "tensor {} \"{}\" got its gradient twice in iteration {}", tensor,
                 plan_->table().tensors[tensor].name, current_);
  }
  settle(tensor, TensorState::kReady, complete);
  return {};
}

Status LoopCore::check_backward(Iteration iteration, std::span<const std::uint32_t> unused) const {
  if (iteration != current_)
    return error(ErrorKind::kBadRequest, "backward of iteration {} ended in iteration {}", iteration, current_);
  std::vector<char> named(tensors_.size(), 0);
  for (const std::uint32_t tensor : unused) {
    if (tensor >= tensors_.size() || named[tensor] != 0 || tensors_[tensor] != TensorState::kAwaited) {
      return error(ErrorKind::kBadRequest,
                   "tensor {} cannot be unused in iteration {}: it does not exist, is named twice, or has a gradient", tensor,
                   iteration);
    }
    named[tensor] = 1;
  }
  for (std::size_t tensor = 0; tensor < tensors_.size(); ++tensor) {
    if (tensors_[tensor] == TensorState::kAwaited && named[tensor] == 0 && !plan_->units().of_tensor[tensor].empty()) {
      return error(ErrorKind::kBadRequest, "tensor {} \"{}\" has neither a gradient nor none in iteration {}", tensor,
                   plan_->table().tensors[tensor].name, iteration);
    }
  }
  return {};
}

Status LoopCore::on_backward_done(Iteration iteration, std::span<const std::uint32_t> unused,
                                  std::vector<std::uint32_t>& complete) {
  PACELINE_RETURN_IF_ERROR(check_backward(iteration, unused));
  for (const std::uint32_t tensor : unused) settle(tensor, TensorState::kUnused, complete);
  return {};
}

void LoopCore::begin_reduce(std::uint32_t unit, TimePoint now, Actions& actions) {
  ++reduces_begun_;
  ++open_operations_;
  reducing_.begin(now);
  actions.push_back({Kind::kReduce, unit});
}

void LoopCore::on_staged(std::span<const std::uint32_t> units, TimePoint now, Actions& actions) {
  for (const std::uint32_t unit : units) units_[unit].staged = true;
  if (!overlaps(options_.loop)) return;
  while (reduces_begun_ < count() && units_[count() - 1 - reduces_begun_].staged)
    begin_reduce(count() - 1 - reduces_begun_, now, actions);
}

void LoopCore::on_free(TimePoint now, Actions& actions) {
  free_ = true;
  ++current_;
  std::fill(tensors_.begin(), tensors_.end(), TensorState::kAwaited);
  for (std::uint32_t unit = 0; unit < count(); ++unit) {
    const scheduling::Unit& planned = plan_->units().units[unit];
    for (Layer layer = planned.layer; layer <= planned.last_layer; ++layer.index)
      ++missing_in_[static_cast<std::size_t>(layer.index)];
    ++missing_;
    units_[unit].complete = false;
  }
  if (!overlaps(options_.loop)) {
    for (std::uint32_t unit = 0; unit < count(); ++unit) begin_reduce(unit, now, actions);
  }
  for (std::uint32_t unit = 0; unit < count(); ++unit) {
    if (units_[unit].reduced) after_sum(unit, actions);
  }
  begin_broadcasts(now, actions);
}

// --- a unit's way through it ---

void LoopCore::on_reduced(std::uint32_t unit, TimePoint now, Actions& actions) {
  --open_operations_;
  reducing_.end(now);
  units_[unit].reduced = true;
  units_[unit].reduced_at = now;
  if (free_) after_sum(unit, actions);
}

// Updates wait for the end of backward; so does looking at sums, which is not worth a second rule.
void LoopCore::after_sum(std::uint32_t unit, Actions& actions) {
  if (updates_here_) actions.push_back({plan_->holds_updates() ? Kind::kInspect : Kind::kUpdate, unit});
}

LoopCore::Inspection LoopCore::on_inspected(Actions& actions) {
  if (++inspected_ < count()) return Inspection::kMore;
  for (std::uint32_t unit = 0; unit < count(); ++unit) actions.push_back({Kind::kUpdate, unit});
  return Inspection::kAll;
}

void LoopCore::on_updated(std::uint32_t unit, TimePoint now, Actions& actions) {
  units_[unit].updated = true;
  units_[unit].updated_at = now;
  if (!broadcasts_ || self_ == broadcast_root()) complete(unit, now);
  begin_broadcasts(now, actions);
}

bool LoopCore::all_updated() const {
  return !starting_ && std::all_of(units_.begin(), units_.end(), [](const Unit& unit) { return unit.updated; });
}

// In forward order, each when this rank's own value (which the others overwrite, so that it must be over with) is there.
void LoopCore::begin_broadcasts(TimePoint now, Actions& actions) {
  if (!broadcasts_ || !free_ || reduces_begun_ < count()) return;
  const bool own_first = starting_ ? self_ == Rank{0} : updates_here_;
  while (broadcasts_begun_ < count() && (!own_first || units_[broadcasts_begun_].updated)) {
    if (starting_ && self_ == Rank{0}) complete(broadcasts_begun_, now);
    ++open_operations_;
    if (!starting_) broadcasting_.begin(now);
    actions.push_back({Kind::kBroadcast, broadcasts_begun_++});
  }
}

void LoopCore::on_broadcast_begins(std::uint32_t unit, TimePoint now) {
  if (units_[unit].broadcast_began_at == TimePoint{}) units_[unit].broadcast_began_at = now;
}

void LoopCore::on_broadcast(std::uint32_t unit, TimePoint now, Actions&) {
  --open_operations_;
  if (!starting_) broadcasting_.end(now);
  if (self_ != broadcast_root()) complete(unit, now);
}

void LoopCore::complete(std::uint32_t unit, TimePoint now) {
  Unit& of = units_[unit];
  of.complete = true;
  of.complete_at = now;
  --missing_;
  const scheduling::Unit& planned = plan_->units().units[unit];
  for (Layer layer = planned.layer; layer <= planned.last_layer; ++layer.index)
    --missing_in_[static_cast<std::size_t>(layer.index)];
}

// --- gates ---

bool LoopCore::layer_open(Layer layer, Iteration iteration) const {
  if (iteration < current_) return true;
  if (iteration > current_) return false;
  return overlaps(options_.loop) ? missing_in_[static_cast<std::size_t>(layer.index)] == 0 : missing_ == 0;
}

TimePoint LoopCore::opened_at(Layer layer) const {
  const scheduling::UnitRange units = units_of(layer);
  TimePoint last{};
  for (std::uint32_t unit = units.begin; unit < units.end; ++unit) last = std::max(last, units_[unit].complete_at);
  return last;
}

std::string LoopCore::describe_missing(std::optional<Layer> layer) const {
  const scheduling::UnitRange units = units_of(layer);
  for (std::uint32_t unit = units.begin; unit < units.end; ++unit) {
    const Unit& of = units_[unit];
    if (of.complete) continue;
    const std::string where = plan_->layer_text(plan_->units().units[unit].layer);
    if (!starting_ && !of.reduced) return fmt::format("the sum of the gradients of {} of iteration {}", where, round_);
    return fmt::format("the weights of {} after iteration {}", where, round_);
  }
  return fmt::format("the operations of iteration {} to end", round_);
}

// --- where the time goes ---

void LoopCore::account_gate(std::optional<Layer> layer, Iteration iteration, TimePoint entered, TimePoint opened) {
  if (iteration - 1 < plan_->options().first || opened <= entered) return;
  const scheduling::UnitRange units = units_of(layer);
  const Unit* last = nullptr;
  for (std::uint32_t unit = units.begin; unit < units.end; ++unit) {
    if (last == nullptr || units_[unit].complete_at > last->complete_at) last = &units_[unit];
  }
  if (last == nullptr) return;
  const TimePoint reduced = std::clamp(last->reduced_at, entered, opened);
  const TimePoint updated = std::clamp(updates_here_ ? last->updated_at : reduced, reduced, opened);
  const TimePoint began = std::clamp(last->broadcast_began_at == TimePoint{} ? updated : last->broadcast_began_at, updated, opened);
  account_.push += reduced - entered;
  account_.update += updated - reduced;
  account_.wait += began - updated;
  account_.pull += broadcasts_ ? opened - began : Duration{};
  account_.update += broadcasts_ ? Duration{} : opened - began;
}

void LoopCore::account_bytes(std::int64_t sent, std::int64_t received) {
  account_.bytes_pushed += sent;
  account_.bytes_pulled += received;
}

Account LoopCore::take_account(TimePoint now) {
  account_.overlapped_push = std::max(Duration{}, reducing_.take(now) - account_.push);
  account_.overlapped_pull = std::max(Duration{}, broadcasting_.take(now) - account_.pull);
  return std::exchange(account_, Account{});
}

void LoopCore::BusyTime::begin(TimePoint now) {
  if (running++ == 0) since = now;
}

void LoopCore::BusyTime::end(TimePoint now) {
  if (--running == 0) total += now - since;
}

Duration LoopCore::BusyTime::take(TimePoint now) {
  if (running > 0) total += now - std::exchange(since, now);
  return std::exchange(total, Duration{});
}

}  // namespace paceline::collectives

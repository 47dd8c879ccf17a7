#include "exchange/gate_ledger.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace paceline::exchange {

GateLedger::GateLedger(std::shared_ptr<const job::Plan> plan, Rank self, Rule rule)
    : plan_(std::move(plan)),
      self_(self),
      rule_(rule),
      current_(plan_->options().first),
      units_(plan_->units().units.size()),
      tensors_(plan_->table().tensors.size()),
      waited_(static_cast<std::size_t>(plan_->layers()), current_),
      missing_in_(static_cast<std::size_t>(plan_->layers())),
      undelivered_(static_cast<std::size_t>(plan_->layers())) {
  PACELINE_CHECK(self.value >= 0 && self.value < plan_->options().workers, "worker {} of {}", self.value, plan_->options().workers);
  for (UnitState& unit : units_) unit.held = current_ - 2;
  begin_iteration();
}

// Of every layer that the unit holds something of; one without elements may lie between two of them.
void GateLedger::count(const scheduling::Unit& unit, std::vector<std::int64_t>& by_layer, std::int64_t change) const {
  for (auto layer = static_cast<std::size_t>(unit.layer.index); layer <= static_cast<std::size_t>(unit.last_layer.index); ++layer) {
    if (!plan_->units().of_layer[layer].empty()) by_layer[layer] += change;
  }
}

// Nothing of `current_` is known, and the values of the iteration before are awaited.
void GateLedger::begin_iteration() {
  settled_ = coming_ = 0;
  for (std::size_t tensor = 0; tensor < tensors_.size(); ++tensor)
    tensors_[tensor] = plan_->table().tensors[tensor].frozen ? TensorState::kFrozen : TensorState::kAwaited;
  for (const scheduling::Unit& unit : plan_->units().units) {
    // The initial value of what is frozen is that of every iteration.
    if (unit.id >= plan_->units().moving && current_ > plan_->options().first) units_[unit.id].held = current_ - 1;
    units_[unit.id].awaited_parts = static_cast<std::uint8_t>(unit.parts);
    units_[unit.id].unused_parts = 0;
    if (units_[unit.id].held >= current_ - 1) continue;
    count(unit, missing_in_, 1);
    ++missing_;
  }
}

void GateLedger::next_iteration() {
  PACELINE_CHECK(missing_ == 0, "iteration {} is over while {} values are on their way", current_, missing_);
  ++current_;
  begin_iteration();
}

// --- gradients ---

void GateLedger::on_worker_done(Rank who, Iteration last) {
  if (!done_ && !plan_->uneven()) done_ = {who, last};
}

Status GateLedger::check_together() const {
  const Iteration told = begun() ? current_ : current_ - 1;  // something of it
  if (!done_ || told <= done_->last) return {};
  return error(
             ErrorKind::kBadRequest,
             "worker {} goes on with iteration {}, but worker {} has ended after iteration {}: workers that go in step do as many "
             "iterations each, so give each as many mini-batches",
             self_.value, told, done_->worker.value, done_->last)
      .because({"ended-early", ""});
}

Status GateLedger::check_gradient(std::uint32_t tensor) const {
  if (tensor >= tensors_.size())
    return error(ErrorKind::kBadRequest, "a gradient came for tensor {}; the model has {}", tensor, tensors_.size());
  const std::string& name = plan_->table().tensors[tensor].name;
  if (tensors_[tensor] == TensorState::kFrozen)
    return error(ErrorKind::kBadRequest, "a gradient came for \"{}\", which is frozen", name).because({"order", "tensor"});
  if (tensors_[tensor] == TensorState::kAwaited || tensors_[tensor] == TensorState::kComing) return {};
  return came_twice(tensor);
}

Status GateLedger::came_twice(std::uint32_t tensor) const {
  return error(ErrorKind::kBadRequest, "the gradient of \"{}\" came twice in iteration {}; one backward per iteration",
               plan_->table().tensors[tensor].name, current_)
      .because({"order", "tensor"});
}

Status GateLedger::begin_gradient(std::uint32_t tensor) {
  PACELINE_RETURN_IF_ERROR(check_gradient(tensor));
  const wire::TensorInfo& info = plan_->table().tensors[tensor];
  if (waited_[static_cast<std::size_t>(info.layer.index)] != current_) {
    return error(ErrorKind::kBadRequest,
                 "the gradient of \"{}\" in iteration {} comes before its values were waited for; call paceline_wait_layer for its "
                 "layer first",
                 info.name, current_)
        .because({"order", "tensor"});
  }
  if (tensors_[tensor] == TensorState::kComing) return came_twice(tensor);
  tensors_[tensor] = TensorState::kComing;
  ++coming_;
  return {};
}

void GateLedger::withdraw_gradient(std::uint32_t tensor) {
  if (tensors_[tensor] != TensorState::kComing) return;  // another thread has ended the iteration meanwhile
  tensors_[tensor] = TensorState::kAwaited;
  --coming_;
}

Status GateLedger::on_gradient(std::uint32_t tensor, std::vector<Complete>& complete) {
  PACELINE_RETURN_IF_ERROR(check_gradient(tensor));
  settle(tensor, TensorState::kReady, complete);
  return {};
}

// Names the tensors on the way, so that one that comes twice is seen in one look at each; all of it is undone.
Status GateLedger::check_unused(Iteration iteration, std::span<const std::uint32_t> unused) {
  Status status;
  std::size_t named = 0;
  for (; named < unused.size() && status.ok(); ++named) {
    const std::uint32_t tensor = unused[named];
    if (tensor >= tensors_.size()) {
      status = error(ErrorKind::kBadRequest, "tensor {} cannot be unused in iteration {}; the model has {}", tensor, iteration,
                     tensors_.size());
    } else if (tensors_[tensor] == TensorState::kFrozen) {
      continue;
    } else if (tensors_[tensor] != TensorState::kAwaited) {
      status = error(ErrorKind::kBadRequest, "tensor {} cannot be unused in iteration {}: \"{}\" {}", tensor, iteration,
                     plan_->table().tensors[tensor].name,
                     tensors_[tensor] == TensorState::kNamed ? "is called so twice" : "has a gradient");
    } else {
      tensors_[tensor] = TensorState::kNamed;
    }
  }
  if (status.ok()) status = check_all_known(iteration);
  for (const std::uint32_t tensor : unused.first(named)) {
    if (tensor < tensors_.size() && tensors_[tensor] == TensorState::kNamed) tensors_[tensor] = TensorState::kAwaited;
  }
  return status;
}

Status GateLedger::check_all_known(Iteration iteration) const {
  for (std::uint32_t tensor = 0; tensor < tensors_.size(); ++tensor) {
    const bool known = tensors_[tensor] != TensorState::kAwaited && tensors_[tensor] != TensorState::kComing;
    if (known || plan_->units().of_tensor[tensor].empty()) continue;
    return error(ErrorKind::kBadRequest,
                 "the backward of iteration {} is over, but tensor {} \"{}\" has neither a gradient nor is it called unused",
                 iteration, tensor, plan_->table().tensors[tensor].name);
  }
  return {};
}

Status GateLedger::check_iteration_of(Iteration iteration) const {
  if (iteration == current_) return {};
  return error(ErrorKind::kBadRequest, "the backward of iteration {} is over in iteration {}", iteration, current_);
}

Status GateLedger::check_backward(Iteration iteration, std::span<const std::uint32_t> unused,
                                  std::span<const std::uint32_t> held_back) {
  PACELINE_RETURN_IF_ERROR(check_iteration_of(iteration));
  Status status;
  std::size_t ready = 0;
  for (; ready < held_back.size(); ++ready) {
    status = check_gradient(held_back[ready]);
    if (!status.ok()) break;
    tensors_[held_back[ready]] = TensorState::kReady;
  }
  if (status.ok()) status = check_unused(iteration, unused);
  for (const std::uint32_t tensor : held_back.first(ready)) tensors_[tensor] = TensorState::kAwaited;
  return status;
}

Status GateLedger::on_backward_done(Iteration iteration, std::span<const std::uint32_t> unused, std::vector<Complete>& complete) {
  PACELINE_RETURN_IF_ERROR(check_iteration_of(iteration));
  if (missing_ > 0)
    return error(ErrorKind::kBadRequest, "the backward of iteration {} is over before {} of its parameters' values have come",
                 iteration, missing_);
  PACELINE_RETURN_IF_ERROR(check_unused(iteration, unused));
  for (const std::uint32_t tensor : unused) {
    if (tensors_[tensor] != TensorState::kFrozen) settle(tensor, TensorState::kUnused, complete);
  }
  return {};
}

void GateLedger::settle(std::uint32_t tensor, TensorState state, std::vector<Complete>& complete) {
  coming_ -= tensors_[tensor] == TensorState::kComing ? 1 : 0;
  tensors_[tensor] = state;
  ++settled_;
  const bool used = state == TensorState::kReady;
  const scheduling::UnitRange units = plan_->units().of_tensor[tensor];
  std::uint32_t first = units.begin;
  const Rank first_server{self_.value % plan_->options().servers};
  while (first < units.end && plan_->units().units[first].server != first_server) ++first;
  if (first == units.end) first = units.begin;
  for (std::uint32_t unit = first; unit < units.end; ++unit) settle_unit(tensor, unit, used, complete);
  for (std::uint32_t unit = units.begin; unit < first; ++unit) settle_unit(tensor, unit, used, complete);
}

void GateLedger::settle_unit(std::uint32_t tensor, std::uint32_t unit, bool used, std::vector<Complete>& complete) {
  const scheduling::Unit& planned = plan_->units().units[unit];
  UnitState& of = units_[unit];
  if (!used) {
    const auto parts = plan_->units().parts_of(planned);
    for (std::uint32_t i = 0; i < planned.parts; ++i) of.unused_parts |= parts[i].tensor == tensor ? 1U << i : 0U;
  }
  if (--of.awaited_parts > 0) return;
  complete.push_back({unit, of.unused_parts});
  if (static_cast<std::uint32_t>(std::popcount(of.unused_parts)) == planned.parts) return;
  ++of.borrowed;
  count(planned, undelivered_, 1);
  ++undelivered_total_;
}

void GateLedger::on_free(std::uint32_t unit) {
  PACELINE_CHECK(unit < units_.size() && units_[unit].borrowed > 0, "the push of unit {} was delivered, but not sent", unit);
  --units_[unit].borrowed;
  count(plan_->units().units[unit], undelivered_, -1);
  --undelivered_total_;
}

bool GateLedger::free_of(std::uint32_t tensor) const {
  const scheduling::UnitRange units = plan_->units().of_tensor[tensor];
  const auto is_free = [](const UnitState& unit) { return unit.borrowed == 0; };
  return std::all_of(units_.begin() + units.begin, units_.begin() + units.end, is_free);
}

std::optional<std::uint32_t> GateLedger::undelivered() const {
  const auto found = std::ranges::find_if(units_, [](const UnitState& unit) { return unit.borrowed > 0; });
  if (found == units_.end()) return std::nullopt;
  return static_cast<std::uint32_t>(found - units_.begin());
}

// --- gates ---

void GateLedger::on_value(std::uint32_t unit) {
  UnitState& of = units_[unit];
  PACELINE_CHECK(of.held < current_, "unit {} has the value of iteration {} already", unit, current_);
  if (++of.held != current_ - 1) return;
  count(plan_->units().units[unit], missing_in_, -1);
  --missing_;
}

void GateLedger::on_waited(std::optional<Layer> layer) {
  if (layer) {
    waited_[static_cast<std::size_t>(layer->index)] = current_;
  } else {
    std::ranges::fill(waited_, current_);
  }
}

bool GateLedger::open(Layer layer, Iteration iteration) const {
  if (iteration != current_) return iteration < current_;
  return rule_ == Rule::kEverything ? missing_ == 0 : missing_in_[static_cast<std::size_t>(layer.index)] == 0;
}

scheduling::UnitRange GateLedger::awaited(std::optional<Layer> layer) const {
  if (!layer || rule_ == Rule::kEverything) return {0, static_cast<std::uint32_t>(units_.size())};
  return plan_->units().of_layer[static_cast<std::size_t>(layer->index)];
}

std::optional<std::uint32_t> GateLedger::missing(std::optional<Layer> layer) const {
  const scheduling::UnitRange units = awaited(layer);
  for (std::uint32_t unit = units.begin; unit < units.end; ++unit) {
    if (units_[unit].held < current_ - 1) return unit;
  }
  return std::nullopt;
}

}  // namespace paceline::exchange

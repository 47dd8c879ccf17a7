// What comes back to WorkerCore, and the gates that wait for it.
#include <algorithm>
#include <utility>

#include "paramserver/core/worker_core.h"

namespace paceline::paramserver {

Status WorkerCore::check_value(Rank server, std::uint32_t unit) const {
  if (unit >= units_.size())
    return error(ErrorKind::kBadRequest, "server {} sent a value of unit {}; the job has {} units", server.value, unit,
                 units_.size());
  const Rank home = plan_->units().units[unit].server;
  if (home == server) return {};
  return error(ErrorKind::kBadRequest, "server {} sent a value of unit {}, which lives on server {}", server.value, unit,
               home.value);
}

std::span<const std::uint32_t> WorkerCore::units_between(std::uint32_t unit, std::uint32_t last) const {
  const scheduling::UnitPlan& plan = plan_->units();
  const std::size_t first = plan.place_in_server[unit];
  return std::span(plan.of_server[static_cast<std::size_t>(plan.units[unit].server.value)])
      .subspan(first, plan.place_in_server[last] - first + 1);
}

std::span<const std::uint32_t> WorkerCore::units_of(const Values& values) const { return units_between(values.unit, values.last); }

Status WorkerCore::check_values(Rank server, const Values& values) const {
  PACELINE_RETURN_IF_ERROR(check_value(server, values.unit));
  PACELINE_RETURN_IF_ERROR(check_value(server, values.last));
  if (values.unit <= values.last) return {};
  return error(ErrorKind::kBadRequest, "server {} sent the values of units {} to {}", server.value, values.unit, values.last);
}

Result<WorkerCore::Place> WorkerCore::on_value_begin(Rank server, const Values& values, std::uint64_t bytes, TimePoint now) {
  PACELINE_RETURN_IF_ERROR(check_values(server, values));
  const Iteration initial = plan_->options().first - 1;
  const auto units = units_of(values);
  std::uint64_t expected = 0;
  for (const std::uint32_t unit : units) {
    const UnitState& of = units_[unit];
    expected += plan_->payload_bytes(unit);
    const bool awaited = values.label == initial ? worker_ != Rank{0} && of.arrived < values.label
                                                 : of.pushed == values.label && of.arrived < values.label;
    if (awaited && of.arriving < 0) continue;
    return error(ErrorKind::kBadRequest,
                 "server {} sent the value of unit {} in {} for iteration {}, which worker {} does not await", server.value, unit,
                 plan_->layer_text(plan_->units().units[unit].layer), values.label, worker_.value);
  }
  if (bytes != expected) {
    return error(ErrorKind::kBadRequest, "server {} sent {} bytes as a value of unit {} in {}; it has {}", server.value, bytes,
                 values.unit, plan_->layer_text(plan_->units().units[values.unit].layer), expected);
  }
  for (const std::uint32_t unit : units) {
    units_[unit].arriving = values.label;
    units_[unit].staging = values.label >= current_;
    units_[unit].value_began = now;
    if (values.label != initial) pulling_.begin(now);
  }
  return values.label >= current_ ? Place::kStaging : Place::kParameters;
}

Status WorkerCore::on_value(Rank server, const Values& values, std::uint32_t micros, TimePoint now,
                            std::vector<WorkerAction>& actions) {
  PACELINE_RETURN_IF_ERROR(check_values(server, values));
  const auto units = units_of(values);
  for (const std::uint32_t unit : units) {
    if (units_[unit].arriving >= 0 && units_[unit].arriving == values.label) continue;
    return error(ErrorKind::kBadRequest, "server {} sent an empty value of unit {} in {} for iteration {}", server.value, unit,
                 plan_->layer_text(plan_->units().units[unit].layer), values.label);
  }
  for (const std::uint32_t unit : units) {
    UnitState& of = units_[unit];
    of.arriving = -1;
    of.staged = of.staging;
    of.micros = micros;
    of.value_complete = now;
    if (values.label != plan_->options().first - 1) {
      pulling_.end(now);
      account_.bytes_pulled += static_cast<std::int64_t>(plan_->payload_bytes(unit));
    }
    arrived(unit, values.label);
  }
  if (plan_->options().schedule.push != scheduling::PushWhen::kAtEnd) flush(now, actions);
  return {};
}

Status WorkerCore::on_notify(Rank server, std::uint32_t unit, Iteration label, std::vector<WorkerAction>& actions) {
  PACELINE_RETURN_IF_ERROR(check_value(server, unit));
  UnitState& of = units_[unit];
  if (plan_->options().schedule.back != scheduling::Return::kNotifyAndPull || of.pushed != label || of.notified >= label) {
    return error(ErrorKind::kBadRequest,
                 "server {} said that unit {} in {} is updated for iteration {}, which worker {} does not await", server.value,
                 unit, plan_->layer_text(plan_->units().units[unit].layer), label, worker_.value);
  }
  of.notified = label;
  const auto layer = static_cast<std::size_t>(plan_->units().units[unit].layer.index);
  if (--to_notify_[layer] > 0) return {};
  const scheduling::UnitRange units = begun_in(layer);
  to_notify_[layer] = units.size();
  for (std::uint32_t asked = units.begin; asked < units.end; ++asked)
    actions.push_back({WorkerAction::Kind::kPull, asked, label, asked});
  return {};
}

std::optional<std::uint32_t> WorkerCore::take_staged(scheduling::UnitRange units) {
  for (std::uint32_t unit = units.begin; unit < units.end; ++unit) {
    if (std::exchange(units_[unit].staged, false)) return unit;
  }
  return std::nullopt;
}

// --- gates ---

bool WorkerCore::layer_open(Layer layer, Iteration iteration) const {
  if (iteration < current_) return true;
  if (iteration > current_) return false;
  if (plan_->options().schedule.back == scheduling::Return::kPullAtOnce) return missing_ == 0;
  return missing_in_[static_cast<std::size_t>(layer.index)] == 0;
}

bool WorkerCore::any_open(const Values& values) const {
  const auto& units = plan_->units().units;
  for (Layer layer = units[values.unit].layer; layer <= units[values.last].last_layer; ++layer.index) {
    if (layer_open(layer, current_)) return true;
  }
  return false;
}

scheduling::UnitRange WorkerCore::units_of(std::optional<Layer> layer) const {
  const bool all = !layer || plan_->options().schedule.back == scheduling::Return::kPullAtOnce;
  return all ? scheduling::UnitRange{0, static_cast<std::uint32_t>(units_.size())}
             : plan_->units().of_layer[static_cast<std::size_t>(layer->index)];
}

std::optional<std::uint32_t> WorkerCore::missing_unit(scheduling::UnitRange units) const {
  for (std::uint32_t unit = units.begin; unit < units.end; ++unit) {
    if (units_[unit].arrived < current_ - 1) return unit;
  }
  return std::nullopt;
}

std::optional<std::uint32_t> WorkerCore::undelivered_unit() const {
  for (std::uint32_t unit = 0; unit < units_.size(); ++unit) {
    if (units_[unit].borrowed) return unit;
  }
  return std::nullopt;
}

TimePoint WorkerCore::opened_at(Layer layer) const {
  const scheduling::UnitRange units = units_of(layer);
  TimePoint last{};
  for (std::uint32_t unit = units.begin; unit < units.end; ++unit) last = std::max(last, units_[unit].value_complete);
  return last;
}

void WorkerCore::account_gate(std::optional<Layer> layer, Iteration iteration, TimePoint entered, TimePoint opened) {
  const Iteration label = iteration - 1;
  if (label < plan_->options().first || opened <= entered) return;
  const scheduling::UnitRange units = units_of(layer);
  const UnitState* last = nullptr;
  for (std::uint32_t unit = units.begin; unit < units.end; ++unit) {
    if (last == nullptr || units_[unit].value_complete > last->value_complete) last = &units_[unit];
  }
  if (last == nullptr) return;
  // An acknowledgement that is later than the value says no more than that the push had been received.
  const TimePoint received = last->borrowed ? last->value_began : last->push_delivered;
  const TimePoint push_end = std::clamp(received, entered, opened);
  const TimePoint pull_begin = std::clamp(last->value_began, push_end, opened);
  const Duration updating = std::min<Duration>(pull_begin - push_end, std::chrono::microseconds(last->micros));
  account_.push += push_end - entered;
  account_.update += updating;
  account_.wait += pull_begin - push_end - updating;
  account_.pull += opened - pull_begin;
}

Account WorkerCore::take_account(TimePoint now) {
  account_.overlapped_push = std::max(Duration{}, pushing_.take(now) - account_.push);
  account_.overlapped_pull = std::max(Duration{}, pulling_.take(now) - account_.pull);
  return std::exchange(account_, Account{});
}

}  // namespace paceline::paramserver

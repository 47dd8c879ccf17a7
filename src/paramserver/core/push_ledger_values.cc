// What comes back to a worker.
#include <algorithm>
#include <utility>

#include "paramserver/core/push_ledger.h"

namespace paceline::paramserver {

using wire::Happening;

Status PushLedger::check_value(Rank server, std::uint32_t unit) const {
  if (unit >= units_.size())
    return error(ErrorKind::kBadRequest, "server {} sent a value of unit {}; the job has {} units", server.value, unit,
                 units_.size());
  const Rank home = plan_.units().units[unit].server;
  if (home == server) return {};
  return error(ErrorKind::kBadRequest, "server {} sent a value of unit {}, which lives on server {}", server.value, unit,
               home.value);
}

std::span<const std::uint32_t> PushLedger::units_of(const wire::Values& values) const {
  return plan_.units().between(values.unit, values.last);
}

Status PushLedger::check_values(Rank server, const wire::Values& values) const {
  PACELINE_RETURN_IF_ERROR(check_value(server, values.unit));
  PACELINE_RETURN_IF_ERROR(check_value(server, values.last));
  if (values.valid()) return {};
  return error(ErrorKind::kBadRequest, "server {} sent the values of units {} to {}", server.value, values.unit, values.last);
}

Result<PushLedger::Place> PushLedger::on_begin(Rank server, const wire::Values& values, std::uint64_t bytes, TimePoint now) {
  PACELINE_RETURN_IF_ERROR(check_values(server, values));
  const Iteration initial = plan_.options().first - 1;
  const auto units = units_of(values);
  std::uint64_t expected = 0;
  for (const std::uint32_t unit : units) {
    const UnitState& of = units_[unit];
    expected += plan_.value_bytes(unit, values.iteration);
    const bool asked = values.iteration == initial ? worker_ != Rank{0} : of.pushed == values.iteration;  // never of a frozen one
    const bool awaited = asked && gates_.held(unit) < values.iteration;
    if (awaited && of.arriving < 0) continue;
    return error(ErrorKind::kBadRequest,
                 "server {} sent the value of unit {} in {} for iteration {}, which worker {} does not await", server.value, unit,
                 plan_.layer_text(plan_.units().units[unit].layer), values.iteration, worker_.value);
  }
  if (bytes != expected) {
    return error(ErrorKind::kBadRequest, "server {} sent {} bytes as a value of unit {} in {}; it has {}", server.value, bytes,
                 values.unit, plan_.layer_text(plan_.units().units[values.unit].layer), expected);
  }
  const bool staging = values.iteration >= gates_.current();
  for (const std::uint32_t unit : units) {
    units_[unit].arriving = values.iteration;
    units_[unit].staging = staging;
    for (const Happening what : {Happening::kPulling, Happening::kReturning})
      tell(now, {.what = what, .peer = server.value, .unit = unit, .iteration = values.iteration});
  }
  return staging ? Place::kStaging : Place::kParameters;
}

Status PushLedger::on_values(Rank server, const wire::Values& values, std::uint32_t micros, TimePoint now,
                             std::vector<Send>& sends) {
  PACELINE_RETURN_IF_ERROR(check_values(server, values));
  const auto units = units_of(values);
  for (const std::uint32_t unit : units) {
    if (units_[unit].arriving >= 0 && units_[unit].arriving == values.iteration) continue;
    return error(ErrorKind::kBadRequest, "server {} sent an empty value of unit {} in {} for iteration {}", server.value, unit,
                 plan_.layer_text(plan_.units().units[unit].layer), values.iteration);
  }
  for (const std::uint32_t unit : units) {
    UnitState& of = units_[unit];
    of.arriving = -1;
    of.staged = of.staging;
    tell(now, {.what = Happening::kPulled,
               .peer = server.value,
               .unit = unit,
               .iteration = values.iteration,
               .bytes = static_cast<std::int64_t>(plan_.value_bytes(unit, values.iteration))});
    tell(now, {.what = Happening::kComplete, .unit = unit, .detail = micros, .iteration = values.iteration});
    gates_.on_value(unit);
  }
  if (plan_.options().schedule.push != scheduling::PushWhen::kAtEnd) flush(now, sends);
  return {};
}

Status PushLedger::on(Rank server, const wire::Notify& notify, TimePoint, std::vector<Send>& sends) {
  const auto [unit, label] = notify;
  PACELINE_RETURN_IF_ERROR(check_value(server, unit));
  UnitState& of = units_[unit];
  if (plan_.options().schedule.back != scheduling::Return::kNotifyAndPull || of.pushed != label || of.notified) {
    return error(ErrorKind::kBadRequest,
                 "server {} said that unit {} in {} is updated for iteration {}, which worker {} does not await", server.value,
                 unit, plan_.layer_text(plan_.units().units[unit].layer), label, worker_.value);
  }
  of.notified = true;
  const auto layer = static_cast<std::size_t>(plan_.units().units[unit].layer.index);
  if (--to_notify_[layer] > 0) return {};
  const scheduling::UnitRange units = begun_in(layer);
  to_notify_[layer] = units.size();
  for (std::uint32_t asked = units.begin; asked < units.end; ++asked)
    sends.push_back(to_home(asked, wire::Pull{asked, asked, label}));
  return {};
}

std::optional<std::uint32_t> PushLedger::take_staged(scheduling::UnitRange units) {
  for (std::uint32_t unit = units.begin; unit < units.end; ++unit) {
    if (std::exchange(units_[unit].staged, false)) return unit;
  }
  return std::nullopt;
}

bool PushLedger::any_open(const wire::Values& values) const {
  const auto& units = plan_.units().units;
  for (Layer layer = units[values.unit].layer; layer <= units[values.last].last_layer; ++layer.index) {
    if (gates_.open(layer, gates_.current())) return true;
  }
  return false;
}

}  // namespace paceline::paramserver

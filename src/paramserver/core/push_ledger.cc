#include "paramserver/core/push_ledger.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace paceline::paramserver {

using wire::Happening;

PushLedger::PushLedger(exchange::GateLedger& gates, Rank worker, wire::EventSink* events)
    : gates_(gates), events_(events), plan_(gates.plan()), worker_(worker), current_(plan_.options().first) {
  const auto layers = static_cast<std::size_t>(plan_.layers());
  units_.resize(plan_.units().units.size());
  waiting_.reserve(units_.size());
  to_push_.resize(layers);
  for (std::size_t layer = 0; layer < layers; ++layer) to_notify_.push_back(begun_in(layer).size());
  scheduling::Bounds every_layer(layers);
  std::iota(every_layer.begin(), every_layer.end(), 1);
  const scheduling::Return back = plan_.options().schedule.back;
  if (back == scheduling::Return::kPullByLayer || back == scheduling::Return::kPullInBatches) set_batches(every_layer);
  if (back == scheduling::Return::kPullAtOnce) set_batches({static_cast<int>(layers)});
  if (plan_.options().schedule.push == scheduling::PushWhen::kInBatches) set_push_batches(every_layer);
  begin_iteration();
}

// Of `current_`: nothing is pushed yet.
void PushLedger::begin_iteration() {
  settled_ = 0;
  for (std::size_t layer = 0; layer < to_push_.size(); ++layer) to_push_[layer] = begun_in(layer).size();
  begin_batches();
}

void PushLedger::begin_batches() {
  for (PullBatch& batch : pull_batches_) batch.awaited = batch.layers;
  for (PushBatch& batch : push_batches_) {
    batch.awaited = 0;
    for (const auto& units : batch.of_server) batch.awaited += units.size();
  }
}

scheduling::UnitRange PushLedger::begun_in(std::size_t layer) const {
  const scheduling::UnitRange units = plan_.units().begun_in(Layer{static_cast<std::int32_t>(layer)});
  return units.begin < plan_.units().moving ? units : scheduling::UnitRange();  // a layer moves as a whole
}

void PushLedger::on_initial_received(std::uint32_t unit) {
  const Iteration initial = plan_.options().first - 1;
  PACELINE_CHECK(unit < units_.size() && gates_.held(unit) < initial, "unit {} has an initial value already", unit);
  gates_.on_value(unit);
}

void PushLedger::tell(TimePoint now, const wire::Event& event) const {
  if (events_ != nullptr) events_->on_event(wire::at(now, event));
}

// --- gradients ---

void PushLedger::on_complete(std::span<const exchange::GateLedger::Complete> units, TimePoint now, std::vector<Send>& sends) {
  waiting_.insert(waiting_.end(), units.begin(), units.end());
  if (plan_.options().schedule.push != scheduling::PushWhen::kAtEnd) flush(now, sends);
}

void PushLedger::on_backward_done(TimePoint now, std::vector<Send>& sends) {
  flush(now, sends);
  PACELINE_CHECK(waiting_.empty(), "backward of iteration {} was over before its forward", current_);
  ask_if_delivered(sends);
  ++current_;
  begin_iteration();
}

void PushLedger::on_finished() {
  PACELINE_CHECK(held_.empty(), "finished while {} requests of iteration {} wait for pushes", held_.size(), current_ - 1);
  for (UnitState& unit : units_) {
    unit.pushed = current_;
    unit.notified = false;
  }
  ++current_;
  begin_iteration();
}

// Pushes what is waiting, unless values of the iteration before have not come.
void PushLedger::flush(TimePoint now, std::vector<Send>& sends) {
  if (!gates_.all_open(current_)) return;
  for (const exchange::GateLedger::Complete& complete : waiting_) settle(complete, now, sends);
  waiting_.clear();
}

void PushLedger::settle(const exchange::GateLedger::Complete& complete, TimePoint now, std::vector<Send>& sends) {
  ++settled_;
  units_[complete.unit].unused_parts = complete.unused_parts;
  if (plan_.options().schedule.push != scheduling::PushWhen::kInBatches) return push(complete.unit, now, sends);
  const std::size_t batch = batch_of_unit_[complete.unit];
  if (--push_batches_[batch].awaited == 0) push_batch(batch, now, sends);
}

void PushLedger::push(std::uint32_t unit, TimePoint now, std::vector<Send>& sends) {
  sends.push_back(to_home(unit, wire::Push{unit, units_[unit].unused_parts, current_}));
  units_[unit].push_last = unit;
  begin_push(unit, now);
  count_pushed(unit, sends);
}

// The last unit of a layer lets the layer be asked for, the last layer of a batch the batch.
void PushLedger::count_pushed(std::uint32_t unit, std::vector<Send>& sends) {
  const auto layer = static_cast<std::size_t>(plan_.units().units[unit].layer.index);
  if (--to_push_[layer] > 0 || pull_batches_.empty()) return;
  PullBatch& batch = pull_batches_[batch_of_layer_[layer]];
  if (--batch.awaited > 0) return;
  for (wire::Pull request : batch.requests) {
    request.iteration = current_;
    if (asks_after_pushes())
      held_.push_back(request);
    else
      sends.push_back(to_home(request.unit, request));
  }
}

// One request for everything is answered after all pushes anyway.
bool PushLedger::asks_after_pushes() const {
  const scheduling::ScheduleOptions& schedule = plan_.options().schedule;
  return schedule.push == scheduling::PushWhen::kAtEnd && schedule.back != scheduling::Return::kPullAtOnce;
}

// In forward order, in which the values are needed.
void PushLedger::ask_if_delivered(std::vector<Send>& sends) {
  if (!gates_.free()) return;
  std::ranges::sort(held_, {}, &wire::Pull::unit);
  for (const wire::Pull& request : held_) sends.push_back(to_home(request.unit, request));
  held_.clear();
}

// To each server what stands behind each other there as one message, beginning with "its" server (gate_ledger.h). A unit of which
// parts are not used goes by itself, for only a message of its own can say so.
void PushLedger::push_batch(std::size_t batch, TimePoint now, std::vector<Send>& sends) {
  const auto& of_server = push_batches_[batch].of_server;
  for (std::size_t i = 0; i < of_server.size(); ++i) {
    const std::span<const std::uint32_t> units = of_server[(static_cast<std::size_t>(worker_.value) + i) % of_server.size()];
    for (std::size_t begin = 0; begin < units.size();) {
      std::size_t end = begin;
      while (end < units.size() && units_[units[end]].unused_parts == 0) ++end;
      end = std::max(end, begin + 1);
      push_run(units.subspan(begin, end - begin), now, sends);
      begin = end;
    }
  }
}

void PushLedger::push_run(std::span<const std::uint32_t> units, TimePoint now, std::vector<Send>& sends) {
  if (units.size() == 1) return push(units.front(), now, sends);
  sends.push_back(to_home(units.front(), wire::Pushes{units.front(), units.back(), current_}));
  units_[units.front()].push_last = units.back();
  for (const std::uint32_t unit : units) begin_push(unit, now);
  for (const std::uint32_t unit : units) count_pushed(unit, sends);
}

void PushLedger::begin_push(std::uint32_t unit, TimePoint now) {
  UnitState& of = units_[unit];
  of.pushed = current_;
  of.notified = false;
  const bool empty = of.unused_parts == scheduling::all_parts(plan_.units().units[unit]);
  const std::size_t bytes = empty || plan_.gradient_codec().packs() ? 0 : plan_.payload_bytes(unit);
  tell(now, {.what = Happening::kPushing, .unit = unit, .iteration = current_, .bytes = static_cast<std::int64_t>(bytes)});
  if (empty) tell(now, {.what = Happening::kPushed, .unit = unit, .iteration = current_});
}

void PushLedger::check_batches_may_change() const {
  PACELINE_CHECK(waiting_.empty() && settled_ == 0, "batches change in the middle of iteration {}", current_);
}

void PushLedger::set_batches(const scheduling::Bounds& bounds) {
  check_batches_may_change();
  pull_batches_.clear();
  batch_of_layer_.assign(to_push_.size(), 0);
  std::vector<std::optional<wire::Pull>> of_server(static_cast<std::size_t>(plan_.options().servers));
  std::size_t layer = 0;
  for (const int bound : bounds) {
    std::ranges::fill(of_server, std::nullopt);
    PullBatch& batch = pull_batches_.emplace_back();
    for (; layer < static_cast<std::size_t>(bound); ++layer) {
      const scheduling::UnitRange units = begun_in(layer);
      batch_of_layer_[layer] = pull_batches_.size() - 1;
      if (!units.empty()) ++batch.layers;
      for (std::uint32_t unit = units.begin; unit < units.end; ++unit) {
        auto& asked = of_server[static_cast<std::size_t>(plan_.units().units[unit].server.value)];
        if (!asked) asked = wire::Pull{.unit = unit};
        asked->last = unit;
      }
    }
    for (const auto& asked : of_server) {
      if (asked) batch.requests.push_back(*asked);
    }
  }
  PACELINE_CHECK(layer == to_push_.size(), "batches of {} layers for a model of {}", layer, to_push_.size());
  begin_batches();
}

void PushLedger::set_push_batches(const scheduling::Bounds& bounds) {
  check_batches_may_change();
  push_batches_.clear();
  batch_of_unit_.assign(units_.size(), 0);
  std::size_t layer = 0;
  for (const int bound : bounds) {
    PushBatch& batch = push_batches_.emplace_back();
    batch.of_server.resize(static_cast<std::size_t>(plan_.options().servers));
    for (; layer < static_cast<std::size_t>(bound); ++layer) {
      const scheduling::UnitRange units = begun_in(layer);
      for (std::uint32_t unit = units.begin; unit < units.end; ++unit) {
        batch.of_server[static_cast<std::size_t>(plan_.units().units[unit].server.value)].push_back(unit);
        batch_of_unit_[unit] = push_batches_.size() - 1;
      }
    }
  }
  PACELINE_CHECK(layer == to_push_.size(), "batches of {} layers for a model of {}", layer, to_push_.size());
  begin_batches();
}

std::span<const std::uint32_t> PushLedger::on_push_delivered(std::uint32_t unit, TimePoint now, std::vector<Send>& sends) {
  PACELINE_CHECK(unit < units_.size() && units_[unit].pushed >= 0, "the push of unit {} was delivered, but not sent", unit);
  const auto units = plan_.units().between(unit, units_[unit].push_last);
  for (const std::uint32_t delivered : units) {
    gates_.on_free(delivered);
    tell(now, {.what = Happening::kPushed, .unit = delivered, .iteration = units_[delivered].pushed});
  }
  ask_if_delivered(sends);
  return units;
}

}  // namespace paceline::paramserver

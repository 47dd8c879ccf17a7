#include "paramserver/core/worker_core.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace paceline::paramserver {
namespace {

// Of every layer that the unit holds something of.
void count_in_layers(const scheduling::Unit& unit, std::vector<std::int64_t>& by_layer, std::int64_t change) {
  for (auto layer = unit.layer.index; layer <= unit.last_layer.index; ++layer) by_layer[static_cast<std::size_t>(layer)] += change;
}

}  // namespace

Account& Account::operator+=(const Account& other) {
  push += other.push;
  pull += other.pull;
  wait += other.wait;
  update += other.update;
  overlapped_push += other.overlapped_push;
  overlapped_pull += other.overlapped_pull;
  bytes_pushed += other.bytes_pushed;
  bytes_pulled += other.bytes_pulled;
  return *this;
}

void WorkerCore::BusyTime::begin(TimePoint now) {
  if (running++ == 0) since = now;
}

void WorkerCore::BusyTime::end(TimePoint now) {
  if (--running == 0) total += now - since;
}

Duration WorkerCore::BusyTime::take(TimePoint now) {
  if (running > 0) total += now - std::exchange(since, now);
  return std::exchange(total, Duration{});
}

WorkerCore::WorkerCore(std::shared_ptr<const JobPlan> plan, Rank worker)
    : plan_(std::move(plan)), worker_(worker), current_(plan_->options().first) {
  PACELINE_CHECK(worker.value >= 0 && worker.value < plan_->options().workers, "worker {} of {}", worker.value,
                 plan_->options().workers);
  const auto layers = static_cast<std::size_t>(plan_->layers());
  units_.resize(plan_->units().units.size());
  tensors_.resize(plan_->table().tensors.size());
  waiting_.reserve(tensors_.size());
  to_push_.resize(layers);
  for (std::size_t layer = 0; layer < layers; ++layer) to_notify_.push_back(begun_in(layer).size());
  missing_in_.resize(layers);
  undelivered_.assign(layers, 0);
  scheduling::Bounds every_layer(layers);
  std::iota(every_layer.begin(), every_layer.end(), 1);
  const scheduling::Return back = plan_->options().schedule.back;
  if (back == scheduling::Return::kPullByLayer || back == scheduling::Return::kPullInBatches) set_batches(every_layer);
  if (back == scheduling::Return::kPullAtOnce) set_batches({static_cast<int>(layers)});
  if (plan_->options().schedule.push == scheduling::PushWhen::kInBatches) set_push_batches(every_layer);
  begin_iteration();
}

// Of `current_`: nothing is pushed yet, and the values labelled current_ - 1 are awaited.
void WorkerCore::begin_iteration() {
  std::ranges::fill(tensors_, TensorState::kAwaited);
  std::ranges::fill(missing_in_, 0);
  missing_ = 0;
  for (std::size_t layer = 0; layer < to_push_.size(); ++layer) to_push_[layer] = begun_in(layer).size();
  for (const scheduling::Unit& unit : plan_->units().units) {
    units_[unit.id].awaited_parts = unit.parts;
    units_[unit.id].unused_parts = 0;
    if (units_[unit.id].arrived >= current_ - 1) continue;
    count_in_layers(unit, missing_in_, 1);
    ++missing_;
  }
  begin_batches();
}

void WorkerCore::begin_batches() {
  for (PullBatch& batch : pull_batches_) batch.awaited = batch.layers;
  for (PushBatch& batch : push_batches_) {
    batch.awaited = 0;
    for (const auto& units : batch.of_server) batch.awaited += units.size();
  }
}

scheduling::UnitRange WorkerCore::begun_in(std::size_t layer) const {
  return plan_->units().begun_in(Layer{static_cast<std::int32_t>(layer)});
}

void WorkerCore::arrived(std::uint32_t unit, Iteration label) {
  const Iteration before = std::exchange(units_[unit].arrived, label);
  if (before >= current_ - 1 || label < current_ - 1) return;
  count_in_layers(plan_->units().units[unit], missing_in_, -1);
  --missing_;
}

void WorkerCore::on_initial_received(std::uint32_t unit) {
  PACELINE_CHECK(unit < units_.size() && units_[unit].arrived < 0, "unit {} has an initial value already", unit);
  arrived(unit, plan_->options().first - 1);
}

// --- gradients ---

Status WorkerCore::on_gradient_ready(std::uint32_t tensor, TimePoint now, std::vector<WorkerAction>& actions) {
  if (tensor >= tensors_.size())
    return error(ErrorKind::kBadRequest, "a gradient came for tensor {}; the model has {}", tensor, tensors_.size());
  if (tensors_[tensor] != TensorState::kAwaited) {
    return error(ErrorKind::kBadRequest, "the gradient of \"{}\" came twice in iteration {}; one backward per iteration",
                 plan_->table().tensors[tensor].name, current_);
  }
  tensors_[tensor] = TensorState::kReady;
  waiting_.push_back(tensor);
  if (plan_->options().schedule.push != scheduling::PushWhen::kAtEnd) flush(now, actions);
  return {};
}

Status WorkerCore::check_backward(Iteration iteration, std::span<const std::uint32_t> unused) const {
  if (iteration != current_)
    return error(ErrorKind::kBadRequest, "the backward of iteration {} is over in iteration {}", iteration, current_);
  if (missing_ > 0)
    return error(ErrorKind::kBadRequest, "the backward of iteration {} is over before {} of its parameters' values have come",
                 iteration, missing_);
  const auto& tensors = plan_->table().tensors;
  for (std::size_t i = 0; i < unused.size(); ++i) {
    if (unused[i] >= tensors.size())
      return error(ErrorKind::kBadRequest, "tensor {} is called unused; the model has {}", unused[i], tensors.size());
    const bool twice = std::ranges::find(unused.first(i), unused[i]) != unused.begin() + static_cast<std::ptrdiff_t>(i);
    if (twice || tensors_[unused[i]] != TensorState::kAwaited) {
      return error(ErrorKind::kBadRequest, "\"{}\" is called unused in iteration {} and {}", tensors[unused[i]].name, iteration,
                   twice ? "called so twice" : "has a gradient");
    }
  }
  std::size_t known = unused.size() + static_cast<std::size_t>(std::ranges::count(tensors_, TensorState::kReady));
  if (known == tensors.size()) return {};
  for (std::uint32_t tensor = 0; tensor < tensors.size(); ++tensor) {
    if (tensors_[tensor] != TensorState::kAwaited || plan_->units().of_tensor[tensor].empty() ||
        std::ranges::find(unused, tensor) != unused.end())
      continue;
    return error(ErrorKind::kBadRequest,
                 "the backward of iteration {} is over, but \"{}\" has neither a gradient nor is it called unused", iteration,
                 tensors[tensor].name);
  }
  return {};
}

Status WorkerCore::on_backward_done(Iteration iteration, std::span<const std::uint32_t> unused, TimePoint now,
                                    std::vector<WorkerAction>& actions) {
  PACELINE_RETURN_IF_ERROR(check_backward(iteration, unused));
  for (const std::uint32_t tensor : unused) {
    tensors_[tensor] = TensorState::kUnused;
    waiting_.push_back(tensor);
  }
  flush(now, actions);
  ++current_;
  begin_iteration();
  return {};
}

void WorkerCore::on_finished() {
  PACELINE_CHECK(missing_ == 0, "worker {} finished while {} values were on their way", worker_.value, missing_);
  for (UnitState& unit : units_) unit.pushed = current_;
  ++current_;
  begin_iteration();
}

// Pushes what is waiting, unless values of the iteration before have not come.
void WorkerCore::flush(TimePoint now, std::vector<WorkerAction>& actions) {
  if (missing_ > 0) return;
  for (const std::uint32_t tensor : waiting_) {
    // Begins with the parts on "its" server, so that not all workers push to the same one at once (P3, section 4).
    const scheduling::UnitRange units = plan_->units().of_tensor[tensor];
    std::uint32_t first = units.begin;
    const Rank own{worker_.value % plan_->options().servers};
    while (first < units.end && plan_->units().units[first].server != own) ++first;
    if (first == units.end) first = units.begin;
    for (std::uint32_t unit = first; unit < units.end; ++unit) settle(tensor, unit, now, actions);
    for (std::uint32_t unit = units.begin; unit < first; ++unit) settle(tensor, unit, now, actions);
  }
  waiting_.clear();
}

// What becomes of `tensor` in this iteration is known, so one part of `unit` is; the last one lets it go.
void WorkerCore::settle(std::uint32_t tensor, std::uint32_t unit, TimePoint now, std::vector<WorkerAction>& actions) {
  const scheduling::Unit& planned = plan_->units().units[unit];
  if (tensors_[tensor] == TensorState::kUnused) {
    const auto parts = plan_->units().parts_of(planned);
    for (std::uint32_t i = 0; i < planned.parts; ++i) units_[unit].unused_parts |= parts[i].tensor == tensor ? 1U << i : 0U;
  }
  if (--units_[unit].awaited_parts > 0) return;
  if (plan_->options().schedule.push != scheduling::PushWhen::kInBatches) return push(unit, now, actions);
  const std::size_t batch = batch_of_unit_[unit];
  if (--push_batches_[batch].awaited == 0) push_batch(batch, now, actions);
}

void WorkerCore::push(std::uint32_t unit, TimePoint now, std::vector<WorkerAction>& actions) {
  actions.push_back({WorkerAction::Kind::kPush, unit, current_, units_[unit].unused_parts});
  units_[unit].push_last = unit;
  begin_push(unit, now);
  count_pushed(unit, actions);
}

// The last unit of a layer lets the layer be asked for, the last layer of a batch the batch.
void WorkerCore::count_pushed(std::uint32_t unit, std::vector<WorkerAction>& actions) {
  const auto layer = static_cast<std::size_t>(plan_->units().units[unit].layer.index);
  if (--to_push_[layer] > 0 || pull_batches_.empty()) return;
  PullBatch& batch = pull_batches_[batch_of_layer_[layer]];
  if (--batch.awaited > 0) return;
  for (WorkerAction request : batch.requests) {
    request.iteration = current_;
    actions.push_back(request);
  }
}

// To each server what stands behind each other there as one message, beginning with "its" server as flush() does. A unit of which
// parts are not used goes by itself, for only a message of its own can say so.
void WorkerCore::push_batch(std::size_t batch, TimePoint now, std::vector<WorkerAction>& actions) {
  const auto& of_server = push_batches_[batch].of_server;
  for (std::size_t i = 0; i < of_server.size(); ++i) {
    const std::span<const std::uint32_t> units = of_server[(static_cast<std::size_t>(worker_.value) + i) % of_server.size()];
    for (std::size_t begin = 0; begin < units.size();) {
      std::size_t end = begin;
      while (end < units.size() && units_[units[end]].unused_parts == 0) ++end;
      end = std::max(end, begin + 1);
      push_run(units.subspan(begin, end - begin), now, actions);
      begin = end;
    }
  }
}

void WorkerCore::push_run(std::span<const std::uint32_t> units, TimePoint now, std::vector<WorkerAction>& actions) {
  if (units.size() == 1) return push(units.front(), now, actions);
  actions.push_back({WorkerAction::Kind::kPushBatch, units.front(), current_, units.back()});
  units_[units.front()].push_last = units.back();
  for (const std::uint32_t unit : units) begin_push(unit, now);
  for (const std::uint32_t unit : units) count_pushed(unit, actions);
}

void WorkerCore::begin_push(std::uint32_t unit, TimePoint now) {
  const scheduling::Unit& planned = plan_->units().units[unit];
  UnitState& of = units_[unit];
  of.pushed = current_;
  of.borrowed = of.unused_parts != scheduling::all_parts(planned);
  of.push_delivered = now;
  if (of.borrowed) {
    count_in_layers(planned, undelivered_, 1);
    ++undelivered_total_;
    if (!plan_->options().wire.drops()) account_.bytes_pushed += static_cast<std::int64_t>(plan_->payload_bytes(unit));
    pushing_.begin(now);
  }
}

// Asks for each unit by itself.
void WorkerCore::pull(scheduling::UnitRange units, std::vector<WorkerAction>& actions) const {
  for (std::uint32_t unit = units.begin; unit < units.end; ++unit)
    actions.push_back({WorkerAction::Kind::kPull, unit, current_, unit});
}

void WorkerCore::check_batches_may_change() const {
  PACELINE_CHECK(waiting_.empty() && std::ranges::count(tensors_, TensorState::kAwaited) == std::ssize(tensors_),
                 "batches change in the middle of iteration {}", current_);
}

void WorkerCore::set_batches(const scheduling::Bounds& bounds) {
  check_batches_may_change();
  pull_batches_.clear();
  batch_of_layer_.assign(to_push_.size(), 0);
  std::vector<std::optional<WorkerAction>> of_server(static_cast<std::size_t>(plan_->options().servers));
  std::size_t layer = 0;
  for (const int bound : bounds) {
    std::ranges::fill(of_server, std::nullopt);
    PullBatch& batch = pull_batches_.emplace_back();
    for (; layer < static_cast<std::size_t>(bound); ++layer) {
      const scheduling::UnitRange units = begun_in(layer);
      batch_of_layer_[layer] = pull_batches_.size() - 1;
      if (!units.empty()) ++batch.layers;
      for (std::uint32_t unit = units.begin; unit < units.end; ++unit) {
        auto& asked = of_server[static_cast<std::size_t>(plan_->units().units[unit].server.value)];
        if (!asked) asked = WorkerAction{.kind = WorkerAction::Kind::kPull, .unit = unit};
        asked->detail = unit;
      }
    }
    for (const auto& asked : of_server) {
      if (asked) batch.requests.push_back(*asked);
    }
  }
  PACELINE_CHECK(layer == to_push_.size(), "batches of {} layers for a model of {}", layer, to_push_.size());
  begin_batches();
}

void WorkerCore::set_push_batches(const scheduling::Bounds& bounds) {
  check_batches_may_change();
  push_batches_.clear();
  batch_of_unit_.assign(units_.size(), 0);
  std::size_t layer = 0;
  for (const int bound : bounds) {
    PushBatch& batch = push_batches_.emplace_back();
    batch.of_server.resize(static_cast<std::size_t>(plan_->options().servers));
    for (; layer < static_cast<std::size_t>(bound); ++layer) {
      const scheduling::UnitRange units = begun_in(layer);
      for (std::uint32_t unit = units.begin; unit < units.end; ++unit) {
        batch.of_server[static_cast<std::size_t>(plan_->units().units[unit].server.value)].push_back(unit);
        batch_of_unit_[unit] = push_batches_.size() - 1;
      }
    }
  }
  PACELINE_CHECK(layer == to_push_.size(), "batches of {} layers for a model of {}", layer, to_push_.size());
  begin_batches();
}

std::span<const std::uint32_t> WorkerCore::on_push_delivered(std::uint32_t unit, TimePoint now) {
  PACELINE_CHECK(unit < units_.size() && units_[unit].borrowed, "the push of unit {} was delivered, but not sent", unit);
  const auto units = units_between(unit, units_[unit].push_last);
  for (const std::uint32_t delivered : units) {
    units_[delivered].borrowed = false;
    units_[delivered].push_delivered = now;
    count_in_layers(plan_->units().units[delivered], undelivered_, -1);
    --undelivered_total_;
    pushing_.end(now);
  }
  return units;
}

}  // namespace paceline::paramserver

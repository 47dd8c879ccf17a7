// How ServerCore makes an update: of one unit as soon as the synchronisation model names it.
#include <algorithm>
#include <utility>

#include "paramserver/core/server_core.h"
#include "tensor/narrow.h"
#include "tensor/optimizer.h"
#include "tensor/reduce.h"

namespace paceline::paramserver {

// The part of a unit's gradient as it came.
tensor::ConstTensorView ServerCore::received(const void* gradient, std::uint32_t part) const {
  const scheduling::Part& planned = planned_part(part);
  const std::int64_t skipped = planned.offset - plan_->units().units[planned.unit].offset;
  return tensor::ConstTensorView(gradient, plan_->options().wire.type(), elements(planned.unit))
      .slice(static_cast<std::size_t>(skipped), static_cast<std::size_t>(planned.elements));
}

// The same with dropping; checked when it had come.
tensor::SparseSource ServerCore::received_sparse(const Slot& at, std::uint32_t part) const {
  const scheduling::Part& planned = planned_part(part);
  const auto payload = payload_of(at.gradient, at.gradient_bytes);
  if (payload.size() == plan_->payload_bytes(planned.unit)) return {.dense = received(payload.data(), part).as<float>()};
  const std::int64_t skipped = planned.offset - plan_->units().units[planned.unit].offset;
  return tensor::part_of(tensor::sparse_view(payload), static_cast<std::size_t>(skipped),
                         static_cast<std::size_t>(planned.elements));
}

// Fills sources_, with dropping sparse_, with the gradients of an update in rank order; false when no worker used the part.
bool ServerCore::gather_sources(std::uint32_t part, const sync::Update& update) {
  const std::uint32_t unit = planned_part(part).unit;
  bool used = false;
  sources_.clear();
  sparse_.clear();
  for (const Rank worker : update.workers) {
    const Slot& at = slot(unit, worker);
    if (plan_->options().wire.drops()) {
      const bool unused = (at.unused_parts & bit_of(part)) != 0;
      sparse_.push_back(unused ? tensor::SparseSource() : received_sparse(at, part));
      used |= !unused;
    } else if ((at.unused_parts & bit_of(part)) != 0) {
      if (zeros_.empty()) zeros_.resize(sum_.size());
      sources_.push_back(received(zeros_.data(), part));  // whose bits are zeros of every type
    } else {
      sources_.push_back(received(pool_.of(at.gradient, gradient_floats(unit)).data(), part));
      used = true;
    }
  }
  return used;
}

// Of what gather_sources() found.
void ServerCore::sum_sources(std::span<float> sum, double scale) const {
  const WireOptions& wire = plan_->options().wire;
  if (wire.drops()) return tensor::sum_sparse(sum, sparse_, scale);
  tensor::sum_widened(sum, sources_, scale / wire.loss_scale);
}

// For messages about a gradient that is not finite: it may have been so only once it was rounded.
std::string ServerCore::wire_text() const {
  const WireOptions& wire = plan_->options().wire;
  if (!wire.narrow()) return {};
  return fmt::format(" in {}{}", wire.text(), wire.loss_scale == 1 ? "" : fmt::format(" times {}", wire.loss_scale));
}

// Why the mean gradient of an update must not be applied; nothing when it is finite.
std::optional<Status> ServerCore::non_finite(std::uint32_t part, const sync::Update& update, std::span<const float> sum) const {
  if (tensor::all_finite(sum)) return std::nullopt;
  const auto refused = [&](std::size_t source, std::size_t element, float value) {
    return error(ErrorKind::kCorrupt,
                 "worker {} has a gradient that is not finite in {} of iteration {}: element {} is {}{}; lower the learning rate, "
                 "or give --non-finite skip",
                 update.workers[source].value, part_text(part), update.iteration, element, value, wire_text());
  };
  for (std::size_t i = 0; i < sparse_.size(); ++i) {
    if (const auto element = tensor::first_non_finite(sparse_[i])) return refused(i, *element, element_of(sparse_[i], *element));
  }
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    if (const auto element = tensor::first_non_finite(sources_[i])) {
      float value = 0;
      tensor::convert(std::span(&value, 1), sources_[i].slice(*element, 1));
      return refused(i, *element, value);
    }
  }
  return error(
      ErrorKind::kCorrupt,
      "the sum of the workers' gradients overflows in {} of iteration {}; lower the learning rate, or give --non-finite skip",
      part_text(part), update.iteration);
}

std::span<float> ServerCore::writable_value(std::uint32_t unit) {
  std::uint32_t& value = state(unit).value;
  if (state(unit).narrow != kNoBuffer) pool_.release(std::exchange(state(unit).narrow, kNoBuffer));
  if (pool_.references(value) > 1) {
    const std::uint32_t copy = pool_.take(elements(unit));
    std::ranges::copy(pool_.of(value, elements(unit)), pool_.of(copy, elements(unit)).begin());
    pool_.release(std::exchange(value, copy));
    ++counters_.value_copies;
  }
  return pool_.of(value, elements(unit));
}

// The iteration whose learning rate an update is made with. Where workers do different numbers of iterations: that of BSP when as
// many pushes have been applied.
Iteration ServerCore::rate_iteration(std::uint32_t unit, const sync::Update& update) const {
  if (!plan_->uneven()) return update.iteration;
  return plan_->options().first + state(unit).pushes / plan_->options().workers;
}

void ServerCore::step(std::uint32_t part, Iteration iteration, std::span<const float> gradient) {
  const scheduling::Part& planned = planned_part(part);
  PartState& of = part_state(part);
  ++of.steps;
  tensor::step(plan_->optimizer_of(planned.tensor),
               {.learning_rate = plan_->learning_rate_of(planned.tensor, iteration), .step = of.steps},
               part_of(writable_value(planned.unit), part), gradient, of.state);
}

// False when nobody used the part, or the job must stop.
bool ServerCore::apply_part(std::uint32_t part, const sync::Update& update, std::vector<ServerAction>& actions) {
  if (!gather_sources(part, update)) return false;
  // A lone dense gradient is used where it stands.
  std::span<const float> gradient = std::span(sum_).first(static_cast<std::size_t>(planned_part(part).elements));
  if (sources_.size() == 1 && update.scale == 1 && !plan_->options().wire.narrow()) {
    gradient = sources_.front().as<float>();
  } else {
    sum_sources(std::span(sum_).first(gradient.size()), update.scale);
  }
  if (plan_->options().update.non_finite == NonFinitePolicy::kStop) {
    if (auto reason = non_finite(part, update, gradient)) {
      actions.push_back({.kind = ServerAction::Kind::kStop,
                         .unit = planned_part(part).unit,
                         .iteration = update.iteration,
                         .failure = *std::move(reason)});
      return false;
    }
  }
  step(part, rate_iteration(planned_part(part).unit, update), gradient);
  return true;
}

void ServerCore::apply(const sync::Update& update, std::vector<ServerAction>& actions) {
  const std::uint32_t unit = my_units()[static_cast<std::size_t>(update.unit)];
  if (plan_->holds_updates()) return keep_sum(unit, update, actions);
  const scheduling::Unit& planned = plan_->units().units[unit];
  bool used = false;
  for (std::uint32_t part = planned.first_part; part < planned.first_part + planned.parts; ++part) {
    used |= apply_part(part, update, actions);
    if (!actions.empty() && actions.back().kind == ServerAction::Kind::kStop) return;
  }
  ++(used ? counters_.updates : counters_.skipped_units);
  state(unit).pushes += static_cast<std::int64_t>(update.workers.size());
  for (const Rank worker : update.workers) give_back_gradient(unit, worker);
  count_version(unit, update.iteration, actions);
  switch (sync_->delivery()) {
    case sync::Delivery::kToAll:
      offer_to_all(unit, update.iteration, actions);
      break;
    case sync::Delivery::kToPusher:
      for (const Rank worker : update.workers) offer(unit, worker, update.iteration, actions);
      break;
    case sync::Delivery::kAtStart:
      break;
  }
}

void ServerCore::count_version(std::uint32_t unit, Iteration iteration, std::vector<ServerAction>& actions) {
  ++state(unit).version;
  if (sync_->delivery() != sync::Delivery::kToAll || ++counted_ < units_.size()) return;
  counted_ = 0;
  complete_ = iteration;
  actions.push_back({.kind = ServerAction::Kind::kIterationComplete, .iteration = iteration});
}

}  // namespace paceline::paramserver

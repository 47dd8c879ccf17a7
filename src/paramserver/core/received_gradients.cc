#include "paramserver/core/received_gradients.h"

#include <algorithm>
#include <utility>

#include "tensor/narrow.h"
#include "tensor/reduce.h"

namespace paceline::paramserver {
namespace {

std::size_t floats_for(std::size_t bytes) { return (bytes + sizeof(float) - 1) / sizeof(float); }

}  // namespace

ReceivedGradients::ReceivedGradients(std::shared_ptr<const job::Plan> plan, Rank server, exchange::BufferPool& pool)
    : plan_(std::move(plan)), pool_(pool) {
  const auto workers = static_cast<std::size_t>(plan_->options().workers);
  sources_.reserve(workers);
  arrivals_.resize(plan_->units().of_server[static_cast<std::size_t>(server.value)].size() * workers);
}

std::uint32_t ReceivedGradients::take(std::size_t floats) {
  bytes_ += static_cast<std::int64_t>(floats * sizeof(float));
  most_bytes_ = std::max(most_bytes_, bytes_);
  return pool_.take(floats);
}

void ReceivedGradients::give_back(std::uint32_t& buffer, std::size_t floats) {
  if (buffer == kNoBuffer) return;
  bytes_ -= static_cast<std::int64_t>(floats * sizeof(float));
  pool_.release(std::exchange(buffer, kNoBuffer));
}

std::span<float> ReceivedGradients::place(std::uint32_t unit, Rank worker, std::size_t bytes) {
  Arrival& arrival = at(unit, worker);
  arrival.bytes = bytes;
  arrival.gradient = take(floats_for(plan_->payload_bytes(unit)));  // for the largest, so that one block serves every iteration
  return pool_.of(arrival.gradient, floats_for(bytes));
}

void ReceivedGradients::forget(std::uint32_t unit, Rank worker) {
  give_back(at(unit, worker).gradient, floats_for(plan_->payload_bytes(unit)));
}

std::span<const std::byte> ReceivedGradients::payload(const Arrival& arrival) const {
  return std::as_bytes(std::as_const(pool_).of(arrival.gradient, floats_for(arrival.bytes))).first(arrival.bytes);
}

Status ReceivedGradients::check(std::uint32_t unit, Rank worker, Iteration iteration) const {
  const Arrival& arrival = at(unit, worker);
  if (arrival.gradient == kNoBuffer || arrival.bytes == plan_->payload_bytes(unit)) return {};
  if (tensor::parse_sparse(payload(arrival), elements(unit))) return {};
  return error(ErrorKind::kBadRequest, "worker {} pushed {} for iteration {} with elements that it does not have, or not in order",
               worker.value, plan_->part_text(plan_->units().units[unit].first_part), iteration);
}

void ReceivedGradients::on_arrived(std::uint32_t unit, Rank worker, std::uint32_t unused_parts) {
  at(unit, worker).unused_parts = unused_parts;
}

// --- sums ---

tensor::ConstTensorView ReceivedGradients::dense(const void* gradient, std::uint32_t part) const {
  const scheduling::UnitPlan& units = plan_->units();
  return tensor::ConstTensorView(gradient, plan_->options().wire.type(), elements(units.parts[part].unit))
      .slice(units.offset_in_unit(part), static_cast<std::size_t>(units.parts[part].elements));
}

// Checked when it had come.
tensor::SparseSource ReceivedGradients::sparse(const Arrival& arrival, std::uint32_t part) const {
  const scheduling::UnitPlan& units = plan_->units();
  const auto bytes = payload(arrival);
  if (bytes.size() == plan_->payload_bytes(units.parts[part].unit)) return {.dense = dense(bytes.data(), part).as<float>()};
  return tensor::part_of(tensor::sparse_view(bytes), units.offset_in_unit(part),
                         static_cast<std::size_t>(units.parts[part].elements));
}

bool ReceivedGradients::gather(std::uint32_t part, const Update& update) {
  bool used = false;
  sources_.clear();
  sparse_.clear();
  for (const Rank worker : update.workers) {
    const Arrival& arrival = at(update.unit, worker);
    const bool unused = (arrival.unused_parts & plan_->units().bit_of(part)) != 0;
    if (plan_->options().wire.drops()) {
      sparse_.push_back(unused ? tensor::SparseSource() : sparse(arrival, part));
    } else if (unused) {
      if (zeros_.size() < elements(update.unit)) zeros_.resize(elements(update.unit));
      sources_.push_back(dense(zeros_.data(), part));  // whose bits are zeros of every type
    } else {
      sources_.push_back(dense(pool_.of(arrival.gradient, 0).data(), part));
    }
    used |= !unused;
  }
  return used;
}

void ReceivedGradients::add_up(std::span<float> sum, double scale) const {
  const job::WireOptions& wire = plan_->options().wire;
  if (wire.drops()) return tensor::sum_sparse(sum, sparse_, scale);
  tensor::sum_widened(sum, sources_, scale / wire.loss_scale);
}

std::optional<std::span<const float>> ReceivedGradients::lone() const {
  if (sources_.size() != 1 || plan_->options().wire.narrow()) return std::nullopt;
  return sources_.front().as<float>();
}

std::optional<ReceivedGradients::Broken> ReceivedGradients::find_broken(const Update& update) const {
  for (std::size_t i = 0; i < sparse_.size(); ++i) {
    if (const auto element = tensor::first_non_finite(sparse_[i]))
      return Broken{update.workers[i], *element, element_of(sparse_[i], *element)};
  }
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const auto element = tensor::first_non_finite(sources_[i]);
    if (!element) continue;
    float value = 0;
    tensor::convert(std::span(&value, 1), sources_[i].slice(*element, 1));
    return Broken{update.workers[i], *element, value};
  }
  return std::nullopt;
}

}  // namespace paceline::paramserver

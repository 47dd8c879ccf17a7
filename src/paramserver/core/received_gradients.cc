#include "paramserver/core/received_gradients.h"

#include <algorithm>
#include <utility>

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
  if (arrival.gradient == kNoBuffer || plan_->gradient_codec().valid(payload(arrival), plan_->elements(unit))) return {};
  return error(ErrorKind::kBadRequest, "worker {} pushed {} for iteration {} with elements that it does not have, or not in order",
               worker.value, plan_->part_text(plan_->units().units[unit].first_part), iteration);
}

void ReceivedGradients::on_arrived(std::uint32_t unit, Rank worker, std::uint32_t unused_parts) {
  at(unit, worker).unused_parts = unused_parts;
}

// --- sums ---

bool ReceivedGradients::gather(std::uint32_t part, const Update& update) {
  bool used = false;
  sources_.clear();
  const tensor::Range range{plan_->units().offset_in_unit(part), static_cast<std::size_t>(plan_->units().parts[part].elements)};
  for (const Rank worker : update.workers) {
    const Arrival& arrival = at(update.unit, worker);
    const bool unused = (arrival.unused_parts & plan_->units().bit_of(part)) != 0;
    sources_.push_back({unused ? std::span<const std::byte>() : payload(arrival), plan_->elements(update.unit), range});
    used |= !unused;
  }
  return used;
}

void ReceivedGradients::add_up(std::span<float> sum, double scale) const { plan_->gradient_codec().add_up(sum, sources_, scale); }

std::optional<std::span<const float>> ReceivedGradients::lone() const {
  if (sources_.size() != 1 || !plan_->gradient_codec().raw() || plan_->gradient_codec().packs()) return std::nullopt;
  const auto& [payload, elements, range] = sources_.front();
  return std::span(reinterpret_cast<const float*>(payload.data()), elements).subspan(range.first, range.count);
}

std::optional<ReceivedGradients::Broken> ReceivedGradients::find_broken(const Update& update) const {
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    if (const auto element = plan_->gradient_codec().first_non_finite(sources_[i])) return Broken{update.workers[i], *element};
  }
  return std::nullopt;
}

}  // namespace paceline::paramserver

// What the worker client sends of gradients. Loop only.
#include <algorithm>

#include "paramserver/service/worker_client.h"
#include "tensor/narrow.h"
#include "tensor/sparse.h"

namespace paceline::paramserver {

// The gradient as it is sent.
void WorkerClient::put_gradient(std::uint32_t unit, std::span<std::byte> to) {
  const WireOptions& wire = plan_->options().wire;
  const std::span<const float> gradient = part(options_.gradients, unit);
  if (!wire.narrow()) {
    std::ranges::copy(std::as_bytes(gradient), to.begin());
  } else {
    tensor::narrow({to.data(), wire.type(), gradient.size()}, gradient, static_cast<float>(wire.loss_scale));
  }
}

std::span<const std::byte> WorkerClient::gradient_payload(const WorkerAction& push) {
  const WireOptions& wire = plan_->options().wire;
  if (wire.drops()) return sparse_payload(push);
  if (!wire.narrow()) return std::as_bytes(part(options_.gradients, push.unit));
  const auto payload = sent_part(pushes_, push.unit);
  put_gradient(push.unit, payload);
  return payload;
}

// Sparse where that is smaller. Parts that were not used hold what an earlier iteration left there.
std::span<const std::byte> WorkerClient::sparse_payload(const WorkerAction& push) {
  const scheduling::Unit& planned = plan_->units().units[push.unit];
  const auto gradient = part(options_.gradients, push.unit);
  const auto parts = plan_->units().parts_of(planned);
  const auto for_each_used = [&](auto visit) {
    for (std::uint32_t i = 0; i < planned.parts; ++i) {
      if (((push.detail >> i) & 1) != 0) continue;
      const auto skipped = static_cast<std::size_t>(parts[i].offset - planned.offset);
      visit(skipped, gradient.subspan(skipped, static_cast<std::size_t>(parts[i].elements)));
    }
  };
  std::size_t held = 0;
  for_each_used([&](std::size_t, std::span<const float> of_part) { held += tensor::count_sparse(of_part); });
  // Nothing at all would say that the unit was not used: a zero says that it was.
  const std::size_t count = std::max<std::size_t>(held, 1);
  std::span<const std::byte> payload = std::as_bytes(gradient);
  if (count * tensor::kSparseBytes < payload.size()) {
    const auto place = sent_part(pushes_, push.unit).first(count * tensor::kSparseBytes);
    const std::span indices(reinterpret_cast<std::uint32_t*>(place.data()), count);
    const std::span values(reinterpret_cast<float*>(place.data() + indices.size_bytes()), count);
    indices[0] = 0;
    values[0] = 0;
    std::size_t at = 0;
    for_each_used([&](std::size_t skipped, std::span<const float> of_part) {
      at = tensor::pack_sparse(of_part, static_cast<std::uint32_t>(skipped), at, indices, values);
    });
    payload = place;
  }
  dropped_bytes_pushed_.fetch_add(static_cast<std::int64_t>(payload.size()), std::memory_order_relaxed);
  return payload;
}

// Nothing when other servers' units lie between them.
std::optional<std::span<std::byte>> WorkerClient::in_one_piece(std::span<std::byte> arena, std::uint32_t unit,
                                                               std::uint32_t last) const {
  const auto units = core_.units_between(unit, last);
  if (units.size() != last - unit + 1) return std::nullopt;
  return std::span(sent_part(arena, unit).data(), bytes_of(units));
}

std::size_t WorkerClient::bytes_of(std::span<const std::uint32_t> units) const {
  std::size_t bytes = 0;
  for (const std::uint32_t unit : units) bytes += plan_->payload_bytes(unit);
  return bytes;
}

// The core sends nothing of these units again before this has been delivered, so the memory is free by then. Nobody writes to
// gradients that are not delivered, so the copy needs no lock.
std::span<const std::byte> WorkerClient::gather_gradients(std::uint32_t unit, std::uint32_t last) {
  const bool narrow = plan_->options().wire.narrow();
  auto piece = in_one_piece(narrow ? pushes_ : std::as_writable_bytes(options_.gradients), unit, last);
  const auto units = core_.units_between(unit, last);
  if (plan_->options().wire.drops())
    dropped_bytes_pushed_.fetch_add(static_cast<std::int64_t>(bytes_of(units)), std::memory_order_relaxed);
  if (piece && !narrow) return *piece;
  if (!piece) {
    std::vector<std::byte>& memory = gathered_[unit];
    memory.resize(bytes_of(units));
    piece = memory;
  }
  std::span<std::byte> rest = *piece;
  for (const std::uint32_t one : units) {
    const std::size_t bytes = plan_->payload_bytes(one);
    put_gradient(one, rest.first(bytes));
    rest = rest.subspan(bytes);
  }
  return *piece;
}

}  // namespace paceline::paramserver

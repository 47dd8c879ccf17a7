#include "paramserver/service/gradient_payloads.h"

#include <algorithm>

#include "tensor/narrow.h"
#include "tensor/sparse.h"

namespace paceline::paramserver {

GradientPayloads::GradientPayloads(const job::Plan& plan, exchange::TensorMemory memory) : plan_(plan), memory_(std::move(memory)) {
  if (plan.options().wire.narrow() || plan.options().wire.drops()) sent_.emplace(plan);
}

std::span<const std::byte> GradientPayloads::of(const wire::Push& push) {
  const job::WireOptions& wire = plan_.options().wire;
  if (push.unused_parts == scheduling::all_parts(plan_.units().units[push.unit])) return {};
  if (wire.drops()) return sparse(push);
  if (!wire.narrow()) return std::as_bytes(memory_.gradient(push.unit));
  const auto payload = sent_->of(push.unit);
  put(push.unit, payload);
  return payload;
}

// The gradient as it is sent.
void GradientPayloads::put(std::uint32_t unit, std::span<std::byte> to) {
  const job::WireOptions& wire = plan_.options().wire;
  const std::span<const float> gradient = memory_.gradient(unit);
  if (!wire.narrow()) {
    std::ranges::copy(std::as_bytes(gradient), to.begin());
  } else {
    tensor::narrow({to.data(), wire.type(), gradient.size()}, gradient, static_cast<float>(wire.loss_scale));
  }
}

// Sparse where that is smaller. Parts that were not used hold what an earlier iteration left there.
std::span<const std::byte> GradientPayloads::sparse(const wire::Push& push) {
  const scheduling::Unit& planned = plan_.units().units[push.unit];
  const auto gradient = memory_.gradient(push.unit);
  const auto parts = plan_.units().parts_of(planned);
  const auto for_each_used = [&](auto visit) {
    for (std::uint32_t i = 0; i < planned.parts; ++i) {
      if (((push.unused_parts >> i) & 1) != 0) continue;
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
    const auto place = sent_->of(push.unit).first(count * tensor::kSparseBytes);
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
  dropped_bytes_ += static_cast<std::int64_t>(payload.size());
  return payload;
}

// The ledger sends nothing of these units again before this has been delivered, so the memory is free by then. Nobody writes to
// gradients that are not delivered, so the copy needs no lock.
std::span<const std::byte> GradientPayloads::of(const wire::Pushes& pushes) {
  const auto units = plan_.units().between(pushes.unit, pushes.last);
  const job::WireOptions& wire = plan_.options().wire;
  std::size_t bytes = 0;
  for (const std::uint32_t unit : units) bytes += plan_.payload_bytes(unit);
  if (wire.drops()) dropped_bytes_ += static_cast<std::int64_t>(bytes);
  const bool whole = in_one_piece(units);
  if (whole && !wire.narrow()) return std::as_bytes(memory_.gradient(units.front(), units.back()));
  std::span<std::byte> piece;
  if (whole) {
    piece = sent_->of(units.front(), units.back());
  } else {
    std::vector<std::byte>& memory = pieces_[units.front()];
    memory.resize(bytes);
    piece = memory;
  }
  std::span<std::byte> rest = piece;
  for (const std::uint32_t unit : units) {
    put(unit, rest.first(plan_.payload_bytes(unit)));
    rest = rest.subspan(plan_.payload_bytes(unit));
  }
  return piece;
}

}  // namespace paceline::paramserver

// What the carrier by servers sends of gradients. Loop only.
#include <algorithm>

#include "paramserver/service/server_carrier.h"
#include "tensor/narrow.h"
#include "tensor/sparse.h"

namespace paceline::paramserver {

std::span<std::byte> ServerCarrier::sent_part(std::span<std::byte> area, std::uint32_t unit) const {
  const auto offset = static_cast<std::size_t>(plan_.units().units[unit].offset);
  return area.subspan(offset * plan_.options().wire.element_bytes(), plan_.payload_bytes(unit));
}

// The gradient as it is sent.
void ServerCarrier::put_gradient(std::uint32_t unit, std::span<std::byte> to) {
  const WireOptions& wire = plan_.options().wire;
  const std::span<const float> gradient = memory_.gradient(unit);
  if (!wire.narrow()) {
    std::ranges::copy(std::as_bytes(gradient), to.begin());
  } else {
    tensor::narrow({to.data(), wire.type(), gradient.size()}, gradient, static_cast<float>(wire.loss_scale));
  }
}

std::span<const std::byte> ServerCarrier::gradient_payload(const WorkerAction& push) {
  const WireOptions& wire = plan_.options().wire;
  if (wire.drops()) return sparse_payload(push);
  if (!wire.narrow()) return std::as_bytes(memory_.gradient(push.unit));
  const auto payload = sent_part(pushes_, push.unit);
  put_gradient(push.unit, payload);
  return payload;
}

// Sparse where that is smaller. Parts that were not used hold what an earlier iteration left there.
std::span<const std::byte> ServerCarrier::sparse_payload(const WorkerAction& push) {
  const scheduling::Unit& planned = plan_.units().units[push.unit];
  const auto gradient = memory_.gradient(push.unit);
  const auto parts = plan_.units().parts_of(planned);
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
  dropped_bytes_ += static_cast<std::int64_t>(payload.size());
  return payload;
}

// Whether no other servers' units lie between them.
bool ServerCarrier::in_one_piece(std::uint32_t unit, std::uint32_t last) const {
  return ledger_.units_between(unit, last).size() == last - unit + 1;
}

std::size_t ServerCarrier::bytes_of(std::span<const std::uint32_t> units) const {
  std::size_t bytes = 0;
  for (const std::uint32_t unit : units) bytes += plan_.payload_bytes(unit);
  return bytes;
}

// The ledger sends nothing of these units again before this has been delivered, so the memory is free by then. Nobody writes to
// gradients that are not delivered, so the copy needs no lock.
std::span<const std::byte> ServerCarrier::gather_gradients(std::uint32_t unit, std::uint32_t last) {
  const WireOptions& wire = plan_.options().wire;
  const auto units = ledger_.units_between(unit, last);
  const std::size_t bytes = bytes_of(units);
  if (wire.drops()) dropped_bytes_ += static_cast<std::int64_t>(bytes);
  if (in_one_piece(unit, last) && !wire.narrow()) return std::as_bytes(memory_.gradient(unit, last));
  std::span<std::byte> piece;
  if (in_one_piece(unit, last)) {
    piece = std::span(sent_part(pushes_, unit).data(), bytes);
  } else {
    std::vector<std::byte>& memory = gathered_[unit];
    memory.resize(bytes);
    piece = memory;
  }
  std::span<std::byte> rest = piece;
  for (const std::uint32_t one : units) {
    put_gradient(one, rest.first(plan_.payload_bytes(one)));
    rest = rest.subspan(plan_.payload_bytes(one));
  }
  return piece;
}

}  // namespace paceline::paramserver

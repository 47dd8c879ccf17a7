#include "paramserver/service/gradient_payloads.h"

namespace paceline::paramserver {

GradientPayloads::GradientPayloads(const job::Plan& plan, exchange::TensorMemory memory)
    : plan_(plan), codec_(plan.gradient_codec()), memory_(std::move(memory)) {}

std::span<std::byte> GradientPayloads::place(std::uint32_t first, std::uint32_t last) {
  if (!sent_) sent_.emplace(plan_, codec_);
  return sent_->of(first, last);
}

std::span<const std::byte> GradientPayloads::of(const wire::Push& push) {
  if (push.unused_parts == scheduling::all_parts(plan_.units().units[push.unit])) return {};
  if (const auto payload = packed(push)) return *payload;
  return of(wire::Pushes{push.unit, push.unit, push.iteration});
}

// Parts that were not used hold what an earlier iteration left there.
std::optional<std::span<const std::byte>> GradientPayloads::packed(const wire::Push& push) {
  if (!codec_.packs()) return std::nullopt;
  const scheduling::Unit& planned = plan_.units().units[push.unit];
  const auto parts = plan_.units().parts_of(planned);
  used_.clear();
  for (std::uint32_t i = 0; i < planned.parts; ++i) {
    if (((push.unused_parts >> i) & 1) != 0) continue;
    used_.push_back({static_cast<std::size_t>(parts[i].offset - planned.offset), static_cast<std::size_t>(parts[i].elements)});
  }
  const auto to = place(push.unit, push.unit);
  const auto bytes = codec_.pack(memory_.gradient(push.unit), used_, to);
  if (!bytes) return std::nullopt;
  packed_bytes_ += static_cast<std::int64_t>(*bytes);
  return to.first(*bytes);
}

// In full. The ledger sends nothing of these units again before this has been delivered, so the memory is free by then. Nobody
// writes to gradients that are not delivered, so encoding them needs no lock.
std::span<const std::byte> GradientPayloads::of(const wire::Pushes& pushes) {
  const auto units = plan_.units().between(pushes.unit, pushes.last);
  std::size_t bytes = 0;
  for (const std::uint32_t unit : units) bytes += plan_.payload_bytes(unit);
  if (codec_.packs()) packed_bytes_ += static_cast<std::int64_t>(bytes);
  const bool whole = in_one_piece(units);
  if (whole && codec_.raw()) return std::as_bytes(memory_.gradient(units.front(), units.back()));
  std::span<std::byte> piece;
  if (whole) {
    piece = place(units.front(), units.back());
  } else {
    std::vector<std::byte>& memory = pieces_[units.front()];
    memory.resize(bytes);
    piece = memory;
  }
  std::span<std::byte> rest = piece;
  for (const std::uint32_t unit : units) {
    codec_.encode(memory_.gradient(unit), rest.first(plan_.payload_bytes(unit)));
    rest = rest.subspan(plan_.payload_bytes(unit));
  }
  return piece;
}

}  // namespace paceline::paramserver

#include "paramserver/service/heard_verdicts.h"

namespace paceline::paramserver {

HeardVerdicts::HeardVerdicts(const job::Plan& plan) : ledger_(plan, plan.servers_with_units()), part_(plan.table().tensors.size()) {
  const std::vector<std::byte> place(part_.bytes());
  places_.resize(static_cast<std::size_t>(plan.options().servers), {place, place});
}

std::span<std::byte> HeardVerdicts::place(Rank server, Iteration iteration, std::uint64_t bytes) {
  const auto index = static_cast<std::size_t>(server.value);
  if (server.value < 0 || index >= places_.size() || bytes != part_.bytes()) return {};
  return places_[index][static_cast<std::size_t>(iteration & 1)];
}

Status HeardVerdicts::on_part(Rank server, Iteration iteration, std::span<const std::byte> payload, Iteration current) {
  part_.read(payload);
  return ledger_.on_part(server, iteration, part_, current);
}

}  // namespace paceline::paramserver

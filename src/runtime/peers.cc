#include "runtime/peers.h"

#include <algorithm>

namespace paceline::runtime {

using wire::PeerName;
using wire::Role;

void Peers::on_welcome(const wire::Welcome& welcome) {
  of(Role::kWorker).count = static_cast<std::size_t>(welcome.workers);
  of(Role::kServer).count = welcome.servers.size();
  of(Role::kWorker).incarnations = welcome.worker_incarnations;
  of(Role::kServer).incarnations = welcome.server_incarnations;
}

bool Peers::takes_part(const PeerName& name) const {
  const auto rank = static_cast<std::size_t>(name.rank.value);
  return std::ranges::all_of(kParts, [&](Role part) {
    return !wire::plays(name.role, part) || (rank < count(part) && incarnation_of(part, rank) == name.incarnation);
  });
}

std::uint32_t Peers::incarnation_of(Role part, std::size_t rank) const {
  const auto& known = of(part).incarnations;
  return rank < known.size() ? known[rank] : 0;
}

void Peers::add(const PeerName& name) {
  for (const Role part : kParts) {
    if (wire::plays(name.role, part)) of(part).connected.insert(name.rank);
  }
}

void Peers::remove(const PeerName& name) {
  for (const Role part : kParts) {
    if (wire::plays(name.role, part)) of(part).connected.erase(name.rank);
  }
}

}  // namespace paceline::runtime

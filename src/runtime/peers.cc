#include "runtime/peers.h"

#include <algorithm>

#include "base/check.h"

namespace paceline::runtime {

using session::PeerId;
using session::PeerName;
using session::Role;
using wire::Channel;

Peers::Way Peers::way_of(Channel channel) {
  switch (channel) {
    case Channel::kGradients:
      return {Role::kWorker, Role::kServer};
    case Channel::kValues:
    case Channel::kPace:
      return {Role::kServer, Role::kWorker};
    case Channel::kServers:
      return {Role::kServer, Role::kServer};
    case Channel::kCollective:
      return {Role::kWorker, Role::kWorker};
    case Channel::kControl:
      break;
  }
  PACELINE_CHECK(false, "channel {} is the coordinator's", static_cast<int>(channel));
}

void Peers::on_welcome(const wire::Welcome& welcome) {
  of(Role::kWorker).ranks.resize(static_cast<std::size_t>(welcome.workers));
  of(Role::kServer).ranks.resize(welcome.servers.size());
  of(Role::kWorker).incarnations = welcome.worker_incarnations;
  of(Role::kServer).incarnations = welcome.server_incarnations;
}

bool Peers::takes_part(const PeerName& name) const {
  const auto rank = static_cast<std::size_t>(name.rank.value);
  return std::ranges::all_of(kParts, [&](Role part) {
    return !session::plays(name.role, part) || (rank < count(part) && incarnation_of(part, rank) == name.incarnation);
  });
}

std::uint32_t Peers::incarnation_of(Role part, std::size_t rank) const {
  const auto& known = of(part).incarnations;
  return rank < known.size() ? known[rank] : 0;
}

std::size_t Peers::connected(Role part) const {
  return static_cast<std::size_t>(std::ranges::count_if(of(part).ranks, [](const auto& peer) { return peer.has_value(); }));
}

std::vector<Peers::Held> Peers::add(PeerId peer, const PeerName& name) {
  names_[peer] = {name.role, name.rank};
  std::vector<Held> waited;
  for (const Role part : kParts) {
    if (!session::plays(name.role, part)) continue;
    of(part).ranks.at(static_cast<std::size_t>(name.rank.value)) = peer;
    if (const auto held = held_.extract({part, name.rank}); !held.empty())
      waited.insert(waited.end(), held.mapped().begin(), held.mapped().end());
  }
  return waited;
}

void Peers::remove(PeerId peer, const PeerName& name) {
  names_.erase(peer);
  for (const Role part : kParts) {
    for (auto& known : of(part).ranks) {
      if (known == peer) known.reset();
    }
    if (session::plays(name.role, part)) lost_.insert({part, name.rank});
  }
}

std::optional<PeerId> Peers::find(const PeerName& name) const {
  const auto& ranks = of(name.role).ranks;
  const auto rank = static_cast<std::size_t>(name.rank.value);
  return name.rank.value >= 0 && rank < ranks.size() ? ranks[rank] : std::nullopt;
}

void Peers::hold(const PeerName& name, const Held& message) {
  if (!lost_.contains(name)) held_[name].push_back(message);
}

std::optional<PeerName> Peers::name_of(PeerId peer) const {
  const auto found = names_.find(peer);
  return found == names_.end() ? std::nullopt : std::optional(found->second);
}

PeerName Peers::sender(PeerId peer, Channel channel) const {
  const PeerName name = names_.at(peer);
  return name.role == Role::kBoth ? PeerName{way_of(channel).from, name.rank} : name;
}

PeerName Peers::receiver(PeerId peer, Channel channel) const {
  const PeerName name = names_.at(peer);
  return name.role == Role::kBoth ? PeerName{way_of(channel).to, name.rank} : name;
}

}  // namespace paceline::runtime

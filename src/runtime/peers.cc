#include "runtime/peers.h"

#include <algorithm>

#include <fmt/ranges.h>

namespace paceline::runtime {

using wire::PeerName;
using wire::Role;

void Peers::on_welcome(const wire::Welcome& welcome) {
  for (const wire::Seat& seat : welcome.seats()) seats_[{seat.role, seat.rank}] = {.incarnation = seat.incarnation};
}

bool Peers::takes_part(const PeerName& name) const {
  return std::ranges::all_of(name.seats(), [this](const wire::Seat& seat) {
    const auto known = seats_.find({seat.role, seat.rank});
    return known != seats_.end() && known->second.incarnation == seat.incarnation;
  });
}

std::optional<PeerName> Peers::named(wire::Roles roles, Rank rank) const {
  PeerName name{roles, rank};
  for (const Role role : roles.list()) {
    const auto known = seats_.find({role, rank});
    if (known == seats_.end()) return std::nullopt;
    name.incarnation = known->second.incarnation;
  }
  return name;
}

std::string Peers::text() const {
  std::vector<std::string> texts;
  for (const Role role : wire::kRankedRoles) {
    const auto count = std::ranges::count_if(seats_, [role](const auto& seat) { return seat.first.first == role; });
    texts.push_back(fmt::format("{} {}s", count, to_string(role)));
  }
  return fmt::format("{}", fmt::join(texts, " and "));
}

void Peers::set(const PeerName& name, bool connected) {
  for (const Role role : name.roles.list()) {
    if (const auto known = seats_.find({role, name.rank}); known != seats_.end()) known->second.connected = connected;
  }
}

bool Peers::all_connected(Role role) const {
  return std::ranges::all_of(seats_, [role](const auto& seat) { return seat.first.first != role || seat.second.connected; });
}

}  // namespace paceline::runtime

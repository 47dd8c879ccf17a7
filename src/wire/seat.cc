#include "wire/seat.h"

#include <algorithm>

#include <fmt/ranges.h>

namespace paceline::wire {

const char* to_string(Role role) {
  constexpr std::array kNames = {"coordinator", "worker", "server"};
  const auto number = static_cast<std::size_t>(role);
  return number < kNames.size() ? kNames[number] : "unknown role";
}

std::string Seat::text() const {
  if (role == Role::kCoordinator) return to_string(role);
  return fmt::format("{} {}", to_string(role), rank.value);
}

std::vector<Role> Roles::list() const {
  if (hold(Role::kCoordinator)) return {Role::kCoordinator};
  std::vector<Role> roles;
  std::ranges::copy_if(kRankedRoles, std::back_inserter(roles), [this](Role role) { return hold(role); });
  return roles;
}

std::string Roles::text() const {
  std::vector<std::string> names;
  for (const Role role : list()) names.emplace_back(to_string(role));
  return names.empty() ? "unknown role" : fmt::format("{}", fmt::join(names, " with "));
}

std::vector<Seat> PeerName::seats() const {
  std::vector<Seat> seats;
  for (const Role role : roles.list()) seats.push_back({role, rank, incarnation});
  return seats;
}

std::optional<Rank> PeerName::rank_as(Role role) const { return roles.hold(role) ? std::optional(rank) : std::nullopt; }

std::string PeerName::text() const {
  if (takes_data() && rank.value == -1) return fmt::format("{} without a rank yet", roles.text());
  std::vector<std::string> names;
  for (const Seat& seat : seats()) names.push_back(seat.text());
  return names.empty() ? fmt::format("{} {}", roles.text(), rank.value) : fmt::format("{}", fmt::join(names, " with "));
}

Status check(const PeerName& name) {
  if (!name.roles.legal())
    return error(ErrorKind::kBadRequest, "the role is {}; it is coordinator, worker, server or both", name.roles.byte());
  if (name.rank.value < -1)
    return error(ErrorKind::kBadRequest, "the rank is {}; it is at least 0, or -1 before one is given", name.rank.value);
  return {};
}

bool matches(const PeerName& expected, const PeerName& actual) {
  if (!actual.roles.hold(expected.roles)) return false;
  if (expected.incarnation != 0 && expected.incarnation != actual.incarnation) return false;
  return !expected.takes_data() || expected.rank.value == -1 || expected.rank == actual.rank;
}

bool same_process(const PeerName& a, const PeerName& b) {
  if (std::ranges::none_of(a.roles.list(), [&b](Role role) { return b.roles.hold(role); })) return false;
  return !a.takes_data() || (a.rank == b.rank && a.rank.value != -1);
}

bool may_become(const PeerName& joining, const PeerName& wanted) {
  return joining.rank.value == -1 && wanted.rank.value >= 0 && joining.roles.hold(wanted.roles);
}

ChannelEnds ends_of(Channel channel) {
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
  return {Role::kCoordinator, Role::kCoordinator};
}

std::vector<Channel> channels_of(Role hub) {
  std::vector<Channel> channels;
  for (std::uint8_t number = 0; number < kChannels; ++number) {
    const auto channel = static_cast<Channel>(number);
    if (const auto [from, to] = ends_of(channel); from == hub || to == hub) channels.push_back(channel);
  }
  return channels;
}

std::vector<Channel> channels_between(Roles from, Roles to, Role hub) {
  std::vector<Channel> channels = channels_of(hub);
  std::erase_if(channels, [&](Channel channel) { return !from.hold(ends_of(channel).from) || !to.hold(ends_of(channel).to); });
  return channels;
}

}  // namespace paceline::wire

#include "membership/seat_table.h"

#include <algorithm>
#include <vector>

#include <fmt/ranges.h>

namespace paceline::membership {

using session::PeerId;
using wire::Role;
using wire::Roles;

void SeatTable::take(const wire::PeerName& name, PeerId peer) {
  for (const Role role : name.roles.list()) holders_[{role, name.rank}] = peer;
}

void SeatTable::free(const wire::PeerName& name) {
  for (const Role role : name.roles.list()) holders_.erase({role, name.rank});
}

std::optional<PeerId> SeatTable::holder(Role role, Rank rank) const {
  const auto held = holders_.find({role, rank});
  return held == holders_.end() ? std::nullopt : std::optional(held->second);
}

std::optional<Rank> SeatTable::free_rank(Roles roles) const {
  for (Rank rank{0}; rank.value < places(roles); ++rank.value) {
    if (std::ranges::none_of(roles.list(), [&](Role role) { return holder(role, rank).has_value(); })) return rank;
  }
  return std::nullopt;
}

std::int32_t SeatTable::count(Role role) const {
  return static_cast<std::int32_t>(std::ranges::count_if(holders_, [&](const auto& held) { return held.first.first == role; }));
}

bool SeatTable::is_full(Role role) const { return count(role) >= places(role); }

std::int32_t SeatTable::places(Roles roles) const {
  std::int32_t least = std::max(workers_, servers_);
  for (const Role role : roles.list()) least = std::min(least, role == Role::kServer ? servers_ : workers_);
  return least;
}

std::int32_t SeatTable::free_places() const { return workers_ + servers_ - static_cast<std::int32_t>(holders_.size()); }

std::string SeatTable::text(Roles roles) const {
  std::vector<std::string> texts;
  for (const Role role : roles.list()) texts.push_back(fmt::format("{} {}s", places(role), to_string(role)));
  return fmt::format("{}", fmt::join(texts, " and "));
}

std::string SeatTable::missing() const {
  std::vector<std::string> texts;
  for (const Role role : wire::kRankedRoles) {
    if (places(role) > 0) texts.push_back(fmt::format("{} of {} {}s", count(role), places(role), to_string(role)));
  }
  return fmt::format("{} have joined", fmt::join(texts, " and "));
}

std::string SeatTable::absent() const {
  constexpr std::size_t kNamed = 8;  // more would hide the rest of the sentence
  std::vector<std::string> names;
  for (const Role role : wire::kRankedRoles) {
    for (Rank rank{0}; rank.value < places(role); ++rank.value) {
      if (!holder(role, rank)) names.push_back(wire::Seat{role, rank}.text());
    }
  }
  if (names.size() <= kNamed) return fmt::format("{}", fmt::join(names, ", "));
  const std::size_t more = names.size() - kNamed;
  names.resize(kNamed);
  return fmt::format("{} and {} more", fmt::join(names, ", "), more);
}

}  // namespace paceline::membership

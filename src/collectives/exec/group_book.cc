#include "collectives/exec/group_book.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "collectives/exec/eager_credit.h"

namespace paceline::collectives {
namespace {

constexpr std::size_t kMostListed = 32;  // ranks in a sentence

}  // namespace

std::optional<std::uint32_t> GroupBook::number_of(std::uint64_t name) {
  const std::lock_guard lock(naming_);
  if (const auto found = names_.find(name); found != names_.end()) return found->second;
  std::uint32_t number = next_;
  if (!free_.empty()) {
    number = free_.extract(free_.begin()).value();
  } else if (next_ == end_) {
    return std::nullopt;
  } else {
    ++next_;
  }
  names_[name] = number;
  return number;
}

std::optional<GroupBook::Difference> GroupBook::on_made(Rank by, std::uint32_t number, const wire::CollectiveGroup& group) {
  const auto own = by == self_ ? number : number_of(group.name);
  if (!own) return std::nullopt;  // nobody here can make it either
  const auto [at, fresh] = entries_.try_emplace(*own, Entry{.group = group, .made_by = by});
  Entry& entry = at->second;
  if (by != self_) {
    own_[{by, number}] = *own;
    entry.theirs.emplace_back(by, number);
  }
  if (entry.group.ranks == group.ranks) return std::nullopt;
  const bool first = entry.made_by < by;
  return Difference{first ? entry.made_by : by, first ? by : entry.made_by, first ? entry.group.ranks : group.ranks,
                    first ? group.ranks : entry.group.ranks};
}

std::optional<std::uint32_t> GroupBook::on_closed(Rank by, std::uint32_t number, std::uint32_t last) {
  const auto own = by == self_ ? number : own_number(by, number);
  const auto entry = own ? entries_.find(*own) : entries_.end();
  if (entry == entries_.end()) return std::nullopt;
  entry->second.closed[by] = last;
  return own;
}

void GroupBook::on_told(Rank by, std::uint32_t number) {
  if (const auto entry = entries_.find(number); entry != entries_.end()) entry->second.told.insert(by);
}

std::vector<std::uint32_t> GroupBook::on_lost(Rank rank) {
  lost_.insert(rank);
  std::vector<std::uint32_t> in;
  for (const auto& [number, entry] : entries_) {
    if (std::ranges::binary_search(entry.group.ranks, rank)) in.push_back(number);
  }
  return in;
}

std::optional<std::uint32_t> GroupBook::own_number(Rank at, std::uint32_t number) const {
  if (number < kFirstMade || number >= end_) return number;
  const auto found = own_.find({at, number});
  return found == own_.end() ? std::nullopt : std::optional(found->second);
}

bool GroupBook::is_closed_here(std::uint32_t number) const {
  const auto entry = entries_.find(number);
  return entry != entries_.end() && entry->second.closed.contains(self_);
}

std::optional<Rank> GroupBook::left_before(std::uint32_t number, std::uint32_t operation) const {
  const auto entry = entries_.find(number);
  if (entry == entries_.end()) return std::nullopt;
  for (const auto& [rank, last] : entry->second.closed) {
    if (rank != self_ && is_after(operation, last)) return rank;
  }
  return std::nullopt;
}

std::vector<Rank> GroupBook::ranks_of(std::uint32_t number) const {
  const auto entry = entries_.find(number);
  return entry == entries_.end() ? std::vector<Rank>() : entry->second.group.ranks;
}

bool GroupBook::is_over(const Entry& entry) const {
  return entry.closed.contains(self_) && std::ranges::all_of(entry.group.ranks, [&](Rank rank) {
           return rank == self_ || lost_.contains(rank) || (entry.closed.contains(rank) && entry.told.contains(rank));
         });
}

bool GroupBook::forget_if_over(std::uint32_t number) {
  const auto at = entries_.find(number);
  if (at == entries_.end() || !is_over(at->second)) return false;
  for (const auto& theirs : at->second.theirs) {
    const auto own = own_.find(theirs);
    if (own != own_.end() && own->second == number) own_.erase(own);  // else it serves another group there already
  }
  {
    const std::lock_guard lock(naming_);
    names_.erase(at->second.group.name);
    free_.insert(number);
  }
  entries_.erase(at);
  return true;
}

std::string list_of(const std::vector<Rank>& ranks) {
  std::vector<std::int32_t> shown;
  for (const Rank rank : ranks) {
    if (shown.size() < kMostListed) shown.push_back(rank.value);
  }
  if (shown.size() == ranks.size()) return fmt::format("[{}]", fmt::join(shown, ", "));
  return fmt::format("[{}, and {} more]", fmt::join(shown, ", "), ranks.size() - shown.size());
}

}  // namespace paceline::collectives

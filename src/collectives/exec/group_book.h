// Which groups of ranks there are, as each of their ranks has made and closed them. A group has a name, the same at all its ranks,
// and at each rank a number of that rank's own, by which its messages go. So ranks that made one group of different lists find out
// before a message of it counts, and a number serves another group when nothing of the last one can come any more: every rank has
// closed it, and all others know that this one has.
//
// Numbers below kFirstMade are the same at all ranks, which know without a word who is in such a group.
//
// Pure. number_of() may be called by any thread; the rest has one owner.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/quantity.h"
#include "wire/collective.h"

namespace paceline::collectives {

class GroupBook {
 public:
  static constexpr std::uint32_t kFirstMade = 64;

  // Two ranks that made a group of different lists.
  struct Difference {
    Rank one, other;
    std::vector<Rank> ones, others;
  };

  // `self` has numbers from kFirstMade to below `end`.
  GroupBook(Rank self, std::uint32_t end) : self_(self), end_(end) {}

  // How many groups may be open at a time.
  std::uint32_t most() const { return end_ - kFirstMade; }

  // The number by which this rank calls the group of that name. Nothing: so many groups are open that none is left.
  std::optional<std::uint32_t> number_of(std::uint64_t name);

  // A rank, this one or another, has made a group and calls it `number`. Something: its list is not another rank's.
  std::optional<Difference> on_made(Rank by, std::uint32_t number, const wire::CollectiveGroup& group);
  // A rank has closed the group that it calls `number`, after its operation `last`. The own number; nothing: there is no such
  // group.
  std::optional<std::uint32_t> on_closed(Rank by, std::uint32_t number, std::uint32_t last);
  // The rank knows that this one has closed the group.
  void on_told(Rank by, std::uint32_t number);
  // The groups that it was in.
  std::vector<std::uint32_t> on_lost(Rank rank);

  // What this rank calls a group that is `number` at another one. Nothing: that one has not said which group it means.
  std::optional<std::uint32_t> own_number(Rank at, std::uint32_t number) const;
  bool is_closed_here(std::uint32_t number) const;
  // A rank that has closed the group before its operation `operation`.
  std::optional<Rank> left_before(std::uint32_t number, std::uint32_t operation) const;
  // Of a group that somebody has made; else empty.
  std::vector<Rank> ranks_of(std::uint32_t number) const;

  // Whether the group is over: it is forgotten, and its number serves another one from now on.
  bool forget_if_over(std::uint32_t number);

 private:
  struct Entry {
    wire::CollectiveGroup group;
    Rank made_by;                                        // first
    std::map<Rank, std::uint32_t> closed;                // by whom, after which operation
    std::set<Rank> told;                                 // who knows that this rank has closed it
    std::vector<std::pair<Rank, std::uint32_t>> theirs;  // its numbers at others
  };

  bool is_over(const Entry& entry) const;

  const Rank self_;
  const std::uint32_t end_;
  std::mutex naming_;  // guards what follows
  std::map<std::uint64_t, std::uint32_t> names_;
  std::set<std::uint32_t> free_;
  std::uint32_t next_ = kFirstMade;

  std::map<std::uint32_t, Entry> entries_;  // by own number
  std::map<std::pair<Rank, std::uint32_t>, std::uint32_t> own_;
  std::set<Rank> lost_;
};

// "[0, 1, 5]", with few of many ranks
std::string list_of(const std::vector<Rank>& ranks);

}  // namespace paceline::collectives

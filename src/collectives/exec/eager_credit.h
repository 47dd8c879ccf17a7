// How much a rank may send to others before they are known to have begun the operations that it belongs to, and which has to wait
// in their memory meanwhile (early_messages.h). Both ends derive the same limit, so that nobody is sent more than it keeps.
//
// A group's operations begin in the order of their numbers: who has begun one has begun all before it. So one number and one sum
// stand for all that went to a peer in a group.
//
// Pure: no clock, thread or network. One owner. Memory: what a peer has had of a group is allocated once.
#pragma once

#include <map>
#include <vector>

#include "base/quantity.h"
#include "wire/collective.h"

namespace paceline::collectives {

// Bytes of one operation that may be sent to a peer that is not known to have begun it.
inline constexpr std::int64_t kEagerBytes = 262'144;

// What a rank keeps of all others together, unless they are so many that each may fill less than one operation does.
inline constexpr std::int64_t kMostEarlyBytes = std::int64_t{256} << 20;
std::int64_t early_bytes_of_each(std::int32_t ranks);

// Numbers of operations, modulo 2^32.
constexpr bool is_after(std::uint32_t a, std::uint32_t b) { return static_cast<std::int32_t>(a - b) > 0; }

class EagerCredit {
 public:
  // Of one of so many ranks.
  explicit EagerCredit(std::int32_t ranks);

  // Whether `bytes` of an operation that begins here, at most kEagerBytes, may be sent to `to` at once; they count then until it is
  // known to have begun. False: all that there is room for is on its way.
  bool take(Rank to, const wire::CollectiveHead& operation, std::int64_t bytes);
  // `from` says something of an operation: it has begun it.
  void on_begun(Rank from, const wire::CollectiveHead& operation);
  // This rank begins no operation of the group any more: it is asked about none.
  void on_closed(std::uint32_t group);
  // Nothing of the group can come any more.
  void forget(std::uint32_t group);
  // Whose beginning would give room for the peer, the newest of each group but `group`; each is named once.
  std::vector<wire::CollectiveHead> to_ask_about(Rank peer, std::uint32_t group);

 private:
  struct Sent {
    std::uint32_t begun = 0;      // the newest operation that the peer is known to have begun
    std::int64_t bytes = 0;       // of those behind it
    wire::CollectiveHead newest;  // of those
    bool asked = false;           // about it
  };
  struct Peer {
    std::int64_t bytes = 0;
    std::map<std::uint32_t, Sent> sent;  // by group
  };

  Peer& at(Rank rank) { return peers_[static_cast<std::size_t>(rank.value)]; }

  const std::int64_t limit_;  // for each
  std::vector<Peer> peers_;
};

}  // namespace paceline::collectives

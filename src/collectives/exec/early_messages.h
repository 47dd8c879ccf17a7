// Messages of operations that have not been begun here, in memory until they are: of each sender as much as its EagerCredit lets it
// send.
//
// Pure: no clock, thread or network. One owner; the pool outlives it.
#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"
#include "collectives/exec/block_pool.h"
#include "collectives/exec/eager_credit.h"

namespace paceline::collectives {

struct EarlyMessage {
  Rank from;
  wire::CollectiveHead head;
  BlockPool::Block block;  // the payload, if it has one
  bool complete = false;   // which has arrived
  bool ready = false;      // a kCollectiveReady
};

class EarlyMessages {
 public:
  using Key = std::pair<std::uint32_t, std::uint32_t>;  // group, number

  // Of one of so many ranks.
  EarlyMessages(Rank self, std::int32_t ranks, BlockPool& pool)
      : self_(self), limit_(early_bytes_of_each(ranks)), pool_(pool), bytes_(static_cast<std::size_t>(ranks)) {}

  // A message with a payload begins: its place. Errors: kOverloaded, more than its sender may send.
  Result<std::span<std::byte>> on_begin(Rank from, const wire::CollectiveHead& head, std::uint64_t bytes);
  // It has arrived.
  void on_arrived(Rank from, const wire::CollectiveHead& head, std::span<const std::byte> payload);
  // A message without payload.
  void add(Rank from, const wire::CollectiveHead& head, bool ready);
  // Nothing of the group can come any more, and nobody begins its operations.
  void forget(std::uint32_t group);
  // Nothing comes of the peer any more: what has not arrived is no message.
  void on_lost(Rank peer);
  // Whether anything has come for the operation.
  bool has(const Key& operation) const;
  // The operation begins: what has come for it.
  std::vector<EarlyMessage> take(const Key& operation);

 private:
  static Key key_of(const wire::CollectiveHead& head) { return {head.group, head.number}; }
  std::int64_t& bytes_of(Rank sender) { return bytes_[static_cast<std::size_t>(sender.value)]; }

  const Rank self_;
  const std::int64_t limit_;  // of each sender
  BlockPool& pool_;
  std::map<Key, std::vector<EarlyMessage>> waiting_;
  std::vector<std::int64_t> bytes_;  // by sender
};

}  // namespace paceline::collectives

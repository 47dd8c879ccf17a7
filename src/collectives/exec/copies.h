// Copies of small messages, each until it has been delivered. One owner; the pool outlives it. Once warm it allocates nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/quantity.h"
#include "collectives/exec/block_pool.h"

namespace paceline::collectives {

class Copies {
 public:
  explicit Copies(BlockPool& pool) : pool_(pool) {}

  // The place of a copy for `to`; `payload` is the copy's from now on.
  std::uint32_t take(Rank to, std::span<const std::byte>& payload) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(copies_.size()));
      copies_.emplace_back();
    }
    const std::uint32_t at = free_.back();
    free_.pop_back();
    copies_[at] = {to, pool_.take(payload.size())};
    const auto bytes = copies_[at].block.bytes();
    std::ranges::copy(payload, bytes.begin());
    payload = bytes;
    bytes_ += static_cast<std::int64_t>(bytes.size());
    return at;
  }

  void drop(std::uint32_t at) {
    bytes_ -= static_cast<std::int64_t>(copies_[at].block.bytes().size());
    copies_[at].block = {};
    free_.push_back(at);
  }

  void on_lost(Rank peer) {
    for (std::uint32_t at = 0; at < copies_.size(); ++at) {
      if (copies_[at].block && copies_[at].to == peer) drop(at);
    }
  }

  std::int64_t bytes() const { return bytes_; }

 private:
  struct Copy {
    Rank to;
    BlockPool::Block block;
  };

  BlockPool& pool_;
  std::vector<Copy> copies_;
  std::vector<std::uint32_t> free_;  // places
  std::int64_t bytes_ = 0;
};

}  // namespace paceline::collectives

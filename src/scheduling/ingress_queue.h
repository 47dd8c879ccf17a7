// In which order a server works off the gradients that have arrived (P3, section 4.2: the second of the places that priority
// needs). Pure: no thread, clock or I/O, so servers and predictions run the same object. Owned by one progress loop.
//
// Order: lower layer first and within a layer first come, first served, or first come, first served throughout. It can only matter
// while more than one gradient waits, so whoever owns it takes everything from the network before it works one off.
//
// Cost: O(log n) per item; no allocation once warm.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/quantity.h"
#include "scheduling/schedule.h"

namespace paceline::scheduling {

// `Item`: the owner's own, copied.
template <typename Item>
class IngressQueue {
 public:
  explicit IngressQueue(Order order) : order_(order) {}

  void reserve(std::size_t items) { heap_.reserve(items); }

  void on_arrived(Layer layer, const Item& item) {
    if (next_ - oldest_ == taken_.size()) grow();
    taken_[slot(next_)] = 0;
    heap_.push_back({order_ == Order::kByLayer ? layer.index : 0, next_++, item});
    std::ranges::push_heap(heap_, LessUrgent{});
  }

  // The next one to work off; nothing when none waits.
  std::optional<Item> take() {
    if (heap_.empty()) return std::nullopt;
    std::ranges::pop_heap(heap_, LessUrgent{});
    const Waiting chosen = heap_.back();
    heap_.pop_back();
    if (chosen.sequence != oldest_) ++reorderings_;
    taken_[slot(chosen.sequence)] = 1;
    while (oldest_ != next_ && taken_[slot(oldest_)] != 0) ++oldest_;
    return chosen.item;
  }

  std::size_t waiting() const { return heap_.size(); }
  // Items taken before one that had arrived earlier: what the priority changed.
  std::uint64_t reorderings() const { return reorderings_; }

 private:
  struct Waiting {
    std::int32_t urgency = 0;
    std::uint64_t sequence = 0;
    Item item;
  };
  // A heap's top is the greatest, so the most urgent is the greatest.
  struct LessUrgent {
    bool operator()(const Waiting& a, const Waiting& b) const {
      return std::pair(a.urgency, a.sequence) > std::pair(b.urgency, b.sequence);
    }
  };

  std::size_t slot(std::uint64_t sequence) const { return sequence & (taken_.size() - 1); }

  void grow() {
    std::vector<char> larger(std::max<std::size_t>(64, 2 * taken_.size()));
    for (std::uint64_t sequence = oldest_; sequence != next_; ++sequence)
      larger[sequence & (larger.size() - 1)] = taken_[slot(sequence)];
    taken_ = std::move(larger);
  }

  Order order_;
  std::vector<Waiting> heap_;
  std::vector<char> taken_;  // whether item `sequence` is gone, of oldest_ .. next_ - 1; a ring, its size a power of two
  std::uint64_t oldest_ = 0, next_ = 0;
  std::uint64_t reorderings_ = 0;
};

}  // namespace paceline::scheduling

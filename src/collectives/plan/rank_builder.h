// Internal to this folder: collects the steps of one rank. Messages of no elements are left out, on both sides alike.
#pragma once

#include <algorithm>
#include <span>

#include "collectives/plan/plan.h"

namespace paceline::collectives {

// Ranks in a line or a circle that starts at rank `first`, or that stand in `order`; algorithms talk about positions 0..ranks-1 in
// it.
struct Circle {
  int ranks;
  int first;
  std::span<const int> order;  // of the request, which outlives the circle; empty: ascending

  int rank_at(int position) const {
    if (!order.empty()) return order[static_cast<std::size_t>(position)];
    return static_cast<int>((static_cast<std::int64_t>(position) + first) % ranks);
  }
  int position_of(int rank) const {
    if (!order.empty()) return static_cast<int>(std::find(order.begin(), order.end(), rank) - order.begin());
    return static_cast<int>((static_cast<std::int64_t>(rank) - first + ranks) % ranks);
  }
  int after(int position, int distance) const { return static_cast<int>((static_cast<std::int64_t>(position) + distance) % ranks); }
  int before(int position, int distance) const {
    return static_cast<int>((static_cast<std::int64_t>(position) - distance + ranks) % ranks);
  }
};

class RankBuilder {
 public:
  RankBuilder(const PlanRequest& request, Circle circle, int rank)
      : elements_(request.elements), circle_(circle), position_(circle.position_of(rank)) {}

  const Circle& circle() const { return circle_; }
  int ranks() const { return circle_.ranks; }
  int position() const { return position_; }

  Range part(int index) const { return part_of(elements_, ranks(), index); }
  // `count` <= ranks parts from `first` on, around the circle.
  Place parts(int first, int count) const {
    if (count == 0) return {};
    const int straight = std::min(count, ranks() - first);
    const Range end = part(first + straight - 1);
    const std::int64_t begin = part(first).first;
    Place place{Memory::kBuffer, {begin, end.first + end.count - begin}, {}};
    if (straight < count) {
      const Range last = part(count - straight - 1);
      place.wrapped = {0, last.first + last.count};
    }
    if (place.range.count == 0) std::swap(place.range, place.wrapped);
    return place;
  }
  static Place scratch(std::int64_t first, std::int64_t count) { return {Memory::kScratch, {first, count}, {}}; }

  void send(int to_position, const Place& from) {
    if (from.count() > 0) plan_.steps.push_back({StepKind::kSend, round_, circle_.rank_at(to_position), from, {}});
  }
  void receive(int from_position, const Place& to) {
    if (to.count() == 0) return;
    note(to);
    plan_.steps.push_back({StepKind::kReceive, round_, circle_.rank_at(from_position), {}, to});
  }
  void reduce(const Place& from, const Place& to) { local(StepKind::kReduce, from, to); }
  void copy(const Place& from, const Place& to) { local(StepKind::kCopy, from, to); }

  // Receives into scratch memory and adds to `to`. Sends of the same round must be listed before.
  void receive_and_reduce(int from_position, const Place& to) {
    const Place arrived = scratch(0, to.count());
    receive(from_position, arrived);
    reduce(arrived, to);
  }

  void start_round(std::int64_t round) { round_ = round; }
  RankPlan take() { return std::move(plan_); }

 private:
  void local(StepKind kind, const Place& from, const Place& to) {
    if (to.count() > 0) plan_.steps.push_back({kind, round_, 0, from, to});
  }
  void note(const Place& to) {
    if (to.memory == Memory::kScratch) plan_.scratch = std::max(plan_.scratch, to.range.first + to.range.count);
  }

  std::int64_t elements_;
  Circle circle_;
  int position_;
  std::int64_t round_ = 0;
  RankPlan plan_;
};

// Each adds one phase's steps from round `start` on and returns the first round after it. The message lies in place.

// linear_pipeline.cc: blocks along the chain of positions.
std::int64_t pipeline_broadcast(RankBuilder& builder, const PlanRequest& request, std::int64_t start);  // from position 0
std::int64_t pipeline_reduce(RankBuilder& builder, const PlanRequest& request, std::int64_t start);     // to the last position
std::int64_t pipeline_allreduce(RankBuilder& builder, const PlanRequest& request, std::int64_t start);

// trees.cc: binomial trees rooted at position 0.
std::int64_t tree_broadcast(RankBuilder& builder, std::int64_t start);  // the whole message
std::int64_t tree_reduce(RankBuilder& builder, std::int64_t start);
std::int64_t tree_scatter(RankBuilder& builder, std::int64_t start);  // part i to position i
std::int64_t tree_gather(RankBuilder& builder, std::int64_t start);   // part i from position i

// circles.cc
std::int64_t circulant_reduce_scatter(RankBuilder& builder, std::int64_t start);  // position i ends with part i
std::int64_t circulant_allgather(RankBuilder& builder, std::int64_t start);       // position i starts with part i
std::int64_t ring_reduce_scatter(RankBuilder& builder, std::int64_t start);       // the same two around a ring
std::int64_t ring_allgather(RankBuilder& builder, std::int64_t start);
std::int64_t direct_reduce_scatter(RankBuilder& builder,
                                   std::int64_t start);  // position i ends with part i, summed in order of position

}  // namespace paceline::collectives

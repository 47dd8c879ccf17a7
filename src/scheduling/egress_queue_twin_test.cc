#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "scheduling/egress_queue_testing.h"

namespace paceline::scheduling {
namespace {

// The twin that anybody believes: a plain list, searched in full for each decision.
class Twin {
 public:
  Twin(EgressOptions options, const EgressRules& rules)
      : options_(options), orders_{rules.pushes, rules.replies}, pushes_first_(rules.pushes_first) {}
  struct Item {
    EgressQueue::Unit unit;
    std::uint64_t sequence;
    std::int64_t taken = 0;
  };
  std::optional<EgressQueue::Chunk> take() {
    std::int64_t active = 0;
    for (const auto& [destination, held] : in_flight) {
      const bool queued = open[destination] && std::any_of(items.begin(), items.end(),
                                                           [d = destination](const Item& i) { return i.unit.destination == d; });
      if (!silent.contains(destination) && (held > 0 || queued)) ++active;
    }
    const auto c = options_.chunk.count;
    const auto holding = std::count_if(in_flight.begin(), in_flight.end(),
                                       [&](const auto& lane) { return lane.second >= c && !silent.contains(lane.first); });
    const auto w = holding > 1 ? std::max(options_.window.count, options_.wide.count) : options_.window.count;
    const auto share = active <= 1 ? w : std::min(std::max(2 * c, 2 * w / active), w - c);
    std::int64_t counted = 0;
    for (const auto& [destination, held] : in_flight) counted += silent.contains(destination) ? 0 : std::min(held, share);
    // Of each flow the most urgent unit of each open destination, if its next chunk fits the share; of those the most urgent.
    std::array<Item*, 2> best = {nullptr, nullptr};
    std::set<std::uint32_t> with_room;
    for (const auto& [destination, held] : in_flight) {
      for (int flow = 0; flow < 2; ++flow) {
        Item* head = nullptr;
        for (Item& item : items) {
          if (item.unit.destination == destination && static_cast<int>(item.unit.flow) == flow &&
              (head == nullptr || key(item) < key(*head)))
            head = &item;
        }
        if (head == nullptr || !open[destination] || silent.contains(destination) || held + cost(next(*head)) > share) continue;
        with_room.insert(destination);
        Item*& first = best[static_cast<std::size_t>(flow)];
        if (first == nullptr || key(*head, held) < key(*first, in_flight[first->unit.destination])) first = head;
      }
    }
    if (with_room.empty()) return std::nullopt;
    bool turn = false;
    Item* chosen = best[0] == nullptr ? best[1] : best[0];
    if (best[0] != nullptr && best[1] != nullptr) {
      const int a = key(*best[0]).first, b = key(*best[1]).first;
      const Iteration a_iteration = best[0]->unit.iteration, b_iteration = best[1]->unit.iteration;
      const bool by_layer = orders_[0] == Order::kByLayer && orders_[1] == Order::kByLayer, one_controls = (a < 0) != (b < 0);
      turn = !one_controls && !pushes_first_ && (!by_layer || (a == b && a_iteration == b_iteration));
      const bool push_first = one_controls    ? a < b
                              : pushes_first_ ? a_iteration <= b_iteration
                                              : std::pair(a_iteration, a) < std::pair(b_iteration, b);
      chosen = best[turn ? static_cast<std::size_t>(next_turn) : push_first ? 0 : 1];
    }
    if (counted + cost(next(*chosen)) > w) return std::nullopt;
    const Item* oldest = nullptr;
    for (const Item& item : items) {
      if (with_room.contains(item.unit.destination) && (oldest == nullptr || item.sequence < oldest->sequence)) oldest = &item;
    }
    const auto flow = static_cast<std::size_t>(chosen->unit.flow);
    const bool ordered = orders_[flow] == Order::kByLayer && chosen->unit.layer.index >= 0;
    if (ordered && oldest->sequence < chosen->sequence && key(*chosen).first < key(*oldest).first) ++overtakes[flow];
    if (turn) ++turns;
    next_turn = flow == 0 ? 1 : 0;
    const EgressQueue::Chunk chunk{chosen->unit.destination, chosen->unit.tag, {chosen->taken}, {next(*chosen)}};
    in_flight[chunk.destination] += cost(chunk.size.count);
    chosen->taken += chunk.size.count;
    if (chosen->taken == chosen->unit.size.count) items.erase(items.begin() + (chosen - items.data()));
    return chunk;
  }
  std::int64_t cost(std::int64_t size) const { return std::max(size, std::min<std::int64_t>(256, options_.chunk.count)); }

  std::vector<Item> items;
  std::map<std::uint32_t, std::int64_t> in_flight;
  std::map<std::uint32_t, bool> open;
  std::set<std::uint32_t> silent;
  std::array<std::uint64_t, 2> overtakes{};
  std::uint64_t turns = 0;
  int next_turn = 0;

 private:
  // Among the first ones of several destinations with so many bytes on their way.
  std::tuple<int, std::int64_t, std::uint64_t, std::uint64_t> key(const Item& item, std::int64_t held) const {
    const auto [layer, sequence] = key(item);
    return {layer, item.unit.turn ? 0 : held, item.unit.turn.value_or(0), sequence};
  }
  std::pair<int, std::uint64_t> key(const Item& item) const {
    const bool by_layer = orders_[static_cast<std::size_t>(item.unit.flow)] == Order::kByLayer;
    return {by_layer ? item.unit.layer.index : std::min(item.unit.layer.index, 0), item.sequence};
  }
  std::int64_t next(const Item& item) const {
    const auto c = options_.chunk.count, rest = item.unit.size.count - item.taken;
    const auto most = options_.window.count >= 4 * c ? c + c / 2 : c;
    return rest <= most ? rest : c;
  }
  EgressOptions options_;
  std::array<Order, 2> orders_;
  bool pushes_first_;
};

TEST(EgressQueue, DecidesAsAFullSearchDoesOnThousandsOfRandomHistories) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    std::mt19937_64 random(seed);
    const auto pick = [&](std::int64_t low, std::int64_t high) {
      return std::uniform_int_distribution<std::int64_t>(low, high)(random);
    };
    EgressOptions options;
    EgressRules rules{.pushes_first = pick(0, 3) == 0};
    for (Order* const order : {&rules.pushes, &rules.replies}) *order = pick(0, 3) == 0 ? Order::kFirstInFirstOut : Order::kByLayer;
    const std::int64_t reply_share = pick(0, 2);                              // of 2: some histories have one flow only
    const std::int64_t planned = seed % 3 == 0 ? 10 : seed % 3 == 1 ? 0 : 3;  // of 10
    options.chunk = {pick(1, 600)};
    options.window = {options.chunk.count * pick(2, 9) + pick(0, options.chunk.count)};
    options.wide = {seed % 2 == 0 ? 0 : options.chunk.count * pick(0, 20)};
    EgressQueue queue(options);
    queue.set_rules(rules);
    Twin twin(options, rules);
    const auto destinations = seed % 4 == 0 ? pick(14, 40) : pick(1, 5);  // few are looked at, many are kept in order
    for (int d = 0; d < destinations; ++d) {
      const auto added = queue.add();
      twin.in_flight[added] = 0;
      twin.open[added] = false;
    }
    std::vector<EgressQueue::Chunk> on_their_way;
    std::uint64_t sequence = 0;
    for (int step = 0; step < 150; ++step) {
      const auto d = static_cast<std::uint32_t>(pick(0, destinations - 1));
      switch (pick(0, 9)) {
        case 0:
          (twin.open[d] ? queue.pause(d) : queue.resume(d));
          twin.open[d] = !twin.open[d];
          if (twin.in_flight[d] == 0 || pick(0, 3) > 0) break;
          queue.on_silence(d);
          twin.silent.insert(d);
          break;
        case 1:
        case 2:
        case 3: {
          const EgressQueue::Unit unit{.destination = d,
                                       .layer = {static_cast<int>(pick(-1, 4))},
                                       .size = {pick(0, 4) == 0 ? 0 : pick(1, 2000)},
                                       .tag = sequence,
                                       .flow = pick(1, 2) > reply_share ? Flow::kPush : Flow::kReply,
                                       .iteration = pick(7, 8),
                                       .turn = pick(0, 9) < planned ? std::optional<std::uint64_t>(pick(0, 3)) : std::nullopt};
          queue.on_ready(unit);
          twin.items.push_back({unit, sequence++});
          break;
        }
        case 4:
        case 5:
        case 6:
          if (!on_their_way.empty()) {
            const auto at = static_cast<std::size_t>(pick(0, static_cast<std::int64_t>(on_their_way.size()) - 1));
            queue.on_acknowledged(on_their_way[at].destination, on_their_way[at].size);
            twin.silent.erase(on_their_way[at].destination);
            twin.in_flight[on_their_way[at].destination] -= twin.cost(on_their_way[at].size.count);
            on_their_way.erase(on_their_way.begin() + static_cast<std::ptrdiff_t>(at));
          }
          break;
        default: {
          const auto got = queue.take();
          const auto wanted = twin.take();
          ASSERT_EQ(got.has_value(), wanted.has_value()) << "seed " << seed << " step " << step;
          if (!got) break;
          ASSERT_EQ(got->tag, wanted->tag) << "seed " << seed << " step " << step;
          ASSERT_EQ(got->destination, wanted->destination) << "seed " << seed;
          ASSERT_EQ(got->offset, wanted->offset) << "seed " << seed;
          ASSERT_EQ(got->size, wanted->size) << "seed " << seed;
          on_their_way.push_back(*got);
        }
      }
      ASSERT_EQ(queue.waiting(), twin.items.size()) << "seed " << seed;
    }
    ASSERT_EQ(queue.overtakes(Flow::kPush), twin.overtakes[0]) << "seed " << seed;
    ASSERT_EQ(queue.overtakes(Flow::kReply), twin.overtakes[1]) << "seed " << seed;
    ASSERT_EQ(queue.turns(), twin.turns) << "seed " << seed;
  }
}

}  // namespace
}  // namespace paceline::scheduling

#include "scheduling/egress_queue.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

namespace paceline::scheduling {
namespace {

using Unit = EgressQueue::Unit;
using Chunk = EgressQueue::Chunk;

std::vector<std::uint64_t> tags_until_empty(EgressQueue& queue) {
  std::vector<std::uint64_t> tags;
  while (const auto chunk = queue.take()) {
    tags.push_back(chunk->tag);
    queue.on_acknowledged(chunk->destination, chunk->size);
  }
  return tags;
}

EgressQueue::Destination open(EgressQueue& queue) {
  const auto destination = queue.add();
  queue.resume(destination);
  return destination;
}

TEST(EgressQueue, LowerLayersLeaveFirstAndEqualLayersInTheOrderOfBecomingReady) {
  EgressQueue queue({.order = Order::kByLayer, .window = {1000}, .chunk = {100}});
  const auto to = open(queue);
  for (const auto& [layer, tag] :
       std::vector<std::pair<int, std::uint64_t>>{{3, 0}, {1, 1}, {2, 2}, {1, 3}, {3, 4}, {-1, 5}, {1, 6}}) {
    queue.on_ready({.destination = to, .layer = {layer}, .size = {100}, .tag = tag});
  }
  EXPECT_EQ(tags_until_empty(queue), (std::vector<std::uint64_t>{5, 1, 3, 6, 2, 0, 4}));
}

TEST(EgressQueue, FirstInFirstOutStillLetsTheControlPlaneGoFirst) {
  EgressQueue queue({.order = Order::kByLayer, .window = {1000}, .chunk = {100}});
  queue.set_order(Flow::kPush, Order::kFirstInFirstOut);
  const auto to = open(queue);
  for (const auto& [layer, tag] : std::vector<std::pair<int, std::uint64_t>>{{3, 0}, {1, 1}, {-1, 2}, {0, 3}})
    queue.on_ready({.destination = to, .layer = {layer}, .size = {100}, .tag = tag});
  EXPECT_EQ(tags_until_empty(queue), (std::vector<std::uint64_t>{2, 0, 1, 3}));
}

TEST(EgressQueue, FirstInFirstOutIgnoresLayersAndNeverOvertakes) {
  EgressQueue queue({.order = Order::kFirstInFirstOut, .window = {1000}, .chunk = {100}});
  const auto to = open(queue);
  for (std::uint64_t tag = 0; tag < 5; ++tag)
    queue.on_ready({.destination = to, .layer = {static_cast<int>(9 - tag)}, .size = {300}, .tag = tag});
  EXPECT_EQ(tags_until_empty(queue), (std::vector<std::uint64_t>{0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4}));
  EXPECT_EQ(queue.overtakes(), 0U);
}

TEST(EgressQueue, ATailOfHalfAChunkLeavesWithTheChunkBeforeIt) {
  const auto sizes = [](std::int64_t window, std::int64_t unit) {
    EgressQueue queue({.window = {window}, .chunk = {100}});
    queue.on_ready({.destination = open(queue), .layer = {1}, .size = {unit}});
    std::vector<std::int64_t> all;
    while (const auto chunk = queue.take()) {
      EXPECT_EQ(chunk->offset.count, std::accumulate(all.begin(), all.end(), std::int64_t{0}));
      all.push_back(chunk->size.count);
      queue.on_acknowledged(chunk->destination, chunk->size);
    }
    return all;
  };
  using Sizes = std::vector<std::int64_t>;
  EXPECT_EQ(sizes(400, 150), Sizes({150}));
  EXPECT_EQ(sizes(400, 151), Sizes({100, 51}));
  EXPECT_EQ(sizes(400, 101), Sizes({101}));
  EXPECT_EQ(sizes(400, 350), Sizes({100, 100, 150}));
  EXPECT_EQ(sizes(400, 351), Sizes({100, 100, 100, 51}));
  EXPECT_EQ(sizes(399, 350), Sizes({100, 100, 100, 50})) << "a larger chunk might not fit into a share of a small window";
}

// Large units of one layer for three servers: none of them gets the whole of one while the others get nothing.
TEST(EgressQueue, ChunksOfOneLayerGoWhereTheFewestBytesAreOnTheirWay) {
  EgressQueue queue({.window = {700}, .chunk = {100}});
  for (std::uint64_t tag = 0; tag < 3; ++tag)
    queue.on_ready({.destination = open(queue), .layer = {2}, .size = {1000}, .tag = tag});
  std::vector<std::uint64_t> tags;
  while (const auto chunk = queue.take()) tags.push_back(chunk->tag);
  EXPECT_EQ(tags, (std::vector<std::uint64_t>{0, 1, 2, 0, 1, 2, 0}));
  queue.on_acknowledged(2, {100});
  EXPECT_EQ(queue.take()->tag, 2U);
  queue.on_acknowledged(0, {100});
  queue.on_acknowledged(0, {100});
  EXPECT_EQ(queue.take()->tag, 0U) << "the one that is served faster gets more";
}

TEST(EgressQueue, MoreIsOnTheWayToSeveralDestinationsThanToOne) {
  EgressQueue queue({.window = {4000}, .wide = {10'000}, .chunk = {1000}});
  const auto one = open(queue), other = open(queue);
  const auto taken = [&] {
    int chunks = 0;
    while (queue.take()) ++chunks;
    return chunks;
  };
  queue.on_ready({.destination = one, .layer = {1}, .size = {50'000}});
  EXPECT_EQ(taken(), 4) << "an urgent unit waits for no more than the window";
  queue.on_ready({.destination = other, .layer = {0}, .size = {50}});
  queue.on_acknowledged(one, {1000});
  EXPECT_EQ(taken(), 1) << "a message of a few bytes is no second destination";
  queue.on_acknowledged(other, {50});
  queue.on_acknowledged(one, {1000});
  queue.on_ready({.destination = other, .layer = {2}, .size = {50'000}});
  taken();
  EXPECT_EQ(queue.in_flight(), Bytes{10'000});
  EXPECT_EQ(queue.in_flight(one), Bytes{9000}) << "its share, for its layer comes first";
}

// What leaves, in which order: p is a chunk of a push, r one of a reply.
std::string flows_until_empty(EgressQueue& queue) {
  std::string flows;
  while (const auto chunk = queue.take()) {
    flows += static_cast<char>(chunk->tag);
    queue.on_acknowledged(chunk->destination, chunk->size);
  }
  return flows;
}

TEST(EgressQueue, PushesAndRepliesOfOneLayerTakeTurnsChunkByChunk) {
  EgressQueue queue({.window = {400}, .chunk = {100}});
  const auto server = open(queue), worker = open(queue);
  queue.on_ready({.destination = server, .layer = {3}, .size = {400}, .tag = 'p'});
  queue.on_ready({.destination = worker, .layer = {3}, .size = {200}, .tag = 'r', .flow = Flow::kReply});
  queue.on_ready({.destination = worker, .layer = {3}, .size = {100}, .tag = 'r', .flow = Flow::kReply});
  EXPECT_EQ(flows_until_empty(queue), "prprprp");
  EXPECT_EQ(queue.turns(), 6U) << "the last push had no reply beside it";
  EXPECT_EQ(queue.overtakes(), 0U) << "taking turns is no priority";
  // Who was served last waits, also when the other comes later.
  queue.on_ready({.destination = server, .layer = {3}, .size = {300}, .tag = 'p'});
  queue.on_ready({.destination = worker, .layer = {3}, .size = {300}, .tag = 'r', .flow = Flow::kReply});
  EXPECT_EQ(flows_until_empty(queue), "rprprp");
}

TEST(EgressQueue, AMoreUrgentLayerOfEitherFlowGoesFirst) {
  EgressQueue queue({.window = {400}, .chunk = {100}});
  const auto to = open(queue);
  queue.on_ready({.destination = to, .layer = {5}, .size = {200}, .tag = 'p'});
  queue.on_ready({.destination = to, .layer = {2}, .size = {200}, .tag = 'r', .flow = Flow::kReply});
  EXPECT_EQ(flows_until_empty(queue), "rrpp");
  EXPECT_EQ(queue.overtakes(Flow::kReply), 2U);
  EXPECT_EQ(queue.overtakes(Flow::kPush), 0U);
  queue.on_ready({.destination = to, .layer = {5}, .size = {200}, .tag = 'r', .flow = Flow::kReply});
  queue.on_ready({.destination = to, .layer = {2}, .size = {100}, .tag = 'p'});
  EXPECT_EQ(flows_until_empty(queue), "prr");
  EXPECT_EQ(queue.overtakes(Flow::kPush), 1U);
  EXPECT_EQ(queue.turns(), 0U);
}

// Without it the workers that are ahead would push the next iteration before the values that the others wait for.
TEST(EgressQueue, AValueOfTheIterationBeforeGoesBeforeGradientsOfTheNext) {
  EgressQueue queue({.window = {400}, .chunk = {100}});
  const auto to = open(queue);
  queue.on_ready({.destination = to, .layer = {2}, .size = {200}, .tag = 'p', .iteration = 8});
  queue.on_ready({.destination = to, .layer = {9}, .size = {200}, .tag = 'r', .flow = Flow::kReply, .iteration = 7});
  EXPECT_EQ(flows_until_empty(queue), "rrpp");
  EXPECT_EQ(queue.turns(), 0U);
  queue.on_ready({.destination = to, .layer = {2}, .size = {200}, .tag = 'p', .iteration = 8});
  queue.on_ready({.destination = to, .layer = {9}, .size = {200}, .tag = 'r', .flow = Flow::kReply, .iteration = 8});
  EXPECT_EQ(flows_until_empty(queue), "pprr") << "of one iteration the layer decides";
  for (const Flow flow : {Flow::kPush, Flow::kReply}) queue.set_order(flow, Order::kFirstInFirstOut);
  queue.on_ready({.destination = to, .layer = {2}, .size = {200}, .tag = 'p', .iteration = 8});
  queue.on_ready({.destination = to, .layer = {9}, .size = {200}, .tag = 'r', .flow = Flow::kReply, .iteration = 7});
  EXPECT_EQ(flows_until_empty(queue), "prpr") << "without layers neither flow is for later";
}

TEST(EgressQueue, OneOrderedFlowAndOneThatIsNotTakeTurns) {
  EgressQueue queue({.window = {400}, .chunk = {100}});
  queue.set_order(Flow::kReply, Order::kFirstInFirstOut);
  const auto to = open(queue);
  for (const auto& [layer, tag] : std::vector<std::pair<int, char>>{{9, 'b'}, {1, 'a'}})
    queue.on_ready({.destination = to, .layer = {layer}, .size = {200}, .tag = static_cast<std::uint64_t>(tag)});
  for (const auto& [layer, tag] : std::vector<std::pair<int, char>>{{8, 'x'}, {2, 'y'}, {-1, 'c'}})
    queue.on_ready(
        {.destination = to, .layer = {layer}, .size = {100}, .tag = static_cast<std::uint64_t>(tag), .flow = Flow::kReply});
  EXPECT_EQ(flows_until_empty(queue), "caxaybb") << "pushes by layer, replies as they came, the control plane before all";
  // Without any order left they still do: systems without priorities send gradients and values beside each other.
  queue.set_order(Flow::kPush, Order::kFirstInFirstOut);
  for (const char tag : std::string("prrp")) {
    queue.on_ready({.destination = to,
                    .layer = {tag == 'p' ? 7 : 1},
                    .size = {100},
                    .tag = static_cast<std::uint64_t>(tag),
                    .flow = tag == 'p' ? Flow::kPush : Flow::kReply});
  }
  EXPECT_EQ(flows_until_empty(queue), "rprp");
}

TEST(EgressQueue, FirstComeFirstServedIsEvenBetweenDestinations) {
  EgressQueue queue({.order = Order::kFirstInFirstOut, .window = {400}, .chunk = {100}});
  const auto one = open(queue), two = open(queue);
  for (const auto& [to, tag] : std::vector<std::pair<std::uint32_t, char>>{{one, 'a'}, {one, 'b'}, {two, 'x'}, {two, 'y'}})
    queue.on_ready({.destination = to, .layer = {tag}, .size = {200}, .tag = static_cast<std::uint64_t>(tag)});
  std::string order;
  std::vector<EgressQueue::Destination> held;
  for (int i = 0; i < 4; ++i) {
    const auto chunk = queue.take();
    ASSERT_TRUE(chunk);
    order += static_cast<char>(chunk->tag);
    held.push_back(chunk->destination);
  }
  EXPECT_EQ(order, "axax");
  for (const auto destination : held) queue.on_acknowledged(destination, {100});
  EXPECT_EQ(flows_until_empty(queue), "bbyy") << "the order in which they became ready, where nothing is on its way";
}

TEST(EgressQueue, APlansStepsLeaveInSequenceWhateverIsOnItsWay) {
  EgressQueue queue({.window = {400}, .chunk = {100}});
  const auto one = open(queue), two = open(queue);
  for (const auto& [to, tag] : std::vector<std::pair<std::uint32_t, char>>{{one, 'a'}, {two, 'x'}, {one, 'b'}})
    queue.on_ready({.destination = to, .size = {200}, .tag = static_cast<std::uint64_t>(tag), .in_sequence = true});
  std::string order;
  while (const auto chunk = queue.take()) order += static_cast<char>(chunk->tag);
  EXPECT_EQ(order, "aaxx") << "the first destination is served first, until the window is full";
  EXPECT_EQ(queue.waiting(), 1U);
}

TEST(EgressQueue, ANewWindowAndChunkCountFromTheNextChunkOn) {
  EgressQueue queue({.window = {4000}, .chunk = {2000}});
  const auto to = open(queue);
  queue.on_ready({.destination = to, .size = {10'000}, .tag = 1});
  EXPECT_EQ(queue.take()->size.count, 2000);
  EXPECT_EQ(queue.take()->size.count, 2000);
  queue.set_window({2000}, {500});
  EXPECT_FALSE(queue.take()) << "more is on its way than the new window allows";
  queue.on_acknowledged(to, {2000});
  queue.on_acknowledged(to, {2000});
  const auto next = queue.take();
  ASSERT_TRUE(next);
  EXPECT_EQ(next->offset.count, 4000);
  EXPECT_EQ(next->size.count, 500);
  int more = 0;
  while (queue.take()) ++more;
  EXPECT_EQ(more, 3);
}

TEST(EgressQueue, AnUrgentUnitOvertakesBetweenTheChunksOfALongOne) {
  EgressQueue queue({.window = {200}, .chunk = {100}});
  const auto to = open(queue);
  queue.on_ready({.destination = to, .layer = {7}, .size = {1000}, .tag = 7});
  ASSERT_EQ(queue.take()->tag, 7U);
  ASSERT_EQ(queue.take()->tag, 7U);
  EXPECT_FALSE(queue.take()) << "two chunks fill the window";
  queue.on_ready({.destination = to, .layer = {0}, .size = {150}, .tag = 1});
  queue.on_acknowledged(to, {100});
  const auto next = queue.take();
  ASSERT_TRUE(next);
  EXPECT_EQ(next->tag, 1U);
  EXPECT_EQ(queue.overtakes(), 1U);
  queue.on_acknowledged(to, {100});
  const auto rest = queue.take();
  EXPECT_EQ(rest->tag, 1U);
  EXPECT_EQ(rest->offset.count, 100);
  EXPECT_EQ(rest->size.count, 50);
  queue.on_acknowledged(to, {100});
  queue.on_acknowledged(to, {50});
  EXPECT_EQ(queue.take()->offset.count, 200) << "the long unit goes on where it stopped";
  EXPECT_EQ(queue.overtakes(), 2U);
}

TEST(EgressQueue, AUnitWithoutBytesLeavesOnceAndTakesRoomInTheWindow) {
  EgressQueue queue({.window = {1024}, .chunk = {512}});
  const auto to = open(queue);
  for (std::uint64_t tag = 0; tag < 100; ++tag) queue.on_ready({.destination = to, .tag = tag});
  int taken = 0;
  while (const auto chunk = queue.take()) {
    EXPECT_EQ(chunk->size.count, 0);
    EXPECT_EQ(chunk->tag, static_cast<std::uint64_t>(taken));
    ++taken;
  }
  EXPECT_EQ(taken, 4);
  queue.on_acknowledged(to, {0});
  EXPECT_TRUE(queue.take());
}

TEST(EgressQueue, OneSlowDestinationOfTwoCannotFillTheWindow) {
  EgressQueue queue({.window = {400}, .chunk = {100}});
  const auto slow = open(queue);
  const auto quick = open(queue);
  queue.on_ready({.destination = slow, .layer = {0}, .size = {10'000}, .tag = 1});
  queue.on_ready({.destination = quick, .layer = {5}, .size = {10'000}, .tag = 2});
  std::map<std::uint64_t, int> taken;
  while (const auto chunk = queue.take()) ++taken[chunk->tag];
  EXPECT_EQ(taken[1], 3);
  EXPECT_EQ(taken[2], 1);
  for (int i = 0; i < 50; ++i) {  // the slow one never acknowledges
    queue.on_acknowledged(quick, {100});
    const auto chunk = queue.take();
    ASSERT_TRUE(chunk) << i;
    EXPECT_EQ(chunk->tag, 2U);
  }
}

TEST(EgressQueue, ADestinationThatFilledTheWindowAloneDoesNotBlockAnotherThatWakesUp) {
  for (const std::int64_t window : {200, 250, 400}) {
    EgressQueue queue({.window = {window}, .chunk = {100}});
    const auto slow = open(queue);
    const auto quick = open(queue);
    queue.on_ready({.destination = slow, .size = {10'000}, .tag = 1});
    while (queue.take()) {
    }
    EXPECT_EQ(queue.in_flight().count, window / 100 * 100) << "alone it may use all of the window";
    queue.on_ready({.destination = quick, .size = {300}, .tag = 2});
    const auto chunk = queue.take();
    ASSERT_TRUE(chunk) << window;
    EXPECT_EQ(chunk->tag, 2U);
  }
}

TEST(EgressQueue, APausedDestinationWaitsAndKeepsWhatIsOnItsWay) {
  EgressQueue queue({.window = {400}, .chunk = {100}});
  const auto to = queue.add();
  queue.on_ready({.destination = to, .size = {300}, .tag = 1});
  EXPECT_FALSE(queue.take());
  queue.resume(to);
  EXPECT_TRUE(queue.take());
  queue.pause(to);
  EXPECT_FALSE(queue.take());
  EXPECT_EQ(queue.in_flight(to).count, 100);
  queue.resume(to);
  EXPECT_EQ(queue.take()->offset.count, 100);
}

TEST(EgressQueue, RemovingADestinationForgetsItsUnitsAndItsNumberIsUsedAgain) {
  EgressQueue queue({.window = {400}, .chunk = {100}});
  const auto gone = open(queue);
  const auto stays = open(queue);
  queue.on_ready({.destination = gone, .size = {1000}, .tag = 1});
  queue.on_ready({.destination = stays, .size = {100}, .tag = 2});
  ASSERT_EQ(queue.take()->tag, 1U);
  queue.remove(gone);
  EXPECT_EQ(queue.in_flight().count, 0);
  EXPECT_EQ(queue.waiting(), 1U);
  EXPECT_EQ(tags_until_empty(queue), (std::vector<std::uint64_t>{2}));
  EXPECT_EQ(queue.add(), gone);
  EXPECT_FALSE(queue.take());
}

// The twin that anybody believes: a plain list, searched in full for each decision.
class Twin {
 public:
  Twin(EgressOptions options, std::array<Order, 2> orders) : options_(options), orders_(orders) {}
  struct Item {
    Unit unit;
    std::uint64_t sequence;
    std::int64_t taken = 0;
  };
  std::optional<Chunk> take() {
    std::int64_t active = 0;
    for (const auto& [destination, held] : in_flight) {
      const bool queued = open[destination] && std::any_of(items.begin(), items.end(),
                                                           [d = destination](const Item& i) { return i.unit.destination == d; });
      if (held > 0 || queued) ++active;
    }
    const auto c = options_.chunk.count;
    const auto holding = std::count_if(in_flight.begin(), in_flight.end(), [&](const auto& lane) { return lane.second >= c; });
    const auto w = holding > 1 ? std::max(options_.window.count, options_.wide.count) : options_.window.count;
    const auto share = active <= 1 ? w : std::min(std::max(2 * c, 2 * w / active), w - c);
    std::int64_t counted = 0;
    for (const auto& [destination, held] : in_flight) counted += std::min(held, share);
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
        if (head == nullptr || !open[destination] || held + cost(next(*head)) > share) continue;
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
      turn = !one_controls && (!by_layer || (a == b && a_iteration == b_iteration));
      const bool push_first = one_controls ? a < b : std::pair(a_iteration, a) < std::pair(b_iteration, b);
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
    const Chunk chunk{chosen->unit.destination, chosen->unit.tag, {chosen->taken}, {next(*chosen)}};
    in_flight[chunk.destination] += cost(chunk.size.count);
    chosen->taken += chunk.size.count;
    if (chosen->taken == chosen->unit.size.count) items.erase(items.begin() + (chosen - items.data()));
    return chunk;
  }
  std::int64_t cost(std::int64_t size) const { return std::max(size, std::min<std::int64_t>(256, options_.chunk.count)); }

  std::vector<Item> items;
  std::map<std::uint32_t, std::int64_t> in_flight;
  std::map<std::uint32_t, bool> open;
  std::array<std::uint64_t, 2> overtakes{};
  std::uint64_t turns = 0;
  int next_turn = 0;

 private:
  // Among the first ones of several destinations with so many bytes on their way.
  std::tuple<int, std::int64_t, std::uint64_t> key(const Item& item, std::int64_t held) const {
    const auto [layer, sequence] = key(item);
    return {layer, item.unit.in_sequence ? 0 : held, sequence};
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
};

TEST(EgressQueue, DecidesAsAFullSearchDoesOnThousandsOfRandomHistories) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    std::mt19937_64 random(seed);
    const auto pick = [&](std::int64_t low, std::int64_t high) {
      return std::uniform_int_distribution<std::int64_t>(low, high)(random);
    };
    EgressOptions options;
    std::array<Order, 2> orders{};
    for (Order& order : orders) order = pick(0, 3) == 0 ? Order::kFirstInFirstOut : Order::kByLayer;
    const std::int64_t reply_share = pick(0, 2);                              // of 2: some histories have one flow only
    const std::int64_t planned = seed % 3 == 0 ? 10 : seed % 3 == 1 ? 0 : 3;  // of 10
    options.chunk = {pick(1, 600)};
    options.window = {options.chunk.count * pick(2, 9) + pick(0, options.chunk.count)};
    options.wide = {seed % 2 == 0 ? 0 : options.chunk.count * pick(0, 20)};
    EgressQueue queue(options);
    queue.set_order(Flow::kPush, orders[0]);
    queue.set_order(Flow::kReply, orders[1]);
    Twin twin(options, orders);
    const auto destinations = pick(1, 5);
    for (int d = 0; d < destinations; ++d) {
      const auto added = queue.add();
      twin.in_flight[added] = 0;
      twin.open[added] = false;
    }
    std::vector<Chunk> on_their_way;
    std::uint64_t sequence = 0;
    for (int step = 0; step < 150; ++step) {
      const auto d = static_cast<std::uint32_t>(pick(0, destinations - 1));
      switch (pick(0, 9)) {
        case 0:
          (twin.open[d] ? queue.pause(d) : queue.resume(d));
          twin.open[d] = !twin.open[d];
          break;
        case 1:
        case 2:
        case 3: {
          const Unit unit{.destination = d,
                          .layer = {static_cast<int>(pick(-1, 4))},
                          .size = {pick(0, 4) == 0 ? 0 : pick(1, 2000)},
                          .tag = sequence,
                          .flow = pick(1, 2) > reply_share ? Flow::kPush : Flow::kReply,
                          .iteration = pick(7, 8),
                          .in_sequence = pick(0, 9) < planned};
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

TEST(EgressQueue, UnitsLeaveInOrderWhileAMillionWait) {
  EgressQueue queue({.window = {131'072}, .chunk = {65'536}});
  std::vector<EgressQueue::Destination> destinations(8);
  for (auto& destination : destinations) destination = open(queue);
  std::mt19937_64 random(5);
  constexpr std::uint64_t kUnits = 1'000'000, kDecisions = 50'000;
  std::vector<std::pair<std::int32_t, std::uint64_t>> expected(kUnits);
  for (std::uint64_t tag = 0; tag < kUnits; ++tag) {
    expected[tag] = {static_cast<std::int32_t>(random() % 100), tag};
    queue.on_ready({.destination = destinations[random() % 8], .layer = {expected[tag].first}, .size = {1000}, .tag = tag});
  }
  std::partial_sort(expected.begin(), expected.begin() + kDecisions, expected.end());
  const auto start = std::chrono::steady_clock::now();
  for (std::uint64_t i = 0; i < kDecisions; ++i) {
    const auto chunk = queue.take();
    ASSERT_TRUE(chunk);
    ASSERT_EQ(chunk->tag, expected[i].second) << i;
    queue.on_acknowledged(chunk->destination, chunk->size);
  }
  const auto spent = std::chrono::steady_clock::now() - start;
  RecordProperty("nanoseconds_per_decision", static_cast<int>(spent.count() / static_cast<std::int64_t>(kDecisions)));
  EXPECT_EQ(queue.waiting(), kUnits - kDecisions);
}

}  // namespace
}  // namespace paceline::scheduling

#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "scheduling/egress_queue_testing.h"

namespace paceline::scheduling {
namespace {

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
  queue.set_rules({.pushes = Order::kFirstInFirstOut});
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
  queue.set_rules({.pushes = Order::kFirstInFirstOut, .replies = Order::kFirstInFirstOut});
  queue.on_ready({.destination = to, .layer = {2}, .size = {200}, .tag = 'p', .iteration = 8});
  queue.on_ready({.destination = to, .layer = {9}, .size = {200}, .tag = 'r', .flow = Flow::kReply, .iteration = 7});
  EXPECT_EQ(flows_until_empty(queue), "prpr") << "without layers neither flow is for later";
}

TEST(EgressQueue, OneOrderedFlowAndOneThatIsNotTakeTurns) {
  EgressQueue queue({.window = {400}, .chunk = {100}});
  queue.set_rules({.replies = Order::kFirstInFirstOut});
  const auto to = open(queue);
  for (const auto& [layer, tag] : std::vector<std::pair<int, char>>{{9, 'b'}, {1, 'a'}})
    queue.on_ready({.destination = to, .layer = {layer}, .size = {200}, .tag = static_cast<std::uint64_t>(tag)});
  for (const auto& [layer, tag] : std::vector<std::pair<int, char>>{{8, 'x'}, {2, 'y'}, {-1, 'c'}})
    queue.on_ready(
        {.destination = to, .layer = {layer}, .size = {100}, .tag = static_cast<std::uint64_t>(tag), .flow = Flow::kReply});
  EXPECT_EQ(flows_until_empty(queue), "caxaybb") << "pushes by layer, replies as they came, the control plane before all";
  // Without any order left they still do: systems without priorities send gradients and values beside each other.
  queue.set_rules({.pushes = Order::kFirstInFirstOut});
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

TEST(EgressQueue, NobodyWaitsForADestinationThatHasFallenSilent) {
  EgressQueue queue({.window = {400}, .chunk = {100}});
  const auto silent = open(queue), other = open(queue);
  queue.on_ready({.destination = silent, .size = {10'000}, .tag = 's'});
  while (queue.take().has_value()) continue;
  queue.on_ready({.destination = other, .size = {150}, .tag = 'o'});
  EXPECT_FALSE(queue.take()) << "a chunk with its tail finds no room";
  queue.on_silence(silent);
  EXPECT_EQ(queue.in_flight().count, 0);
  EXPECT_EQ(queue.take()->size.count, 150);
  queue.on_ready({.destination = other, .size = {500}, .tag = 'p'});
  while (const auto chunk = queue.take()) EXPECT_EQ(chunk->tag, 'p');
  EXPECT_EQ(queue.in_flight().count, 350) << "what fits into the whole window";
  queue.on_acknowledged(silent, {100});
  EXPECT_EQ(queue.in_flight().count, 650) << "it counts again";
  queue.on_silence(silent);
  queue.remove(silent);
  EXPECT_EQ(queue.in_flight().count, 350);
}

TEST(EgressQueue, APlansStepsLeaveInSequenceWhateverIsOnItsWay) {
  EgressQueue queue({.window = {400}, .chunk = {100}});
  const auto one = open(queue), two = open(queue);
  for (const auto& [to, tag] : std::vector<std::pair<std::uint32_t, char>>{{one, 'a'}, {two, 'x'}, {one, 'b'}})
    queue.on_ready({.destination = to, .size = {200}, .tag = static_cast<std::uint64_t>(tag), .turn = 0});
  std::string order;
  while (const auto chunk = queue.take()) order += static_cast<char>(chunk->tag);
  EXPECT_EQ(order, "aaxx") << "the first destination is served first, until the window is full";
  EXPECT_EQ(queue.waiting(), 1U);
}

TEST(EgressQueue, AnEarlierStepOfAPlanOvertakesALaterOneThatWasReadyFirst) {
  EgressQueue queue({.window = {400}, .chunk = {100}});
  const auto leaf = open(queue), hub = open(queue);
  queue.on_ready({.destination = leaf, .size = {800}, .tag = 'l', .turn = 2});
  std::string order;
  order += static_cast<char>(queue.take()->tag);
  queue.on_ready({.destination = hub, .size = {800}, .tag = 'h', .turn = 1});
  while (const auto chunk = queue.take()) order += static_cast<char>(chunk->tag);
  EXPECT_EQ(order, "lhhh");
  queue.on_acknowledged(hub, {100});
  EXPECT_EQ(queue.take()->tag, 'h');
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

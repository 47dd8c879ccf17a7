#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "scheduling/egress_queue_testing.h"

namespace paceline::scheduling {
namespace {

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

}  // namespace
}  // namespace paceline::scheduling

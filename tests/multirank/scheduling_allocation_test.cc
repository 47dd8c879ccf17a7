// Once warm, decisions allocate nothing, with a million units waiting. A program of its own, because it counts every operator new.
#include <random>

#include <gtest/gtest.h>

#include "conformance/counting_new.h"
#include "scheduling/egress_queue.h"
#include "scheduling/ingress_queue.h"
#include "scheduling/window_follower.h"

namespace paceline::scheduling {
namespace {

constexpr std::int64_t kUnits = 1'000'000;
constexpr std::int32_t kLayers = 1'000;

// What an iteration does: everything becomes ready, then everything leaves.
void one_iteration(EgressQueue& queue, const std::vector<EgressQueue::Destination>& destinations, WindowFollower& window) {
  std::mt19937_64 random(1);
  TimePoint now{};
  for (std::int64_t i = 0; i < kUnits; ++i) {
    queue.on_ready({.destination = destinations[random() % destinations.size()],
                    .layer = {static_cast<std::int32_t>(random() % kLayers)},
                    .size = {1'000},
                    .tag = static_cast<std::uint64_t>(i),
                    .flow = random() % 2 == 0 ? Flow::kPush : Flow::kReply});
  }
  while (const auto chunk = queue.take()) {
    window.on_sent(chunk->destination, now);
    now += std::chrono::microseconds(8);
    queue.on_acknowledged(chunk->destination, chunk->size);
    if (window.on_acknowledged(chunk->destination, chunk->size, WindowFollower::Backlog::kSome, now) ==
        WindowFollower::Window::kChanged)
      queue.set_window(window.window(), window.chunk());
  }
}

TEST(SchedulingAllocation, OnceWarmAMillionUnitsOfAThousandLayersAllocateNothing) {
  EgressQueue queue({});
  WindowFollower window{WindowRule{}};
  std::vector<EgressQueue::Destination> destinations(8);
  for (auto& destination : destinations) {
    destination = queue.add();
    queue.resume(destination);
  }
  one_iteration(queue, destinations, window);
  EXPECT_EQ(queue.waiting(), 0U);
  const std::uint64_t before = transport::testing::allocations();
  one_iteration(queue, destinations, window);
  EXPECT_EQ(transport::testing::allocations() - before, 0U);
  EXPECT_EQ(queue.waiting(), 0U);
  ASSERT_TRUE(window.rate());
}

TEST(SchedulingAllocation, OnceWarmAServersQueueOfAMillionGradientsAllocatesNothing) {
  IngressQueue<std::uint32_t> queue(Order::kByLayer);
  const auto one_iteration = [&] {
    std::mt19937_64 random(1);
    for (std::int64_t i = 0; i < kUnits; ++i)
      queue.on_arrived({static_cast<std::int32_t>(random() % kLayers)}, static_cast<std::uint32_t>(i));
    while (queue.take()) {
    }
  };
  one_iteration();
  const std::uint64_t before = transport::testing::allocations();
  one_iteration();
  EXPECT_EQ(transport::testing::allocations() - before, 0U);
  EXPECT_GT(queue.reorderings(), 0U);
}

}  // namespace
}  // namespace paceline::scheduling

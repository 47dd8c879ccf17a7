#include "timeline/event_ring.h"

#include <deque>

#include <gtest/gtest.h>

namespace paceline::timeline {
namespace {

TEST(EventRing, KeepsTheNewestInOrderAndCountsTheOthers) {
  for (std::size_t capacity = 1; capacity <= 5; ++capacity) {
    EventRing ring(capacity);
    std::deque<wire::Event> newest;
    EXPECT_TRUE(ring.events().empty());
    for (std::uint32_t number = 0; number < 3 * capacity + 1; ++number) {
      ring.add({.unit = number});
      newest.push_back({.unit = number});
      if (newest.size() > capacity) newest.pop_front();
      ASSERT_EQ(ring.events(), std::vector(newest.begin(), newest.end())) << number << " in a ring of " << capacity;
      ASSERT_EQ(ring.added(), number + 1);
      ASSERT_EQ(ring.dropped(), number + 1 - newest.size());
    }
  }
}

}  // namespace
}  // namespace paceline::timeline

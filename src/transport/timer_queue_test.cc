#include "transport/timer_queue.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace paceline::transport {
namespace {

TimePoint at(std::int64_t nanoseconds) { return TimePoint(Duration(nanoseconds)); }

// The twin: an unordered list that is searched.
struct Listed {
  std::uint64_t id;
  TimePoint due;
  int number;
};

TEST(TimerQueue, DoesTheSameAsASearchedList) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    TimerQueue queue;
    std::vector<Listed> twin;
    std::vector<std::uint64_t> ids = {0, 12345};
    int numbers = 0;
    int fired = -1;
    TimePoint now = at(0);
    for (int step = 0; step < 200; ++step) {
      const auto what = random() % 10;
      if (what < 5) {
        const TimePoint due = now + Duration(random() % 20);
        const int number = numbers++;
        const auto id = queue.add(due, [&fired, number] { fired = number; });
        EXPECT_EQ(std::count(ids.begin(), ids.end(), id), 0) << "an id was used twice";
        ids.push_back(id);
        twin.push_back({id, due, number});
      } else if (what < 8) {
        const auto id = ids[random() % ids.size()];
        const bool had = static_cast<bool>(queue.cancel(id));
        EXPECT_EQ(std::erase_if(twin, [id](const Listed& one) { return one.id == id; }) == 1, had);
      } else {
        now += Duration(random() % 15);
        while (true) {
          const auto work = queue.take_due(now);
          // The earliest; of equals the one asked for first, which stands first.
          const auto first =
              std::min_element(twin.begin(), twin.end(), [](const Listed& a, const Listed& b) { return a.due < b.due; });
          const bool due = first != twin.end() && first->due <= now;
          ASSERT_EQ(static_cast<bool>(work), due);
          if (!due) break;
          work();
          EXPECT_EQ(fired, first->number);
          twin.erase(first);
        }
      }
      const auto first = std::min_element(twin.begin(), twin.end(), [](const Listed& a, const Listed& b) { return a.due < b.due; });
      ASSERT_EQ(queue.next_due(), first == twin.end() ? std::nullopt : std::optional(first->due));
    }
  }
}

TEST(TimerQueue, ATimerPushedBackForeverDoesNotGrowIt) {
  TimerQueue queue;
  std::uint64_t id = queue.add(at(1'000'000'000), [] {});
  std::uint64_t first_slot = static_cast<std::uint32_t>(id);
  for (int i = 0; i < 100000; ++i) {
    queue.cancel(id);
    id = queue.add(at(1'000'000'000 + i), [] {});
    ASSERT_LE(static_cast<std::uint32_t>(id), first_slot + 1);
  }
  EXPECT_EQ(queue.next_due(), at(1'000'099'999));
}

}  // namespace
}  // namespace paceline::transport

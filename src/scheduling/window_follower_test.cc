#include "scheduling/window_follower.h"

#include <algorithm>
#include <deque>

#include <gtest/gtest.h>

namespace paceline::scheduling {
namespace {

using namespace std::chrono_literals;
using Backlog = WindowFollower::Backlog;
using Window = WindowFollower::Window;

TimePoint at(Duration since_start) { return TimePoint(since_start); }

// A link of `rate` bytes/s and a round trip, with a queue before it: chunks of 50 000 bytes are handed over as the window allows.
class Link {
 public:
  Link(WindowRule rule, double rate, Duration delay) : follower_(rule), rate_(rate), delay_(delay) {}

  // Sends for so long with something waiting all the time.
  void keep_busy(Duration length) {
    const TimePoint end = now_ + length;
    while (now_ < end) step(Backlog::kSome);
  }
  // Then nothing more waits.
  void drain() {
    while (!on_their_way_.empty()) acknowledge(Backlog::kNone);
    now_ += 50ms;
  }
  void set_rate(double rate) { rate_ = rate; }
  void set_delay(Duration delay) { delay_ = delay; }
  WindowFollower& follower() { return follower_; }
  int changes = 0;

 private:
  static constexpr std::int64_t kChunk = 50'000;
  struct Chunk {
    TimePoint received;
  };

  void step(Backlog backlog) {
    while (static_cast<std::int64_t>(on_their_way_.size() + 1) * kChunk <= follower_.window().count) {
      free_ = std::max(free_, now_) + from_seconds(kChunk / rate_);
      on_their_way_.push_back({free_ + delay_});
      follower_.on_sent(0, now_);
    }
    acknowledge(backlog);
  }
  void acknowledge(Backlog backlog) {
    now_ = std::max(now_, on_their_way_.front().received);
    on_their_way_.pop_front();
    if (follower_.on_acknowledged(0, {kChunk}, backlog, now_) == Window::kChanged) ++changes;
  }

  WindowFollower follower_;
  double rate_;
  Duration delay_;
  TimePoint now_{}, free_{};
  std::deque<Chunk> on_their_way_;
};

TEST(WindowFollower, FindsTheRateAndItsWindowAndStaysThere) {
  for (const double rate : {25e6, 125e6, 1250e6}) {
    SCOPED_TRACE(rate);
    Link link({}, rate, 100us);
    EXPECT_EQ(link.follower().window(), kStartWindow);
    EXPECT_FALSE(link.follower().rate());
    link.keep_busy(2s);
    ASSERT_TRUE(link.follower().rate());
    EXPECT_NEAR(link.follower().rate()->value, rate, 0.02 * rate);
    const Duration round_trip = *link.follower().round_trip();
    EXPECT_EQ(round_trip, 100us + from_seconds(50'000 / rate)) << "the first chunk found the link empty";
    const Bytes wanted = window_for({}, {rate}, round_trip);
    EXPECT_NEAR(static_cast<double>(link.follower().window().count), static_cast<double>(wanted.count),
                0.12 * static_cast<double>(wanted.count));
    const int changes = link.changes;
    link.keep_busy(2s);
    EXPECT_EQ(link.changes, changes);
  }
}

TEST(WindowFollower, AWindowThatIsTooSmallForTheLinkGrowsUntilItIsNot) {
  Link link({.size = {131'072}}, 1250e6, 1ms);  // 131 KB in a round trip of 1 ms: a tenth of the link
  link.keep_busy(3s);
  EXPECT_NEAR(link.follower().rate()->value, 1250e6, 0.05 * 1250e6);
  EXPECT_GT(link.follower().window().count, 3'000'000);
}

TEST(WindowFollower, FollowsALinkThatBecomesSlowerAndFasterAgain) {
  Link link({}, 1250e6, 100us);
  link.keep_busy(1s);
  const Bytes before = link.follower().window();
  link.set_rate(600e6);
  link.keep_busy(1s);
  EXPECT_NEAR(link.follower().rate()->value, 600e6, 20e6);
  EXPECT_LT(link.follower().window().count, before.count * 6 / 10);
  link.set_rate(1250e6);
  link.keep_busy(1s);
  EXPECT_NEAR(static_cast<double>(link.follower().window().count), static_cast<double>(before.count),
              0.12 * static_cast<double>(before.count));
}

TEST(WindowFollower, RemembersItsRateWhileAcknowledgementsAreLate) {
  Link link({}, 125e6, 100us);
  link.keep_busy(2s);
  const Bytes window = link.follower().window();
  link.set_delay(9ms);  // others fill the link towards this node
  link.keep_busy(700ms);
  EXPECT_EQ(link.follower().window(), window);
  link.keep_busy(3s);
  EXPECT_LT(link.follower().window().count, window.count) << "for good it is another link";
}

TEST(WindowFollower, TheSustainedRateIsTheLinksAlsoWhenAcknowledgementsComeInBunches) {
  // 12.5 MB/s; for a while acknowledgements stand in a queue that grows to 10 ms, and then come at once, again and again.
  Link link({}, 12.5e6, 100us);
  for (int i = 0; i < 40; ++i) {
    link.set_delay(10ms);
    link.keep_busy(70ms);
    link.set_delay(100us);
    link.keep_busy(70ms);
  }
  EXPECT_GT(link.follower().rate()->value, 13e6) << "the fastest sample ends with a bunch, else this tests nothing";
  EXPECT_NEAR(link.follower().sustained()->value, 12.5e6, 0.25e6);
}

TEST(WindowFollower, TimesInWhichLittleWasToBeSentTellNothing) {
  Link link({}, 125e6, 100us);
  link.keep_busy(1s);
  const Bytes window = link.follower().window();
  for (int i = 0; i < 50; ++i) {
    link.keep_busy(5ms);  // too short for a sample
    link.drain();
  }
  EXPECT_EQ(link.follower().window(), window);
  EXPECT_NEAR(link.follower().rate()->value, 125e6, 2e6);
  Link hardly_used({}, 125e6, 100us);
  for (int i = 0; i < 50; ++i) {
    hardly_used.keep_busy(24ms);  // the first sample, which a burst may have filled
    hardly_used.drain();
  }
  EXPECT_FALSE(hardly_used.follower().rate());
  EXPECT_EQ(hardly_used.follower().window(), kStartWindow);
}

TEST(WindowFollower, SeveralDestinationsGetMoreOnceTheRateIsKnown) {
  Link link({.spread = {1'200'000}}, 80e6, 100us);
  EXPECT_EQ(link.follower().wide().count, 0);
  link.keep_busy(1s);
  EXPECT_NEAR(static_cast<double>(link.follower().wide().count), 800'000, 40'000);
  link.set_rate(500e6);
  link.keep_busy(1s);
  EXPECT_EQ(link.follower().wide().count, 1'200'000);
}

TEST(WindowFollower, AFixedWindowIsMeasuredButStays) {
  Link link(fixed_window({262'144}), 125e6, 100us);
  link.keep_busy(1s);
  EXPECT_EQ(link.follower().window().count, 262'144);
  EXPECT_EQ(link.changes, 0);
  EXPECT_NEAR(link.follower().rate()->value, 125e6, 2e6);
}

TEST(WindowFollower, TimesOneChunkAtATimeAndForgetsADestinationThatIsRemoved) {
  WindowFollower follower{WindowRule{}};
  follower.on_sent(0, at(0ms));
  follower.on_sent(1, at(1ms));
  follower.on_sent(0, at(2ms));
  follower.on_acknowledged(1, {1000}, Backlog::kNone, at(3ms));
  EXPECT_FALSE(follower.round_trip()) << "the chunk to destination 0 is the one that is timed";
  follower.on_acknowledged(0, {1000}, Backlog::kNone, at(7ms));
  EXPECT_EQ(follower.round_trip(), 7ms);
  follower.on_sent(2, at(8ms));
  follower.on_sent(0, at(8ms));
  follower.on_removed(2);
  follower.on_sent(0, at(9ms));  // behind two others
  follower.on_acknowledged(0, {1000}, Backlog::kNone, at(10ms));
  follower.on_acknowledged(0, {1000}, Backlog::kNone, at(11ms));
  EXPECT_EQ(follower.round_trip(), 7ms);
  follower.on_acknowledged(0, {1000}, Backlog::kNone, at(12ms));
  EXPECT_EQ(follower.round_trip(), 3ms);
}

}  // namespace
}  // namespace paceline::scheduling

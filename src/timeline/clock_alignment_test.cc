#include "timeline/clock_alignment.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace paceline::timeline {
namespace {

constexpr double kSecond = 1e9;

// Another process's clock, and a network whose two directions are slow each in its own way.
struct World {
  std::int64_t offset = 0;
  double drift = 0;  // of the other clock
  std::mt19937_64 random{1};

  std::int64_t remote(double at) const { return offset + std::llround(at * (1 + drift)); }

  // Delays are the sum of a fixed part and an exponential one.
  ClockSample ask(double at, double least_out, double mean_out, double least_back, double mean_back) {
    const double out = least_out + std::exponential_distribution(1 / mean_out)(random);
    const double back = least_back + std::exponential_distribution(1 / mean_back)(random);
    return {std::llround(at), remote(at + out), std::llround(at + out + back)};
  }
};

// How far the map is off at most, between two moments of the true time.
double worst(const ClockMap& map, const World& world, double from, double to) {
  double most = 0;
  for (int i = 0; i <= 100; ++i) {
    const double at = from + (to - from) * i / 100;
    most = std::max(most, std::abs(static_cast<double>(map.to_local(world.remote(at))) - at));
  }
  return most;
}

TEST(ClockAlignment, FindsOffsetAndDriftWithinItsErrorHoweverLopsidedTheDelays) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    World world{.random = std::mt19937_64(seed)};
    world.offset = static_cast<std::int64_t>(world.random() >> 2) - (std::int64_t{1} << 61);
    world.drift = std::uniform_real_distribution(-3e-4, 3e-4)(world.random);
    const double length = std::uniform_real_distribution(0.1, 600.0)(world.random) * kSecond;
    const double out = std::uniform_real_distribution(1e3, 1e6)(world.random);
    const double back = std::uniform_real_distribution(1e3, 1e6)(world.random);
    ClockAlignment alignment;
    for (int i = 0; i < 200; ++i) alignment.add(world.ask(length * i / 200, 20e3, out, 20e3, back));
    const auto map = alignment.map(world.remote(0), world.remote(length));
    ASSERT_TRUE(map);
    EXPECT_LE(worst(*map, world, 0, length), map->error);
    // The best of 200 answers are quick ones.
    EXPECT_LE(map->error, 40e3 + (out + back) / 2);
    EXPECT_NEAR(map->drift, -world.drift, 2 * map->error / length + 1e-6);
  }
}

TEST(ClockAlignment, OneAnswerTellsTheOffsetAndTheDriftStaysOpen) {
  ClockAlignment alignment;
  EXPECT_FALSE(alignment.map(0, 1));
  alignment.add({1000, 5'000'000'000, 3000});
  const auto map = alignment.map(5'000'000'000, 6'000'000'000);
  ASSERT_TRUE(map);
  EXPECT_NEAR(static_cast<double>(map->to_local(5'000'000'000)), 2000, 2);
  EXPECT_NEAR(map->error, 1000 + ClockAlignment::kMostDrift * kSecond, 5);
}

TEST(ClockAlignment, SlowAnswersDoNoHarm) {
  World world{.offset = 77 * std::int64_t{1'000'000'000}, .drift = 5e-5};
  ClockAlignment quick;
  for (const double at : {0.0, 1.0, 2.0}) quick.add(world.ask(at * kSecond, 10e3, 1e3, 10e3, 1e3));
  ClockAlignment both = quick;
  for (int i = 0; i < 500; ++i) both.add(world.ask(2 * kSecond + i, 10e3, 5e6, 10e3, 50e6));
  const std::int64_t begin = world.remote(0), end = world.remote(2 * kSecond);
  EXPECT_LE(both.map(begin, end)->error, quick.map(begin, end)->error + 1);
  EXPECT_LE(worst(*both.map(begin, end), world, 0, 2 * kSecond), both.map(begin, end)->error);
}

// The twin that anybody believes: of very many lines, those that keep to every answer.
TEST(ClockAlignment, TheErrorIsHalfOfWhatLinesThatKeepToAllAnswersDifferBy) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    World world{.offset = 1'000'000, .drift = 1e-4, .random = std::mt19937_64(seed)};
    ClockAlignment alignment;
    std::vector<ClockSample> samples;
    const double length = 1e7;
    for (int i = 0; i < 6; ++i) {
      samples.push_back(world.ask(length * i / 5, 500, 2e3, 500, 2e3));
      alignment.add(samples.back());
    }
    const std::int64_t begin = world.remote(0), end = world.remote(length);
    const auto width = static_cast<double>(end - begin);
    double least_begin = 1e18, most_begin = -1e18, least_end = 1e18, most_end = -1e18;
    constexpr double kStep = 25, kAround = 25e3;
    for (double u = -kAround; u <= kAround; u += kStep) {
      for (double v = u - ClockAlignment::kMostDrift * width; v <= u + ClockAlignment::kMostDrift * width; v += kStep) {
        const bool keeps = std::ranges::all_of(samples, [&](const ClockSample& sample) {
          const double share = static_cast<double>(sample.remote - begin) / width;
          const double local = static_cast<double>(sample.remote - begin) + u * (1 - share) + v * share;
          return local >= static_cast<double>(sample.sent) && local <= static_cast<double>(sample.received);
        });
        if (!keeps) continue;
        least_begin = std::min(least_begin, u), most_begin = std::max(most_begin, u);
        least_end = std::min(least_end, v), most_end = std::max(most_end, v);
      }
    }
    const double expected = std::max(most_begin - least_begin, most_end - least_end) / 2;
    EXPECT_NEAR(alignment.map(begin, end)->error, expected, 3 * kStep);
  }
}

TEST(ClockAlignment, AClockThatWasSetIsSeenInTheError) {
  ClockAlignment alignment;
  for (std::int64_t i = 0; i < 10; ++i) {
    const std::int64_t at = i * 1'000'000, jump = i < 5 ? 0 : 3'000'000;
    alignment.add({at, at + 500 + jump, at + 1000});
  }
  EXPECT_GE(alignment.map(0, 12'000'000)->error, 1e6);
}

TEST(ClockAlignment, ALongJobKeepsTheQuickestAnswersOfAllItsTimes) {
  World world{.offset = -5, .drift = -2e-5};
  ClockAlignment alignment;
  constexpr int kAnswers = 20'000;
  for (int i = 0; i < kAnswers; ++i) alignment.add(world.ask(i * kSecond, 10e3, 100e3, 10e3, 100e3));
  EXPECT_LT(alignment.samples(), ClockAlignment::kMostSamples);
  const auto map = alignment.map(world.remote(0), world.remote(kAnswers * kSecond));
  EXPECT_LE(worst(*map, world, 0, kAnswers * kSecond), map->error);
  EXPECT_LE(map->error, 40e3);
}

}  // namespace
}  // namespace paceline::timeline

#include "timeline/round_trips.h"

#include <gtest/gtest.h>

namespace paceline::timeline {
namespace {

using wire::Happening;
using wire::MessageKind;

wire::Event message(Happening what, MessageKind kind, std::int32_t peer, std::uint32_t unit, std::int64_t at,
                    std::uint32_t last = 0) {
  return {.what = what, .message = kind, .peer = peer, .unit = unit, .detail = last, .iteration = 1, .begin = at, .end = at};
}

wire::Event work(Happening what, std::int32_t worker, std::uint32_t unit, std::int64_t begin, std::int64_t end) {
  return {.what = what, .peer = worker, .unit = unit, .iteration = 1, .begin = begin, .end = end};
}

std::vector<std::int64_t> times(const RoundTrip& trip) {
  std::vector<std::int64_t> times;
  for (const auto& at : trip.at) times.push_back(at.value_or(-1));
  return times;
}

const std::vector<UnitHome> kUnits = {{Rank{0}, Layer{0}, Bytes{4}}, {Rank{1}, Layer{0}, Bytes{4}}, {Rank{0}, Layer{1}, Bytes{4}}};

ProcessRecord worker(std::int32_t rank, std::vector<wire::Event> events, std::int64_t ahead) {
  return {.worker = Rank{rank}, .server = {}, .parts = {{.events = std::move(events)}}, .clock = {.remote = ahead, .local = 0}};
}

TEST(RoundTrips, AUnitIsFollowedThroughBothProcessesOnOneClock) {
  ProcessRecord server{.worker = {}, .server = Rank{0}, .parts = {{}}, .clock = {.remote = 1000, .local = 0}};
  server.parts[0].events = {
      message(Happening::kArrived, MessageKind::kPush, 0, 0, 1030),  // 1000 ahead
      work(Happening::kAggregate, 0, 0, 1040, 1041),
      message(Happening::kArrived, MessageKind::kPush, 1, 0, 1050),
      work(Happening::kUpdate, 1, 0, 1060, 1070),
      message(Happening::kQueued, MessageKind::kValue, 0, 0, 1071),
      message(Happening::kQueued, MessageKind::kValue, 1, 0, 1072),
      message(Happening::kLeft, MessageKind::kValue, 0, 0, 1080),
      message(Happening::kLeft, MessageKind::kValue, 1, 0, 1090),
  };
  const std::vector<ProcessRecord> processes = {
      worker(0,
             {message(Happening::kQueued, MessageKind::kPush, 0, 0, 10), message(Happening::kLeft, MessageKind::kPush, 0, 0, 20),
              message(Happening::kArrived, MessageKind::kValue, 0, 0, 100)},
             0),
      worker(1,
             {message(Happening::kQueued, MessageKind::kPush, 0, 0, -85), message(Happening::kLeft, MessageKind::kPush, 0, 0, -75),
              message(Happening::kArrived, MessageKind::kValue, 0, 0, 10)},
             -100),
      server};
  const auto trips = round_trips(processes, kUnits);
  ASSERT_EQ(trips.size(), 2u);
  EXPECT_EQ(trips[0].worker, Rank{0});
  EXPECT_EQ(times(trips[0]), (std::vector<std::int64_t>{10, 20, 30, 40, 60, 70, 71, 80, 100})) << "the update is worker 1's doing";
  EXPECT_EQ(times(trips[1]), (std::vector<std::int64_t>{15, 25, 50, 60, 60, 70, 72, 90, 110}));
}

TEST(RoundTrips, GradientsOfSeveralUnitsAreOnlyThoseThatLiveThere) {
  const ProcessRecord server{.worker = {},
                             .server = Rank{0},
                             .parts = {{.events = {message(Happening::kArrived, MessageKind::kPushes, 0, 0, 5, 2)}}},
                             .clock = {}};
  const auto trips =
      round_trips(std::vector{worker(0, {message(Happening::kQueued, MessageKind::kPushes, 0, 0, 1, 2)}, 0), server}, kUnits);
  ASSERT_EQ(trips.size(), 2u) << "unit 1 lives on server 1";
  for (const RoundTrip& trip : trips) {
    EXPECT_EQ(trip.at[0], 1);
    EXPECT_EQ(trip.at[2], 5);
  }
}

TEST(RoundTrips, ValuesOfSeveralUnitsAreOnlyThoseThatLiveThere) {
  const ProcessRecord server{.worker = {},
                             .server = Rank{0},
                             .parts = {{.events = {message(Happening::kQueued, MessageKind::kValues, 0, 0, 5, 2)}}},
                             .clock = {}};
  std::vector<wire::Event> events;
  for (const std::uint32_t unit : {0, 1, 2})
    events.push_back(message(Happening::kQueued, MessageKind::kPush, kUnits[unit].server.value, unit, 1));
  events.push_back(message(Happening::kArrived, MessageKind::kValues, 0, 0, 9, 2));
  const auto trips = round_trips(std::vector{worker(0, events, 0), server}, kUnits);
  ASSERT_EQ(trips.size(), 3u);
  EXPECT_EQ(trips[0].at[6], 5);
  EXPECT_EQ(trips[0].at[8], 9);
  EXPECT_EQ(trips[1].at[8], std::nullopt) << "unit 1 lives on server 1";
  EXPECT_EQ(trips[2].at[8], 9);
}

TEST(RoundTrips, AHeldIterationsUpdateIsThatOfAllItsUnits) {
  const ProcessRecord server{
      .worker = {},
      .server = Rank{0},
      .parts = {{.events = {work(Happening::kAggregate, 0, 0, 3, 4), work(Happening::kUpdate, 0, wire::kAllUnits, 6, 8)}}},
      .clock = {}};
  const auto trips =
      round_trips(std::vector{worker(0, {message(Happening::kQueued, MessageKind::kPush, 0, 0, 1)}, 0), server}, kUnits);
  ASSERT_EQ(trips.size(), 1u);
  EXPECT_EQ(times(trips[0]), (std::vector<std::int64_t>{1, -1, -1, 3, 6, 8, -1, -1, -1}));
}

TEST(RoundTrips, WhatBeganBeforeTheRecordIsLeftOut) {
  const auto trips = round_trips(std::vector{worker(0, {message(Happening::kArrived, MessageKind::kValue, 0, 0, 9)}, 0)}, kUnits);
  EXPECT_TRUE(trips.empty());
}

}  // namespace
}  // namespace paceline::timeline

#include "timeline/recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::timeline {
namespace {

using ::testing::ElementsAre;
using wire::Event;
using wire::Happening;

TimePoint at(std::int64_t us) { return TimePoint(std::chrono::microseconds(us)); }
Event during(std::int64_t from, std::int64_t to, Event event) { return wire::during(at(from), at(to), event); }

std::vector<wire::TimelinePart> parts_of(const TimelineRecorder& recorder) {
  return recorder.parts([](TimePoint at) { return at.time_since_epoch() / std::chrono::microseconds(1) + 1000; });
}

// With a clock that is 1000 us ahead.
Event recorded(std::int64_t from, std::int64_t to, Event event) {
  event.begin = from + 1000;
  event.end = to + 1000;
  return event;
}

TEST(TimelineRecorder, PassesOfLayersFollowFromGatesAndGradients) {
  TimelineRecorder recorder;
  recorder.on_event(during(1, 5, {.what = Happening::kGate, .unit = 0, .iteration = 7}));
  recorder.on_event(during(9, 9, {.what = Happening::kGate, .unit = 1, .iteration = 7}));
  recorder.on_event(during(15, 15, {.what = Happening::kForwardDone}));
  recorder.on_event(during(15, 18, {.what = Happening::kWaitGradients}));
  recorder.on_event(during(19, 19, {.what = Happening::kWaitMiniBatch}));  // is none
  recorder.on_event(during(20, 20, {.what = Happening::kBackwardBegun}));
  for (const std::int64_t us : {24, 26}) recorder.on_event(during(us, us, {.what = Happening::kGradient, .unit = 1}));
  recorder.on_event(during(30, 30, {.what = Happening::kGradient, .unit = 0}));
  recorder.on_event(during(31, 31, {.what = Happening::kBackwardDone, .iteration = 7}));
  recorder.on_event(during(32, 40, {.what = Happening::kWaitValues, .iteration = 8}));
  const auto parts = parts_of(recorder);
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_EQ(parts[0].thread, wire::TimelineThread::kTraining);
  EXPECT_THAT(parts[0].events, ElementsAre(recorded(1, 5, {.what = Happening::kGate, .unit = 0, .iteration = 7}),
                                           recorded(5, 9, {.what = Happening::kForward, .unit = 0, .iteration = 7}),
                                           recorded(9, 9, {.what = Happening::kGate, .unit = 1, .iteration = 7}),
                                           recorded(9, 15, {.what = Happening::kForward, .unit = 1, .iteration = 7}),
                                           recorded(15, 18, {.what = Happening::kWaitGradients, .iteration = 7}),
                                           recorded(19, 26, {.what = Happening::kBackward, .unit = 1, .iteration = 7}),
                                           recorded(26, 30, {.what = Happening::kBackward, .unit = 0, .iteration = 7}),
                                           recorded(32, 40, {.what = Happening::kWaitValues, .iteration = 7})));
}

TEST(TimelineRecorder, KeepsMessagesAndTheWorkOfServersAndNothingElse) {
  TimelineRecorder recorder;
  const Event sent{
      .what = Happening::kQueued, .message = wire::MessageKind::kPull, .peer = 2, .unit = 3, .detail = 4, .iteration = 5};
  const Event updated{.what = Happening::kUpdate, .peer = 1, .unit = 3, .iteration = 5};
  recorder.on_event(during(1, 1, sent));
  for (const Happening what : {Happening::kPushing, Happening::kPushed, Happening::kStepped, Happening::kPulling,
                               Happening::kReturning, Happening::kPulled, Happening::kComplete})
    recorder.on_event(during(2, 2, {.what = what}));
  recorder.on_event(during(3, 9, updated));
  const auto parts = parts_of(recorder);
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_EQ(parts[0].thread, wire::TimelineThread::kLoop);
  EXPECT_THAT(parts[0].events, ElementsAre(recorded(1, 1, sent), recorded(3, 9, updated)));
}

}  // namespace
}  // namespace paceline::timeline

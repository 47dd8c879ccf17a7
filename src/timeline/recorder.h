// Records what a process does for `--trace`. A job without --trace has none of it. Training and loop write a ring of their own each
// (timeline/event_ring.h): no lock, no allocation, some 50 ns for an event.
//
// Threads: events of the training side come from one thread at a time, everything else is for the loop.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "base/quantity.h"
#include "timeline/event_ring.h"

namespace paceline::timeline {

class TimelineRecorder final : public wire::EventSink {
 public:
  // Events of the newest iterations are kept; a large network in small slices has some ten thousand in one.
  static constexpr std::size_t kTrainingEvents = std::size_t{1} << 15, kLoopEvents = std::size_t{1} << 17;
  // How long a process that has sent its record waits at most until it has arrived.
  static constexpr Duration kFarewellLimit = std::chrono::seconds(30);

  void on_event(const wire::Event& event) override;

  // What was recorded, with `reading` for its times. On the loop, when the training thread has written its last.
  std::vector<wire::TimelinePart> parts(const std::function<std::int64_t(TimePoint)>& reading) const;

 private:
  void add_training(wire::Happening what, std::uint32_t layer, std::int64_t begin, std::int64_t end);
  void on_gradient(std::uint32_t layer, std::int64_t now);
  void end_forward(std::int64_t at);
  void end_backward();

  timeline::EventRing training_{kTrainingEvents}, loop_{kLoopEvents};
  // Of the training side: what is going on, and when it began.
  Iteration iteration_ = 0;
  std::optional<std::uint32_t> forward_, backward_;  // layers
  std::int64_t mark_ = 0, backward_begin_ = 0;
};

}  // namespace paceline::timeline

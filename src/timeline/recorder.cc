#include "timeline/recorder.h"

namespace paceline::timeline {
namespace {

using wire::Happening;

// Shorter waits are none. Nanoseconds.
constexpr std::int64_t kNoWait = 1000;

}  // namespace

// What the training side does follows from what it asks for: a layer's forward lies between its gate and the next one, a layer's
// backward between the gradients before and its last one.
void TimelineRecorder::on_event(const wire::Event& event) {
  switch (event.what) {
    case Happening::kGate:
      end_forward(event.begin);
      iteration_ = event.iteration;
      mark_ = event.end;
      forward_ = event.unit;
      return add_training(event.what, event.unit, event.begin, event.end);
    case Happening::kForwardDone:
      return end_forward(event.end);
    case Happening::kGradient:
      end_forward(event.end);
      return on_gradient(event.unit, event.end);
    case Happening::kBackwardDone:
      end_forward(event.end);
      return end_backward();
    case Happening::kWaitGradients:
    case Happening::kWaitValues:
    case Happening::kWaitMiniBatch:
      mark_ = event.end;
      if (event.end - event.begin >= kNoWait) add_training(event.what, 0, event.begin, event.end);
      return;
    case Happening::kAggregate:
    case Happening::kUpdate:
    case Happening::kQueued:
    case Happening::kLeft:
    case Happening::kArrived:
      return loop_.add(event);
    default:
      return;
  }
}

void TimelineRecorder::add_training(Happening what, std::uint32_t layer, std::int64_t begin, std::int64_t end) {
  training_.add({.what = what, .unit = layer, .iteration = iteration_, .begin = begin, .end = end});
}

void TimelineRecorder::on_gradient(std::uint32_t layer, std::int64_t now) {
  if (layer != backward_) {
    end_backward();
    backward_ = layer;
    backward_begin_ = mark_;
  }
  mark_ = now;
}

void TimelineRecorder::end_forward(std::int64_t at) {
  if (!forward_) return;
  add_training(Happening::kForward, *forward_, mark_, at);
  forward_.reset();
  mark_ = at;
}

void TimelineRecorder::end_backward() {
  if (backward_) add_training(Happening::kBackward, *backward_, backward_begin_, mark_);
  backward_.reset();
}

std::vector<wire::TimelinePart> TimelineRecorder::parts(const std::function<std::int64_t(TimePoint)>& reading) const {
  std::vector<wire::TimelinePart> parts;
  const auto take = [&](wire::TimelineThread thread, const timeline::EventRing& ring) {
    if (ring.added() == 0) return;
    wire::TimelinePart& part = parts.emplace_back();
    part = {.thread = thread, .dropped = ring.dropped(), .events = ring.events()};
    for (wire::Event& event : part.events) {
      event.begin = reading(TimePoint(Duration(event.begin)));
      event.end = reading(TimePoint(Duration(event.end)));
    }
  };
  take(wire::TimelineThread::kTraining, training_);
  take(wire::TimelineThread::kLoop, loop_);
  return parts;
}

}  // namespace paceline::timeline

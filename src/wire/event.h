// What happens in a process of a job, as everybody hears of it who only watches: the account of a worker's time
// (exchange/account.h), its live profile (scheduling/live_profile.h), the pace of all workers (report/pace_record.h), a timeline
// (timeline/recorder.h). There is one type of event and one sink with one function. So a new watcher needs no new call, and a new
// event no change in a watcher that does not care for it. Whoever has no sink tells nobody, and reads no clock for it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/quantity.h"
#include "wire/message.h"

namespace paceline::wire {

enum class Happening : std::uint8_t {
  // What a timeline holds, up to kLastRecorded (wire/timeline.h).
  //
  // On the training thread; `unit` is a layer.
  kForward,
  kBackward,
  kGate,  // waiting for the layer's parameters
  // On the training thread; `unit` means nothing.
  kWaitGradients,  // until gradients of the iteration before had left
  kWaitValues,     // for all parameters
  kWaitMiniBatch,  // until one was handed out
  // On a server's loop.
  kAggregate,  // the gradient of worker `peer` was taken; others of the unit are still missing
  kUpdate,     // it was the last one: summed, and the unit updated. kAllUnits: a held iteration's updates
  // A message (`message`, `unit`, `detail`, `iteration` as in its head; `peer` is the other end), at a moment.
  kQueued,   // it may leave
  kLeft,     // its first chunk was handed to the connection; of none between the halves of one process
  kArrived,  // it is there completely

  // On the training thread, at a moment.
  kForwardDone,
  kBackwardBegun,
  kGradient,  // of a tensor of layer `unit` is there
  kBackwardDone,
  kIterationDone,  // all gradients of the iteration are known; the next one's may come

  // The way of a unit in its worker in one iteration, each at a moment; a station that it does not pass is left out.
  kPushing,    // its gradient sets out: `bytes` of payload, where they are known
  kPushed,     // and has been received
  kStepped,    // this worker has made its update
  kPulling,    // its value sets out, from server `peer` where there is one
  kReturning,  // and begins to come
  kPulled,     // nothing of it is on its way any more: `bytes` of payload
  kComplete,   // its value is there, from an update that took another process `detail` microseconds

  // The pace of worker `peer`, as a server sees it, each at a moment.
  kStarted,  // it may begin `iteration`, `detail` ended iterations ahead of the slowest (sync::PaceRule::ahead)
  kEnded,    // all its pushes of it are there
};
inline constexpr Happening kLastRecorded = Happening::kArrived;
inline constexpr std::uint32_t kAllUnits = ~std::uint32_t{0};

// From `begin` to `end`, in nanoseconds of the process's own clock; at a moment both are the same.
struct Event {
  Happening what = Happening::kForward;
  MessageKind message = MessageKind::kPush;  // of a message
  std::int32_t peer = -1;                    // a rank, where there is one
  std::uint32_t unit = 0, detail = 0;
  Iteration iteration = 0;
  std::int64_t begin = 0, end = 0;
  std::int64_t bytes = 0;  // of events that are not recorded

  TimePoint began() const { return TimePoint(Duration(begin)); }
  TimePoint ended() const { return TimePoint(Duration(end)); }
  bool operator==(const Event&) const = default;
};

inline Event during(TimePoint from, TimePoint to, Event event) {
  event.begin = from.time_since_epoch().count();
  event.end = to.time_since_epoch().count();
  return event;
}
inline Event at(TimePoint moment, const Event& event) { return during(moment, moment, event); }

// Hears of events in the order in which they end, on the thread that tells; whoever tells says what is locked. Does little, and
// calls nothing back.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void on_event(const Event& event) = 0;
};

// Passes every event on to all that listen, in the order in which they began to.
class EventFan final : public EventSink {
 public:
  // Hears what happens from here on. Outlives this, or the last event.
  void add(EventSink& sink) { sinks_.push_back(&sink); }
  // This, or null as long as nobody listens.
  EventSink* if_heard() { return sinks_.empty() ? nullptr : this; }
  void on_event(const Event& event) override {
    for (EventSink* sink : sinks_) sink->on_event(event);
  }

 private:
  std::vector<EventSink*> sinks_;
};

}  // namespace paceline::wire

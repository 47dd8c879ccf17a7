// Records what a process does for `--trace`: observes the exchange, stands between the services and the network, and passes
// everything on unchanged. A job without --trace has none of it. Training and loop write a ring of their own each
// (timeline/event_ring.h): no lock, no allocation, some 50 ns for an event.
//
// Threads: training() as GateObserver says, everything else for the loop. Outlives what it observes and was put between.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "exchange/carrier.h"
#include "paramserver/service/server_service.h"
#include "session/channels.h"
#include "session/message_observer.h"
#include "timeline/event_ring.h"

namespace paceline::timeline {

class TimelineRecorder final : public session::MessageObserver {
 public:
  // Events of the newest iterations are kept; a large network in small slices has some ten thousand in one.
  static constexpr std::size_t kTrainingEvents = std::size_t{1} << 15, kLoopEvents = std::size_t{1} << 17;
  // How long a process that has sent its record waits at most until it has arrived.
  static constexpr Duration kFarewellLimit = std::chrono::seconds(30);

  TimelineRecorder();
  ~TimelineRecorder() override;

  // For the exchange of the process.
  exchange::GateObserver& training();
  // Calls pass through what is returned to what is given, which outlives the recorder's use.
  session::Sender& sender(session::Sender& inner);
  session::ChannelEnd* end(session::ChannelEnd* inner);
  void on_work(const paramserver::WorkDone& work);
  void on_leaving(const wire::PeerName& to, const wire::MessageHead& head) override;

  // What was recorded, with `reading` for its times. On the loop, when the training thread has written its last.
  std::vector<wire::TimelinePart> parts(const std::function<std::int64_t(TimePoint)>& reading) const;

 private:
  class Training;
  class Sender;
  class End;
  void on_message(wire::Happening what, std::int32_t peer, const wire::MessageHead& head);

  const SystemClock clock_;
  timeline::EventRing training_{kTrainingEvents}, loop_{kLoopEvents};
  std::unique_ptr<Training> observer_;
  std::vector<std::unique_ptr<Sender>> senders_;
  std::vector<std::unique_ptr<End>> ends_;
};

}  // namespace paceline::timeline

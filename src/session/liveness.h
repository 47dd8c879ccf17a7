// What an endpoint does because time has passed: attempts to connect, heartbeats, acknowledgements, and the end of peers that were
// silent for too long. Not for others. Loop thread.
#pragma once

#include "session/peer.h"

namespace paceline::session {

class Dialler;
class EndpointState;

class Liveness {
 public:
  // All outlive it.
  Liveness(EndpointCommon& common, Dialler& dialler, EndpointState& state) : common_(common), dialler_(dialler), state_(state) {}
  ~Liveness();
  Liveness(const Liveness&) = delete;
  Liveness& operator=(const Liveness&) = delete;

  void arm();                // something may be due earlier than it was
  void arm(TimePoint next);  // something is due then

 private:
  TimePoint due(const Peer& peer) const;
  TimePoint suspect_at(const Peer& peer) const;
  TimePoint stuck_at(const Peer& peer) const;
  void on_timer();
  void on_due(Peer& peer, TimePoint at);

  EndpointCommon& common_;
  Dialler& dialler_;
  EndpointState& state_;
  transport::Loop::TimerId timer_ = 0;
  TimePoint armed_ = TimePoint::max();
  std::vector<PeerId> due_;  // kept, so that nothing is allocated once warm
};

}  // namespace paceline::session

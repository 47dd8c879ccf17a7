// Tells a process that has ended from a connection that was cut, by what the kernel of its machine says: as long as a process lives
// it listens, so whoever hears "nobody listens there" where somebody did knows that it is gone, and need not wait for the silence
// deadline. Nothing here depends on how fast anybody answers. Not for others. Loop thread.
//
// The side that connects asks by connecting again (dialler.h). For the other side, the one that connects has a door at the address
// it connects from: the port where it listens anyway, or one where connections are taken and dropped. The listening side tries it
// once when the session begins, for what lies in between may translate addresses or keep others out, and believes a refusal only of
// a door that has opened. Within one machine the system may know the peer's process itself.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "session/peer.h"

namespace paceline::session {

class EndpointState;

class Doorbell {
 public:
  // Both outlive it.
  Doorbell(EndpointCommon& common, EndpointState& state) : common_(common), state_(state) {}

  // The port of this process's door at the address that `connection`, made by this side, comes from; 0: there can be none.
  std::uint16_t own_door(const transport::Connection& connection);
  // A session with a peer that connects begins or goes on over `connection`. It says that its door is at `port`.
  void meet(Peer& peer, const transport::Connection& connection, std::uint16_t port);
  // The connection with a peer that connects has ended: asks at its door until it is back or given up.
  void ring(Peer& peer);
  void close() { doors_.clear(); }

 private:
  void knock(const Peer& peer, void (Doorbell::*answer)(Peer&, const Status&));
  void on_tried(Peer& peer, const Status& answer);
  void on_rung(Peer& peer, const Status& answer);
  void ring_again(Peer& peer);

  EndpointCommon& common_;
  EndpointState& state_;
  std::map<std::string, std::unique_ptr<transport::Listener>> doors_;  // by host
  std::shared_ptr<int> alive_ = std::make_shared<int>();               // answers look whether this is still there
};

}  // namespace paceline::session

// The half of an endpoint that connects: attempts, hellos and the answers to them, until a session has a connection or is given up.
// Not for others. Loop thread.
#pragma once

#include <cstdint>
#include <memory>

#include "session/peer.h"

namespace paceline::session {

class EndpointState;

class Dialler {
 public:
  // Both outlive it.
  Dialler(EndpointCommon& common, EndpointState& state);

  PeerId connect(const transport::Address& address, const wire::PeerName& expected, Duration deadline);  // as in Endpoint
  void dial(Peer& peer);                                                                                 // an attempt to connect
  void retry(Peer& peer, Status reason);                     // an attempt brought nothing
  void on_reply(Peer& peer, const transport::Frame& frame);  // to the hello, or what came instead

 private:
  void greet(Peer& peer, std::unique_ptr<transport::Connection> connection);
  void say_hello(Peer& peer, Link& link);
  std::uint64_t draw();

  EndpointCommon& common_;
  EndpointState& state_;
  std::uint64_t random_;
  std::uint64_t id_salt_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();  // attempts look whether this is still there
};

}  // namespace paceline::session

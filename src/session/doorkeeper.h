// The half of an endpoint that is connected to: who may begin a session, who takes one up again, and who is a stranger. Not for
// others. Loop thread.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "session/peer.h"

namespace paceline::session {

class EndpointState;

class Doorkeeper {
 public:
  // Both outlive it.
  Doorkeeper(EndpointCommon& common, EndpointState& state) : common_(common), state_(state) {}

  void on_hello(Link& link, const transport::Frame& frame);  // the first frames of an accepted connection
  void reply(Link& link, const Peer& peer);                  // that it is accepted
  void refuse(Link& link, wire::Verdict verdict, const std::string& reason);
  void on_left(Link& link, const Status& reason);  // a connection that began no session has ended

 private:
  void count_stranger(Link& link, const Status& reason);
  void tell(const std::string& what);
  void judge(Link& link);
  // Why nobody of the sender's name may begin a session now, whatever it can prove.
  std::optional<std::string> refusal(const wire::Hello& hello);
  void accept(Link& link, const Secret& secret);
  void resume(Peer& peer, Link& link);
  void answer(Link& link, wire::HelloReply reply, std::span<const std::byte> text);

  EndpointCommon& common_;
  EndpointState& state_;
  // Lines about strangers: so many at once, and then one a minute, so that a crowd fills no disk and hides no member that is
  // refused.
  static constexpr std::int64_t kMostLines = 16;
  std::int64_t lines_ = kMostLines;  // that may be said now
  TimePoint counted_until_{};
};

}  // namespace paceline::session

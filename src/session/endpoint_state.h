// The inside of Endpoint: binds Sessions (session.h) and the egress queue (scheduling/egress_queue.h) to connections and the
// handler. Not for others. Loop thread.
//
//   endpoint.cc        sending, frames of established sessions
//   endpoint_links.cc  connections that come and go
//   endpoint_end.cc    the ends of sessions and of the endpoint
//   endpoint_events.cc who hears of messages
//
// Its parts share EndpointCommon (peer.h): who connects (dialler.h), who is connected to (doorkeeper.h), whether the process of
// one that is not connected still lives (doorbell.h), and what time brings (liveness.h).
#pragma once

#include <map>

#include "scheduling/egress_queue.h"
#include "scheduling/window_follower.h"
#include "session/dialler.h"
#include "session/doorbell.h"
#include "session/doorkeeper.h"
#include "session/liveness.h"
#include "session/loopback.h"
#include "session/peer.h"

namespace paceline::session {

class EndpointState {
 public:
  EndpointState(transport::Transport& transport, EndpointOptions options, EndpointHandler& handler);
  ~EndpointState();
  EndpointState(const EndpointState&) = delete;
  EndpointState& operator=(const EndpointState&) = delete;

  // As in Endpoint.
  Result<transport::Address> listen(const transport::Address& address);
  PeerId connect(const transport::Address& address, const wire::PeerName& expected, Duration deadline);
  PeerId connect_self();
  void send(PeerId peer, const wire::MessageHead& head, std::span<const std::byte> payload, std::uint64_t ticket);
  void send_owned(PeerId peer, const wire::MessageHead& head, std::vector<std::byte> payload);
  void set_identity(const wire::PeerName& self, std::uint64_t job, std::uint32_t epoch, const Secret& secret);
  void set_name(PeerId peer, const wire::PeerName& name);
  void set_egress(const scheduling::EgressRules& rules);
  void observe(wire::EventSink* events) { events_ = events; }
  void tell(wire::Happening what, Rank peer, const wire::MessageHead& head) const;
  void drop(PeerId peer, const std::string& reason);
  void close(Duration limit, std::function<void()> done, const std::string& farewell);
  std::string address_of(PeerId peer) const;
  const EndpointCounters& counters();
  LinkState link() const;

  // From links.
  std::span<std::byte> on_head(Link& link, const wire::FrameHeader& header, std::span<const std::byte> body);
  void on_frame(Link& link, const transport::Frame& frame);
  void on_sent(Link& link, std::uint64_t ticket);
  void on_closed(Link& link, const Status& reason);

  // From its parts.
  Peer& add_peer(const wire::PeerName& name, Stage stage);
  Link& add_link(std::unique_ptr<transport::Connection> connection, Peer* peer);
  // The handshake is over: the session goes on over this connection.
  void attach(Peer& peer, Link& link, std::uint64_t received);
  void transmit(Link& link, const OutFrame& frame);
  // `what` completes a sentence that begins with the peer. `goodbye`: what the peer is told; empty: nothing.
  void end(Peer& peer, ErrorKind kind, const std::string& what, const std::string& goodbye, const std::string& code = "");
  void end_gone(Peer& peer);                             // its process is no more
  std::uint16_t port_at(const std::string& host) const;  // where it listens there; 0: nowhere
  void check_closed();
  void pass_over_silent(TimePoint at);  // those who acknowledge nothing, if others wait for room in the window
  Doorbell& doorbell() { return doorbell_; }
  void arm() { liveness_.arm(); }

 private:
  // Without an acknowledgement, until others no longer wait for it.
  static constexpr Duration kPatience = std::chrono::milliseconds(250);

  // endpoint.cc
  Peer* begin_sending(PeerId peer);  // null: it is gone
  void enqueue(Peer& peer, const wire::MessageHead& head, std::uint64_t ticket, Outbox::Slot slot);
  void pump();
  void release(Peer& peer);
  void acknowledge(Peer& peer);
  std::span<std::byte> place_of_chunk(Link& link, const wire::FrameHeader& header, std::span<const std::byte> body);
  void on_event(Peer& peer, const Session::Event& event, const transport::Frame& frame);

  // endpoint_links.cc
  void on_link_lost(Peer& peer, const Status& reason);

  // endpoint_end.cc
  void finish(Peer& peer);
  void post(std::function<void()> work);

  EndpointCommon common_;
  wire::EventSink* events_ = nullptr;
  scheduling::EgressQueue queue_;
  scheduling::WindowFollower window_;
  PeerId last_peer_ = 0;
  std::unique_ptr<Loopback> loopback_;

  std::vector<std::unique_ptr<transport::Listener>> listeners_;
  std::vector<Peer*> lanes_;  // by EgressQueue::Destination
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<std::unique_ptr<Link>> dead_links_;  // until the loop has left their callbacks

  Dialler dialler_{common_, *this};
  Doorkeeper door_{common_, *this};
  Doorbell doorbell_{common_, *this};
  Liveness liveness_{common_, dialler_, *this};

  std::string farewell_;
  bool said_goodbye_ = false;
  std::function<void()> done_;

  std::shared_ptr<int> alive_ = std::make_shared<int>();  // posted work looks whether this is still there
};

}  // namespace paceline::session

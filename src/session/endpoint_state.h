// The inside of Endpoint: binds Sessions (session.h), the egress queue (scheduling/egress_queue.h) and the handshake (handshake.h)
// to connections, timers and the handler. Not for others. Loop thread.
//
//   endpoint.cc           sending, frames of established sessions
//   endpoint_connect.cc   listening, connecting, hello, connections that come and go
//   endpoint_end.cc       time, the ends of sessions and of the endpoint
//
// A Peer lives from connect() or an accepted hello until finish(), a Link as long as its connection. Both are destroyed only in
// calls that come directly from the loop, never below a call of the handler or of another Peer, so that references stay valid.
#pragma once

#include <map>
#include <unordered_map>

#include "scheduling/egress_queue.h"
#include "scheduling/window_follower.h"
#include "session/endpoint.h"
#include "session/handshake.h"
#include "session/loopback.h"
#include "session/session.h"

namespace paceline::session {

struct Link;

enum class Stage {
  kWaiting,   // connecting side: until retry_at
  kDialling,  // connecting side: the transport connects
  kGreeting,  // connecting side: hello sent, no answer yet
  kUp,        // frames of the session pass
  kDown,      // listening side: without connection, the peer may come back
  kEnding,    // on_peer_lost will follow when the connection is gone
};

struct Peer {
  Peer(TimePoint now, Duration silence_deadline) : session(now, silence_deadline) {}

  PeerId id = 0;
  PeerName name;  // whom the hello named; before that, whom connect() expects
  PeerName as;    // as whom this side began the session
  std::uint64_t session_id = 0;
  Secret secret = kNoSecret;   // what both ends prove that they know
  bool tells_secret = false;   // connecting side: it is of this session only, so that the peer has to be told
  bool connecting = false;     // this side connects, and connects again
  bool known = false;          // on_peer has been called
  transport::Address address;  // connecting side
  std::string address_text;

  Session session;
  scheduling::EgressQueue::Destination lane = 0;
  Stage stage = Stage::kWaiting;
  Link* link = nullptr;    // the connection in use
  Link* parked = nullptr;  // a newer one, which waits until the older is gone and touches no payload any more
  std::uint64_t parked_received = 0;

  std::uint32_t attempt = 0;    // hellos of this session
  std::uint32_t failures = 0;   // connections in a row that brought nothing
  TimePoint fruitless_since{};  // the first of them
  std::uint64_t progress = 0;   // chunks received and acknowledged, when the last connection ended
  Status last_failure;
  TimePoint give_up{}, retry_at{}, reply_by{}, linger_until{};
  Status end_reason;
};

struct Link final : transport::ConnectionHandler {
  Link(EndpointState& state_of, std::unique_ptr<transport::Connection> with) : state(state_of), connection(std::move(with)) {}

  std::span<std::byte> on_head(const wire::FrameHeader& header, std::span<const std::byte> body) override;
  void on_frame(const transport::Frame& frame) override;
  void on_sent(std::uint64_t ticket) override;
  void on_closed(const Status& reason) override;

  std::span<std::byte> scratch_of(std::size_t bytes);

  EndpointState& state;
  std::unique_ptr<transport::Connection> connection;
  Peer* peer = nullptr;            // null: a stranger
  bool counted = false;            // a stranger that has been counted or was told why it is refused
  wire::Hello hello;               // said last over it
  Nonce challenge{};               // what the listening side wants a proof for; all zero: nothing yet
  std::size_t queued = 0;          // frames given to the connection, not yet sent
  Status failure;                  // what was wrong with its frames
  std::vector<std::byte> scratch;  // for payloads that nobody wants
  std::string text;                // payload of a refusal or goodbye
};

class EndpointState {
 public:
  EndpointState(transport::Transport& transport, EndpointOptions options, EndpointHandler& handler);
  ~EndpointState();
  EndpointState(const EndpointState&) = delete;
  EndpointState& operator=(const EndpointState&) = delete;

  // As in Endpoint.
  Result<transport::Address> listen(const transport::Address& address);
  PeerId connect(const transport::Address& address, const PeerName& expected, Duration deadline);
  PeerId connect_self();
  void send(PeerId peer, const wire::MessageHead& head, std::span<const std::byte> payload, std::uint64_t ticket);
  void send_owned(PeerId peer, const wire::MessageHead& head, std::vector<std::byte> payload);
  void set_identity(const PeerName& self, std::uint64_t job, std::uint32_t epoch, const Secret& secret);
  void set_name(PeerId peer, const PeerName& name);
  void set_egress(const scheduling::EgressRules& rules);
  void observe(MessageObserver* observer) { observer_ = observer; }
  void drop(PeerId peer, const std::string& reason);
  void close(Duration limit, std::function<void()> done);
  std::string address_of(PeerId peer) const;
  const EndpointCounters& counters();
  LinkState link() const;

  // From links.
  std::span<std::byte> on_head(Link& link, const wire::FrameHeader& header, std::span<const std::byte> body);
  void on_frame(Link& link, const transport::Frame& frame);
  void on_sent(Link& link, std::uint64_t ticket);
  void on_closed(Link& link, const Status& reason);

 private:
  TimePoint now() const { return transport_.loop().now(); }
  Identity identity() const { return {options_.self, options_.job, options_.epoch}; }
  std::uint64_t draw();

  // endpoint.cc
  Peer* find(PeerId peer);
  void enqueue(Peer& peer, const wire::MessageHead& head, Outbox::Slot slot);
  void transmit(Link& link, const OutFrame& frame);
  void pump();
  void release(Peer& peer);
  void acknowledge(Peer& peer);
  std::span<std::byte> place_of_chunk(Link& link, const wire::FrameHeader& header, std::span<const std::byte> body);
  void on_event(Peer& peer, const Session::Event& event, const transport::Frame& frame);

  // endpoint_connect.cc
  Link& add_link(std::unique_ptr<transport::Connection> connection, Peer* peer);
  Peer& add_peer(const PeerName& name, Stage stage);
  void dial(Peer& peer);
  void greet(Peer& peer, std::unique_ptr<transport::Connection> connection);
  void say_hello(Peer& peer, Link& link);
  void retry(Peer& peer, Status reason);
  void on_hello(Link& link, const transport::Frame& frame);
  void judge(Link& link, const PeerName& name);
  // Why nobody of this name may begin a session now, whatever it can prove.
  std::optional<std::string> refusal(const wire::Hello& hello, const PeerName& name);
  void on_reply(Peer& peer, const transport::Frame& frame);
  // Whether a hello is for a rank that this process may still be given.
  bool awaits_rank(const wire::Party& wanted) const;
  Peer* find_session(std::uint64_t session);
  void accept(Link& link, const PeerName& name, const Secret& secret);
  void answer(Link& link, wire::HelloReply reply, std::span<const std::byte> text);
  void reply(Link& link, const Peer& peer);
  void refuse(Link& link, wire::Verdict verdict, const std::string& reason);
  void resume(Peer& peer, Link& link);
  void attach(Peer& peer, Link& link, std::uint64_t received);
  void count_stranger(Link& link, const Status& reason);
  void on_link_lost(Peer& peer, const Status& reason);

  // endpoint_end.cc
  void arm();
  void arm(TimePoint next);  // something is due then
  TimePoint due(const Peer& peer) const;
  void on_timer();
  void on_due(Peer& peer, TimePoint at);
  TimePoint limit(const Peer& peer) const;
  TimePoint suspect_at(const Peer& peer) const;
  // `what` completes a sentence that begins with the peer. `goodbye`: what the peer is told; empty: nothing.
  void end(Peer& peer, ErrorKind kind, const std::string& what, const std::string& goodbye);
  void finish(Peer& peer);
  void check_closed();
  void post(std::function<void()> work);

  transport::Transport& transport_;
  EndpointOptions options_;
  EndpointHandler& handler_;
  MessageObserver* observer_ = nullptr;
  scheduling::EgressQueue queue_;
  scheduling::WindowFollower window_;
  EndpointCounters counters_;
  std::uint64_t random_;
  std::uint64_t id_salt_;
  PeerId last_peer_ = 0;
  std::unique_ptr<Loopback> loopback_;

  std::vector<std::unique_ptr<transport::Listener>> listeners_;
  std::map<PeerId, std::unique_ptr<Peer>> peers_;
  std::vector<Peer*> lanes_;  // by EgressQueue::Destination
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<std::unique_ptr<Link>> dead_links_;  // until the loop has left their callbacks

  transport::Loop::TimerId timer_ = 0;
  TimePoint armed_ = TimePoint::max();

  bool closing_ = false;
  bool said_goodbye_ = false;
  TimePoint close_by_{};
  std::function<void()> done_;

  std::shared_ptr<int> alive_ = std::make_shared<int>();  // posted work looks whether this is still there
};

}  // namespace paceline::session

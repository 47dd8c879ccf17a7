// What an endpoint knows of a peer and of a connection, and what the parts of an endpoint share. Not for others. Loop thread.
//
// A Peer lives from connect() or an accepted hello until EndpointState::finish(), a Link as long as its connection. Both are
// destroyed only in calls that come directly from the loop, never below a call of the handler or of another Peer, so that
// references stay valid.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "scheduling/egress_queue.h"
#include "session/endpoint.h"
#include "session/handshake.h"
#include "session/session.h"

namespace paceline::session {

class EndpointState;
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

  // Until when the peer must be there.
  TimePoint limit() const { return known ? session.silent_at() : give_up; }

  PeerId id = 0;
  wire::PeerName name;  // whom the hello named; before that, whom connect() expects
  wire::PeerName as;    // as whom this side began the session
  std::uint64_t session_id = 0;
  Secret secret = kNoSecret;  // what both ends prove that they know
  bool tells_secret = false;  // connecting side: it is of this session only, so that the peer has to be told
  bool connecting = false;    // this side connects, and connects again
  bool known = false;         // on_peer has been called
  std::shared_ptr<const transport::PeerProcess> process;  // listening side; null: not known
  transport::Address door;     // listening side: where the peer's process listens while it lives; no host: not known
  bool ringing = false;        // it is asked there, or will be
  std::uint32_t rings = 0;     // how often, since it was connected last
  bool door_opens = false;     // somebody listened there while the peer was connected
  transport::Address address;  // connecting side
  std::string address_text;
  Duration patience{};  // connecting side: how long it may take until the peer is there

  Session session;
  scheduling::EgressQueue::Destination lane = 0;
  TimePoint waits_since = TimePoint::max();  // for an acknowledgement
  Duration waited{};                         // for acknowledgements, of so many bytes
  Bytes acknowledged{};
  bool elsewhere = false;        // on another host
  std::vector<TimePoint> ready;  // by slot, of messages of values that have not begun to leave
  Stage stage = Stage::kWaiting;
  Link* link = nullptr;    // the connection in use
  Link* parked = nullptr;  // a newer one, which waits until the older is gone and touches no payload any more
  std::uint64_t parked_received = 0;

  std::uint32_t attempt = 0;                      // hellos of this session
  std::uint32_t failures = 0;                     // connections in a row that brought nothing
  TimePoint fruitless_since{};                    // the first of them
  TimePoint attached{};                           // when the last connection began
  std::uint64_t progress = 0;                     // chunks received and acknowledged, when the last connection ended
  std::optional<wire::MessageHead> last_message;  // that came, of data
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

// What a process of this name listens for.
inline transport::Plane plane_of(const wire::PeerName& name) {
  return name.takes_data() ? transport::Plane::kData : transport::Plane::kControl;
}

// What the parts of an endpoint have in common.
struct EndpointCommon {
  TimePoint now() const { return transport.loop().now(); }
  Identity identity() const { return {options.self, options.job, options.epoch}; }
  Peer* find(PeerId peer);                    // null when its end has begun
  Peer* find_session(std::uint64_t session);  // of those that this side has accepted

  transport::Transport& transport;
  EndpointOptions options;
  EndpointHandler& handler;
  EndpointCounters counters{};
  std::map<PeerId, std::unique_ptr<Peer>> peers{};
  bool closing = false;
  TimePoint close_by = TimePoint::max();  // max() too when nobody waits for it any more
};

}  // namespace paceline::session

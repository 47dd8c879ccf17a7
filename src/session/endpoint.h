// Reliable exchange of messages with peers over any transport: the one place where sequence numbers, acknowledgement of receipt,
// chunks, priority, window, heartbeats, the silence deadline, reconnect and resend live.
//
// One Endpoint per process (more exactly: per network interface of a node), shared by all it talks to, because priority and
// window mean something only over everything that shares the link. It keeps a session with each peer; a session survives its
// connections: after a cut, a damaged frame or a duplicate connect the connecting side connects again (jittered back-off) and both
// sides resend what was not acknowledged, so every message arrives exactly once, and the chunks of one message in order.
// Messages of one session are NOT in order among themselves: a more urgent one overtakes between chunks.
//
// Threads: belongs to the transport's loop; call and be called there only.
// Memory: nothing is allocated per message once warm.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/secret.h"
#include "base/status.h"
#include "scheduling/schedule.h"
#include "transport/transport.h"
#include "wire/event.h"
#include "wire/message.h"
#include "wire/seat.h"

namespace paceline::session {

using PeerId = std::uint32_t;  // local handle of a session; never used again after its on_peer_lost

using Order = scheduling::Order;

struct EndpointOptions {
  wire::PeerName self;
  std::uint64_t job = 0;    // drawn by the coordinator; 0: not known yet. Peers of different jobs (both known) refuse each other.
  std::uint32_t epoch = 0;  // membership epoch; peers of different epochs (both not 0) refuse each other
  Secret secret =
      kNoSecret;           // of the job; none: not known yet. Who has it begins and accepts sessions only with those who prove that
                           // they know it too; whoever has none begins them with a secret of the session's own (wire/hello.h).
  std::uint64_t seed = 0;  // for session ids and back-off jitter; differs between processes
  Duration silence_deadline = std::chrono::seconds(10);  // heartbeats go out every fifth of it
  Order order = Order::kByLayer;                         // of all messages, until set_egress
  Bytes chunk = scheduling::kLargestChunk;
  Bytes window = scheduling::kStartWindow;  // unacknowledged payload bytes over all peers, until set_egress; at least two chunks.
                                            // One peer may hold at most max(2 chunks, 2 * window / peers with something to send),
                                            // and of several never all of it; see scheduling/egress_queue.h.
};
// Errors: kBadRequest naming the option and its legal range.
Result<EndpointOptions> validated(EndpointOptions options);

class Channels;       // channels.h
class EndpointState;  // endpoint_state.h

// What comes in a channel that has an end here (channels.h) does not come here.
class EndpointHandler {
 public:
  virtual ~EndpointHandler() = default;

  // Somebody connected and says who it is: accept, or refuse with a reason that the peer is told (its connect fails with it).
  // Changes nothing: it is asked before the peer has proved anything, and again when it has.
  virtual Status on_hello(const wire::PeerName& name) = 0;
  // A session begins: for the connecting side once the peer has accepted, for the listening side after on_hello.
  virtual void on_peer(PeerId peer, const wire::PeerName& name) = 0;
  // The first chunk of a message is coming. Returns the place for its payload (exactly head.payload_bytes bytes, valid until
  // on_message or on_peer_lost); or an empty one: the endpoint keeps it until on_message has returned, in memory that grows as it
  // comes; or an error: the session ends with it and on_peer_lost follows.
  virtual Result<std::span<std::byte>> on_message_begin(PeerId peer, const wire::MessageHead& head) = 0;
  // The whole message is there, once. For a message without payload this is the only call.
  virtual void on_message(PeerId peer, const wire::MessageHead& head, std::span<std::byte> payload) = 0;
  // The peer has received the message sent in `channel` with `ticket`; its payload is the caller's again. Tickets are the sender's
  // own: each channel may use all 64 bits.
  virtual void on_delivered(PeerId peer, wire::Channel channel, std::uint64_t ticket) = 0;
  // What a message of data is about, as the end of a sentence about its sender: " at layer fc6 of iteration 57"; or "".
  virtual std::string about(const wire::MessageHead&) const { return {}; }
  // Once, last, for every peer of on_peer and for every connect() that failed: silent longer than the deadline, refused, said
  // goodbye, broke the protocol. Payloads not delivered by now are the caller's again. The message names the peer, its address and
  // how long ago it was last heard.
  virtual void on_peer_lost(PeerId peer, const wire::PeerName& name, const Status& reason) = 0;
};

struct EndpointCounters {
  std::uint64_t messages_sent = 0, messages_received = 0;
  std::uint64_t payload_bytes_sent = 0, payload_bytes_received = 0;  // each message's payload once, however often resent
  std::uint64_t chunks_resent = 0, duplicates_dropped = 0, reconnects = 0, frames_damaged = 0, strangers_refused = 0;
  std::uint64_t overtakes = 0;        // chunks that left before a less urgent message that was ready first
  std::uint64_t reply_overtakes = 0;  // of them, chunks of values and notices
  std::uint64_t turns = 0;            // chunks that left because it was the turn of their flow (scheduling/egress_queue.h)
  std::uint64_t window_full = 0;      // times that something waited for an acknowledgement only
  std::uint64_t replies = 0;          // messages of values that have begun to leave,
  Duration replies_waited{};          // and how long they were ready before, all together
  std::uint64_t hellos_refused = 0;   // of peers that say who they are
  std::uint64_t doors = 0;            // peers that connect whose end would be noticed at once (doorbell.h)
};

// What acknowledgements tell of the link (scheduling/window_follower.h).
struct LinkState {
  Bytes window, chunk;                 // in use
  std::optional<BytesPerSecond> rate;  // nothing: the link was never busy for long enough
  std::optional<Duration> round_trip;
  // Of the ways to peers on other hosts over which enough was sent: the rate while something was on its way there.
  struct Way {
    wire::PeerName to;
    BytesPerSecond rate;
  };
  std::optional<Way> slowest, fastest;
};

class Endpoint {
 public:
  Endpoint(transport::Transport& transport, EndpointOptions options, EndpointHandler& handler);
  ~Endpoint();  // closes everything without callbacks
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  Channels& channels() { return *channels_; }

  // Accepts sessions at `address` (port 0: the kernel chooses); returns where.
  Result<transport::Address> listen(const transport::Address& address);

  // Begins a session. on_peer follows when the peer accepts; on_peer_lost when it refuses, or cannot be reached within
  // `deadline` (tries again until then, so that processes may start in any order).
  PeerId connect(const transport::Address& address, const wire::PeerName& expected, Duration deadline);

  // Begins a session of this process with itself: what one half sends to the other goes through memory (loopback.h). No on_peer
  // follows; on_peer_lost does when the process refuses a message of its own. Once.
  PeerId connect_self();

  // Sends a message. The payload (head.payload_bytes long) is borrowed until on_delivered(peer, channel, ticket) or on_peer_lost.
  // After on_peer_lost it does nothing.
  void send(PeerId peer, const wire::MessageHead& head, std::span<const std::byte> payload, std::uint64_t ticket);
  // Sends a message whose payload the endpoint keeps itself; no on_delivered. For the control plane: it allocates.
  void send_owned(PeerId peer, wire::MessageHead head, std::vector<std::byte> payload);

  // From now on this process is called so and belongs to this job (after the coordinator's welcome). Sessions that have begun keep
  // their secret.
  void set_identity(const wire::PeerName& self, std::uint64_t job, std::uint32_t epoch, const Secret& secret = kNoSecret);

  // A peer that came without a rank has been given one: from now on messages call it so.
  void set_name(PeerId peer, const wire::PeerName& name);

  // Ends one session without waiting; the peer is told goodbye with the reason. on_peer_lost follows on this side (kCancelled).
  void drop(PeerId peer, const std::string& reason);
  // Waits until everything sent has been acknowledged (or `limit` is over), says goodbye to all with the farewell, then calls
  // `done` once. kFarewell is the limit where only last words are on their way.
  static constexpr Duration kFarewell = std::chrono::seconds(1);
  void close(Duration limit, std::function<void()> done, const std::string& farewell = "it has finished");

  // Order of the messages sent from now on, and the window, when the job's schedule is known. Messages of the channel of values are
  // replies, all others pushes (scheduling/schedule.h).
  void set_egress(const scheduling::EgressRules& rules);

  // Tells `events`, which outlives the endpoint, of gradients and values and the requests and notices of them: what its channels
  // send (kQueued), what leaves (kLeft, once however often it is resent) and what comes to an end here (kArrived). nullptr: nobody.
  void observe(wire::EventSink* events);
  void tell(wire::Happening what, Rank peer, const wire::MessageHead& head) const;  // for its channels

  std::string address_of(PeerId peer) const;
  const EndpointCounters& counters() const;
  LinkState link() const;

 private:
  std::unique_ptr<Channels> channels_;
  std::unique_ptr<EndpointState> state_;
};

}  // namespace paceline::session

// Moves frames between processes (tcp/), threads (inproc/) or through injected faults (faulty/); open/ chooses. Nothing here knows
// what a message, a worker or a gradient is: priority, window, acknowledgement, heartbeat and resend live once, above it, in
// session/.
//
// Threads: everything of one Transport (its connections, listeners, timers) belongs to one Loop and is called and calls back on
// that loop's thread only, except where a comment says "any thread". Callbacks never block.
// Completion: each callback fires exactly once where stated, also on error and on close.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "transport/address.h"
#include "wire/frame.h"

namespace paceline::transport {

// Wakes a loop from any thread without allocating. Raises that have not been served yet merge into one.
class Signal {
 public:
  virtual ~Signal() = default;
  virtual void raise() = 0;  // any thread
};

// One thread that serves sockets, timers and posted work.
class Loop : public Clock {
 public:
  using TimerId = std::uint64_t;

  virtual void run() = 0;                             // serves until stop(); called by the thread that owns the loop
  virtual void stop() = 0;                            // any thread; run() returns after the callback in progress
  virtual void post(std::function<void()> work) = 0;  // any thread; runs once, in order of posting
  virtual std::unique_ptr<Signal> make_signal(
      std::function<void()> on_raised) = 0;  // any thread; destroy on the loop or when it is not running
  virtual TimerId run_after(Duration delay, std::function<void()> work) = 0;  // loop thread
  virtual void cancel(TimerId timer) = 0;                                     // loop thread; unknown ids are ignored
};

struct Frame {
  const wire::FrameHeader& header;
  std::span<const std::byte> body;
  std::span<std::byte> payload;  // where on_head said
};

class ConnectionHandler {
 public:
  virtual ~ConnectionHandler() = default;

  // A frame with a payload begins; its head has passed its checks. Returns the place of exactly `header.payload_bytes` bytes that
  // stays valid until on_frame or on_closed; a span of another size refuses the frame, and the connection closes.
  virtual std::span<std::byte> on_head(const wire::FrameHeader& header, std::span<const std::byte> body) = 0;
  // The whole frame is there and its checksums hold.
  virtual void on_frame(const Frame& frame) = 0;
  // The payload of the frame sent with this ticket is no longer needed by the transport.
  virtual void on_sent(std::uint64_t ticket) = 0;
  // Once, last: the connection is gone and touches no buffer any more. Not called inside send() or close() but from the loop.
  // kCancelled after close() by this side, kPeerLost after an end by the peer or the network, kCorrupt, kBadRequest (stranger,
  // other version), kDeadline (a stranger took too long).
  virtual void on_closed(const Status& reason) = 0;
};

// The process at the other end of a connection within one machine, as the system knows it.
class PeerProcess {
 public:
  virtual ~PeerProcess() = default;
  virtual bool ended() const = 0;
};

// Who is at the two ends of a connection.
struct Ends {
  std::string peer;  // for messages: "127.0.0.1:41022"
  // This side as the other one sees it when nothing in between translates; without a host where a transport has no such thing.
  Address local{};
  std::shared_ptr<const PeerProcess> process{};  // null: the system does not know it
};

class Connection {
 public:
  virtual ~Connection() = default;  // closes without a callback if still open

  // Begins to read. Before it nothing is delivered. The handler outlives the connection or its on_closed.
  virtual void start(ConnectionHandler& handler) = 0;
  // Queues a frame behind those already queued. The head is copied, the payload borrowed until on_sent(ticket) or on_closed;
  // on_sent is called for every frame, in order, not inside send(). After a close it does nothing. Allocates nothing once warm.
  virtual void send(const wire::SealedHead& head, std::span<const std::byte> payload, std::uint64_t ticket) = 0;
  // The peer has said who it is: the limits for strangers (see ListenOptions) end.
  virtual void admit() = 0;
  virtual void close() = 0;
  virtual const Ends& ends() const = 0;
  const std::string& peer() const { return ends().peer; }
};

// What connections are for. With a job's key control is encrypted; so are data, unless the key says otherwise (base/job_key.h).
// Both sides have to mean the same.
enum class Plane { kControl, kData };

struct ListenOptions {
  // Connections at once that have not been admitted, handshakes of TLS among them; more are closed at once. While there are some
  // that have shown no key, the one that has had most time for it goes instead.
  int strangers = 64;
  Duration stranger_deadline = std::chrono::seconds(1);  // an accepted connection that is not admitted by then is closed
  Plane plane = Plane::kControl;
};

struct ConnectOptions {
  template <typename Rep, typename Period>  // often that is all
  ConnectOptions(std::chrono::duration<Rep, Period> within, Plane of = Plane::kControl) : deadline(within), plane(of) {}

  Duration deadline;
  Plane plane;
};

class Listener {
 public:
  virtual ~Listener() = default;        // stops listening
  virtual Address address() const = 0;  // with the port the kernel chose
};

inline constexpr const char* kRefused = "refused";  // see Transport::connect

class Transport {
 public:
  using Accepted = std::function<void(std::unique_ptr<Connection>)>;
  using Connected = std::function<void(Result<std::unique_ptr<Connection>>)>;

  virtual ~Transport() = default;
  virtual Loop& loop() = 0;
  // Errors: kIo when the port is in use, kBadRequest when this machine has no such address; the address is named.
  virtual Result<std::unique_ptr<Listener>> listen(const Address& address, const ListenOptions& options, Accepted accepted) = 0;
  // Calls back once, from the loop: kPeerLost when refused or unreachable, kDeadline after the deadline, kBadRequest when the other
  // side holds another key or encrypts other things; the address is named. kRefused is the code where the system at that
  // address said that nobody listens there.
  // A connection made by this side is not a stranger; it needs no admit().
  virtual void connect(const Address& address, const ConnectOptions& options, Connected connected) = 0;
};

}  // namespace paceline::transport

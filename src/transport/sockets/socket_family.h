// What differs between the kinds of sockets that a loop over Asio serves: where an address is, what is set, and who may listen
// where. Everything else (streams, TLS, accepting, connecting) is the rest of this folder and the same for all.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/job_key.h"
#include "transport/sockets/socket_loop.h"
#include "transport/stream.h"

namespace paceline::transport {

struct SocketOptions {
  // The kernel gives a connection up after this long without an answer from the peer's kernel, be it to data or, when idle, to a
  // probe. At least 1 s; counted in milliseconds. A peer whose process is frozen and whose buffers are full counts as without an
  // answer, one that is frozen and idle does not: heartbeats, above, are for that. Of TCP only.
  Duration user_timeout = std::chrono::seconds(3);
  // Bytes that one connection may hold in the kernel (SO_SNDBUF): less means that an urgent frame waits behind less. Nothing: the
  // kernel's own choice, which grows with the link.
  std::optional<Bytes> send_buffer;
  // How long the loop looks for more work before it sleeps: saves the time to wake up, costs a processor. 0 to 1 s.
  Duration spin{0};
  // The job's key: every connection, made or accepted, is TLS 1.3 with it (tls/tls_context.h), and whoever does not hold it gets
  // none; where the key leaves data clear, theirs only begin so. Nothing: every connection is in the clear. No side gives way to
  // the other.
  std::optional<JobKey> key;
};

class SocketFamily {
 public:
  // A look-up under way; destroying it ends it.
  class Search {
   public:
    virtual ~Search() = default;
  };
  using Found = std::function<void(const asio::error_code& failure, std::vector<SocketEndpoint> endpoints)>;
  // A socket that listens. `kept` goes right before it, and with it what must not outlive it.
  struct Listening {
    Acceptor socket;
    Address address;
    std::shared_ptr<void> kept;
  };

  virtual ~SocketFamily() = default;

  // The places of an address that are known without a look-up; none: search(). Errors: kBadRequest, when it is not of this kind.
  virtual Result<std::vector<SocketEndpoint>> known(const Address& address) const = 0;
  // Calls back once, from the loop.
  virtual std::unique_ptr<Search> search(SocketLoop& loop, const Address& address, Found found) const = 0;
  // Errors: kBadRequest or kIo, saying why; the address is named by who calls.
  virtual Result<Listening> listen(SocketLoop& loop, const Address& address) const = 0;
  // Sets what a connected, or connecting, socket needs beyond what is common to all. False: errno says why not.
  virtual bool configure(int descriptor) const = 0;
  // Of a connected socket.
  virtual Ends ends(int descriptor, const SocketEndpoint& local, const SocketEndpoint& peer) const = 0;
};

// Makes `socket`, a Socket or an Acceptor, a non-blocking socket for that place that child processes do not inherit. Errors:
// kBadRequest when this machine does not know such places; kIo.
template <typename AnySocket>
Status open_socket(AnySocket& socket, const SocketEndpoint& endpoint);

std::string system_message(int number);

// kBadRequest when an option is out of range; kIo when the system gives no descriptors.
Result<std::unique_ptr<Transport>> try_make_socket_transport(std::shared_ptr<const SocketFamily> family,
                                                             const SocketOptions& options);

}  // namespace paceline::transport

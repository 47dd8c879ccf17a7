// Frames between processes over TCP, in the clear or encrypted, served by Asio: one io_context per loop, run by one thread.
//
// Hosts are IPv4 or IPv6 literals or names; a name is looked up beside the loop, and its addresses are tried one after the other,
// each with its share of the deadline. A look-up that the system does not end keeps the destructor waiting for it.
// Out of descriptors: connections that arrive are refused, those that exist are not touched, and connect() says kIo.
#pragma once

#include <memory>
#include <optional>

#include "base/job_key.h"
#include "transport/transport.h"

namespace paceline::transport {

struct TcpOptions {
  // The kernel gives a connection up after this long without an answer from the peer's kernel, be it to data or, when idle, to a
  // probe. At least 1 s; counted in milliseconds. A peer whose process is frozen and whose buffers are full counts as without an
  // answer, one that is frozen and idle does not: heartbeats, above, are for that.
  Duration user_timeout = std::chrono::seconds(3);
  // Bytes that one connection may hold in the kernel (SO_SNDBUF): less means that an urgent frame waits behind less. Nothing: the
  // kernel's own choice, which grows with the link.
  std::optional<Bytes> send_buffer;
  // How long the loop looks for more work before it sleeps: saves the time to wake up, costs a processor. 0 to 1 s.
  Duration spin{0};
  // The job's key: every connection, made or accepted, is TLS 1.3 with it (tls/tls_context.h), and whoever does not hold it gets
  // none. Nothing: every connection is in the clear. There is nothing in between, and no side gives way to the other.
  std::optional<JobKey> key;
};

// kBadRequest when an option is out of range; kIo when the system gives no descriptors.
Result<std::unique_ptr<Transport>> try_make_tcp_transport(const TcpOptions& options);
// The same, where failing is a programmer error.
std::unique_ptr<Transport> make_tcp_transport(const TcpOptions& options = {});

}  // namespace paceline::transport

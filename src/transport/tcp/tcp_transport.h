// Frames between processes over TCP, in the clear or encrypted, served by Asio: one io_context per loop, run by one thread.
//
// Hosts are IPv4 or IPv6 literals or names; a name is looked up beside the loop, and its addresses are tried one after the other,
// each with its share of the deadline. A look-up that the system does not end keeps the destructor waiting for it.
// Out of descriptors: connections that arrive are refused, those that exist are not touched, and connect() says kIo.
#pragma once

#include <memory>

#include "transport/sockets/socket_family.h"

namespace paceline::transport {

// kBadRequest when an option is out of range; kIo when the system gives no descriptors.
Result<std::unique_ptr<Transport>> try_make_tcp_transport(const SocketOptions& options);
// The same, where failing is a programmer error.
std::unique_ptr<Transport> make_tcp_transport(const SocketOptions& options = {});

}  // namespace paceline::transport

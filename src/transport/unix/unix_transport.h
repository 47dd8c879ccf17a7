// Frames between processes of one machine over Unix domain sockets: no port, and nothing that another machine could reach.
//
// A socket is a file of mode 600, so that only its user's processes connect. Its listener removes it. A process that was killed
// leaves it behind; whoever listens there next replaces such a file, if it is of the same user and nobody answers. No other file
// is ever touched.
#pragma once

#include <memory>

#include "transport/sockets/socket_family.h"

namespace paceline::transport {

// Errors as of try_make_socket_transport.
Result<std::unique_ptr<Transport>> try_make_unix_transport(const SocketOptions& options);

// As remove_left_behind in open/open.h.
void remove_unix_left_behind(const Address& meeting);

}  // namespace paceline::transport

// One connected socket as a Stream. Reads and writes are plain system calls on the non-blocking descriptor; Asio only says when.
// So no operation of Asio ever holds a buffer of ours.
#pragma once

#include <optional>

#include "transport/sockets/socket_loop.h"
#include "transport/stream.h"

namespace paceline::transport {

class SocketStream : public Stream {
 public:
  SocketStream(SocketLoop& loop, Socket socket, Ends ends);

 protected:
  Moved read_some(std::span<const iovec> spaces) override;
  Moved write_some(std::span<const iovec> pieces) override;
  void want_read(std::size_t least) override;
  void want_write() override;
  void close_stream() override { socket_.reset(); }
  // As want_read, whatever the socket has to be ready for.
  void wait_to_read(Socket::wait_type what);
  // As want_read when there is something to read already.
  void read_soon();
  Socket& socket() { return *socket_; }
  SocketLoop& socket_loop() { return socket_loop_; }

 private:
  struct ReadReady;
  struct WriteReady;

  std::shared_ptr<SocketStream> self() { return std::static_pointer_cast<SocketStream>(shared_from_this()); }

  HandlerMemory read_memory_;
  HandlerMemory write_memory_;
  SocketLoop& socket_loop_;
  std::optional<Socket> socket_;
  int low_water_ = 1;  // SO_RCVLOWAT
};

}  // namespace paceline::transport

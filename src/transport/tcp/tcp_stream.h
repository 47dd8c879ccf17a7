// One connected socket as a Stream. Reads and writes are plain system calls on the non-blocking descriptor; Asio only says when.
// So no operation of Asio ever holds a buffer of ours.
#pragma once

#include <optional>

#include "transport/stream.h"
#include "transport/tcp/tcp_loop.h"
#include "transport/tcp/tcp_transport.h"

namespace paceline::transport {

class TcpStream : public Stream {
 public:
  TcpStream(TcpLoop& loop, Socket socket, std::string peer);

  // Sets the socket's options. Errors: kIo.
  static Status configure(int descriptor, const TcpOptions& options);

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
  TcpLoop& tcp_loop() { return tcp_loop_; }

 private:
  struct ReadReady;
  struct WriteReady;

  std::shared_ptr<TcpStream> self() { return std::static_pointer_cast<TcpStream>(shared_from_this()); }

  HandlerMemory read_memory_;
  HandlerMemory write_memory_;
  TcpLoop& tcp_loop_;
  std::optional<Socket> socket_;
  int low_water_ = 1;  // SO_RCVLOWAT
};

// Makes `socket` a non-blocking TCP socket that child processes do not inherit.
Status open_socket(Socket& socket, const asio::ip::tcp::endpoint& endpoint);
std::string endpoint_text(const asio::ip::tcp::endpoint& endpoint);
std::string system_message(int number);

}  // namespace paceline::transport

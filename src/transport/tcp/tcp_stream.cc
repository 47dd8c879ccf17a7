#include "transport/tcp/tcp_stream.h"

#include <algorithm>
#include <cerrno>
#include <system_error>

#include <asio/post.hpp>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace paceline::transport {

using Outcome = Stream::Moved::Outcome;

// Less than what the smallest receive buffer holds, so that the sender never waits for a reader who waits for more.
constexpr std::size_t kMostLowWater = 64U << 10;
constexpr std::size_t kLeastLowWater = 16U << 10;

struct TcpStream::ReadReady {
  using allocator_type = HandlerAllocator<void>;
  allocator_type get_allocator() const { return allocator_type(stream->read_memory_); }
  void operator()(const asio::error_code& failure = {}) const {
    if (failure || !stream->open()) return;
    const TcpLoop::Turn turn(stream->tcp_loop_);
    stream->on_readable();
  }

  std::shared_ptr<TcpStream> stream;
};

struct TcpStream::WriteReady {
  using allocator_type = HandlerAllocator<void>;
  allocator_type get_allocator() const { return allocator_type(stream->write_memory_); }
  void operator()(const asio::error_code& failure) const {
    if (failure || !stream->open()) return;
    const TcpLoop::Turn turn(stream->tcp_loop_);
    stream->on_writable();
  }

  std::shared_ptr<TcpStream> stream;
};

TcpStream::TcpStream(TcpLoop& loop, Socket socket, std::string peer)
    : Stream(loop, std::move(peer)), tcp_loop_(loop), socket_(std::move(socket)) {}

Status TcpStream::configure(int descriptor, const TcpOptions& options) {
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(options.user_timeout).count();
  const auto set = [descriptor](int level, int name, int value) {
    return ::setsockopt(descriptor, level, name, &value, sizeof value) == 0;
  };
  const bool done = set(IPPROTO_TCP, TCP_NODELAY, 1) && set(SOL_SOCKET, SO_KEEPALIVE, 1) && set(IPPROTO_TCP, TCP_KEEPIDLE, 1) &&
                    set(IPPROTO_TCP, TCP_KEEPINTVL, 1) && set(IPPROTO_TCP, TCP_KEEPCNT, 3) &&
                    set(IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(milliseconds)) &&
                    // The kernel doubles what it is given, for its own bookkeeping.
                    (!options.send_buffer || set(SOL_SOCKET, SO_SNDBUF, static_cast<int>(options.send_buffer->count / 2)));
  if (!done) return error(ErrorKind::kIo, "cannot set the options of a socket: {}", system_message(errno));
  return {};
}

Stream::Moved TcpStream::read_some(std::span<const iovec> spaces) {
  const ssize_t count = ::readv(socket_->native_handle(), spaces.data(), static_cast<int>(spaces.size()));
  if (count > 0) return {.outcome = Outcome::kSome, .bytes = static_cast<std::size_t>(count), .reason = {}};
  if (count == 0) return {.outcome = Outcome::kEnd, .reason = {}};
  if (errno == EAGAIN || errno == EINTR) return {.outcome = Outcome::kLater, .reason = {}};
  return {.outcome = Outcome::kEnd, .reason = error(ErrorKind::kPeerLost, "{}", system_message(errno))};
}

Stream::Moved TcpStream::write_some(std::span<const iovec> pieces) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces.data());  // only read
  message.msg_iovlen = pieces.size();
  const ssize_t count = ::sendmsg(socket_->native_handle(), &message, MSG_NOSIGNAL);
  if (count >= 0) return {.outcome = Outcome::kSome, .bytes = static_cast<std::size_t>(count), .reason = {}};
  if (errno == EAGAIN || errno == EINTR) return {.outcome = Outcome::kLater, .reason = {}};
  return {.outcome = Outcome::kEnd, .reason = error(ErrorKind::kPeerLost, "{}", system_message(errno))};
}

// The rest of a large payload wakes this side once instead of for every few segments. Of a small one it is not worth a system call.
void TcpStream::want_read(std::size_t least) {
  const int low_water = least < kLeastLowWater ? 1 : static_cast<int>(std::min(least, kMostLowWater));
  if (low_water != low_water_ && ::setsockopt(socket_->native_handle(), SOL_SOCKET, SO_RCVLOWAT, &low_water, sizeof low_water) == 0)
    low_water_ = low_water;
  wait_to_read(Socket::wait_read);
}

void TcpStream::want_write() { socket_->async_wait(Socket::wait_write, WriteReady{self()}); }

void TcpStream::wait_to_read(Socket::wait_type what) { socket_->async_wait(what, ReadReady{self()}); }

void TcpStream::read_soon() { asio::post(tcp_loop_.io(), ReadReady{self()}); }

Status open_socket(Socket& socket, const asio::ip::tcp::endpoint& endpoint) {
  const int descriptor = ::socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
  if (descriptor < 0) return error(ErrorKind::kIo, "cannot open a socket: {}", system_message(errno));
  asio::error_code failure;
  socket.assign(endpoint.protocol(), descriptor, failure);
  if (failure) {
    ::close(descriptor);
    return error(ErrorKind::kIo, "cannot serve a socket: {}", failure.message());
  }
  return {};
}

std::string endpoint_text(const asio::ip::tcp::endpoint& endpoint) {
  return Address{endpoint.address().to_string(), endpoint.port()}.text();
}

std::string system_message(int number) { return std::generic_category().message(number); }

}  // namespace paceline::transport

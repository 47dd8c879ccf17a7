#include "transport/sockets/socket_stream.h"

#include <algorithm>
#include <cerrno>
#include <system_error>

#include <asio/post.hpp>
#include <sys/socket.h>

#include "base/fork.h"
#include "transport/sockets/socket_family.h"

namespace paceline::transport {

using Outcome = Stream::Moved::Outcome;

// Less than what the smallest receive buffer holds, so that the sender never waits for a reader who waits for more.
constexpr std::size_t kMostLowWater = 64U << 10;
constexpr std::size_t kLeastLowWater = 16U << 10;

struct SocketStream::ReadReady {
  using allocator_type = HandlerAllocator<void>;
  allocator_type get_allocator() const { return allocator_type(stream->read_memory_); }
  void operator()(const asio::error_code& failure = {}) const {
    if (failure || !stream->open()) return;
    const SocketLoop::Turn turn(stream->socket_loop_);
    stream->on_readable();
  }

  std::shared_ptr<SocketStream> stream;
};

struct SocketStream::WriteReady {
  using allocator_type = HandlerAllocator<void>;
  allocator_type get_allocator() const { return allocator_type(stream->write_memory_); }
  void operator()(const asio::error_code& failure) const {
    if (failure || !stream->open()) return;
    const SocketLoop::Turn turn(stream->socket_loop_);
    stream->on_writable();
  }

  std::shared_ptr<SocketStream> stream;
};

SocketStream::SocketStream(SocketLoop& loop, Socket socket, Ends ends)
    : Stream(loop, std::move(ends)), socket_loop_(loop), socket_(std::move(socket)) {}

Stream::Moved SocketStream::read_some(std::span<const iovec> spaces) {
  const ssize_t count = ::readv(socket_->native_handle(), spaces.data(), static_cast<int>(spaces.size()));
  if (count > 0) return {.outcome = Outcome::kSome, .bytes = static_cast<std::size_t>(count), .reason = {}};
  if (count == 0) return {.outcome = Outcome::kEnd, .reason = {}};
  if (errno == EAGAIN || errno == EINTR) return {.outcome = Outcome::kLater, .reason = {}};
  return {.outcome = Outcome::kEnd, .reason = error(ErrorKind::kPeerLost, "{}", system_message(errno))};
}

Stream::Moved SocketStream::write_some(std::span<const iovec> pieces) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces.data());  // only read
  message.msg_iovlen = pieces.size();
  const ssize_t count = ::sendmsg(socket_->native_handle(), &message, MSG_NOSIGNAL);
  if (count >= 0) return {.outcome = Outcome::kSome, .bytes = static_cast<std::size_t>(count), .reason = {}};
  if (errno == EAGAIN || errno == EINTR) return {.outcome = Outcome::kLater, .reason = {}};
  return {.outcome = Outcome::kEnd, .reason = error(ErrorKind::kPeerLost, "{}", system_message(errno))};
}

// The rest of a large payload wakes this side once instead of for every few segments. Of a small one it is not worth a system call.
void SocketStream::want_read(std::size_t least) {
  const int low_water = least < kLeastLowWater ? 1 : static_cast<int>(std::min(least, kMostLowWater));
  if (low_water != low_water_ && ::setsockopt(socket_->native_handle(), SOL_SOCKET, SO_RCVLOWAT, &low_water, sizeof low_water) == 0)
    low_water_ = low_water;
  wait_to_read(Socket::wait_read);
}

void SocketStream::want_write() { socket_->async_wait(Socket::wait_write, WriteReady{self()}); }

void SocketStream::wait_to_read(Socket::wait_type what) { socket_->async_wait(what, ReadReady{self()}); }

void SocketStream::read_soon() { asio::post(socket_loop_.io(), ReadReady{self()}); }

template <typename AnySocket>
Status open_socket(AnySocket& socket, const SocketEndpoint& endpoint) {
  const auto kind = endpoint.protocol();
  const int descriptor = ::socket(kind.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, kind.protocol());
  if (descriptor < 0) {
    const ErrorKind why = errno == EAFNOSUPPORT ? ErrorKind::kBadRequest : ErrorKind::kIo;
    return error(why, "cannot open a socket: {}", system_message(errno));
  }
  close_in_children(descriptor);
  asio::error_code failure;
  socket.assign(kind, descriptor, failure);
  if (failure) {
    ::close(descriptor);
    return error(ErrorKind::kIo, "cannot serve a socket: {}", failure.message());
  }
  return {};
}
template Status open_socket(Socket& socket, const SocketEndpoint& endpoint);
template Status open_socket(Acceptor& socket, const SocketEndpoint& endpoint);

std::string system_message(int number) { return std::generic_category().message(number); }

}  // namespace paceline::transport

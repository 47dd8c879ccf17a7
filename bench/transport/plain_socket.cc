#include "bench/transport/plain_socket.h"

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <thread>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/clock.h"

namespace paceline::bench {
namespace {

struct Header {
  std::uint32_t bytes = 0;
  std::uint32_t crc = 0;
  std::byte padding[40] = {};  // as large as the transport's
};

Status system_error(const char* what) {
  return error(ErrorKind::kIo, "plain socket: {}: {}", what, std::generic_category().message(errno));
}

class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  int get() const { return descriptor_; }
  int release() { return std::exchange(descriptor_, -1); }

  Status send_chunk(std::span<const std::byte> chunk, Check check) const {
    Header header{.bytes = static_cast<std::uint32_t>(chunk.size()), .crc = check == Check::kCrc32c ? crc32c(chunk) : 0};
    iovec pieces[2] = {{&header, sizeof header}, {const_cast<std::byte*>(chunk.data()), chunk.size()}};
    std::size_t piece = 0;
    while (piece < 2) {
      msghdr message{};
      message.msg_iov = pieces + piece;
      message.msg_iovlen = 2 - piece;
      ssize_t sent = ::sendmsg(descriptor_, &message, MSG_NOSIGNAL);
      if (sent < 0) return system_error("send");
      for (; piece < 2 && sent >= static_cast<ssize_t>(pieces[piece].iov_len); ++piece)
        sent -= static_cast<ssize_t>(pieces[piece].iov_len);
      if (piece < 2) {
        pieces[piece].iov_base = static_cast<std::byte*>(pieces[piece].iov_base) + sent;
        pieces[piece].iov_len -= static_cast<std::size_t>(sent);
      }
    }
    return {};
  }

  // Returns how many bytes of `place` were filled.
  Result<std::size_t> receive_chunk(std::span<std::byte> place, Check check) const {
    Header header;
    PACELINE_RETURN_IF_ERROR(receive_all(&header, sizeof header));
    if (header.bytes > place.size()) return error(ErrorKind::kCorrupt, "plain socket: a chunk of {} bytes", header.bytes);
    PACELINE_RETURN_IF_ERROR(receive_all(place.data(), header.bytes));
    if (check == Check::kCrc32c && crc32c(place.first(header.bytes)) != header.crc)
      return error(ErrorKind::kCorrupt, "plain socket: a damaged chunk");
    return std::size_t{header.bytes};
  }

 private:
  Status receive_all(void* to, std::size_t bytes) const {
    if (bytes == 0 || ::recv(descriptor_, to, bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes)) return {};
    return system_error("receive");
  }

  int descriptor_ = -1;
};

struct Pair {
  Socket here;
  Socket there;
};

Result<Pair> connected_pair(const Ends& ends) {
  Socket listener;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  ::inet_pton(AF_INET, ends.address().c_str(), &address.sin_addr);
  socklen_t length = sizeof address;
  auto* const general = reinterpret_cast<sockaddr*>(&address);
  PACELINE_RETURN_IF_ERROR(ends.on(1, [&]() -> Status {
    listener = Socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::bind(listener.get(), general, length) != 0 || ::listen(listener.get(), 1) != 0 ||
        ::getsockname(listener.get(), general, &length) != 0) {
      return system_error("listen");
    }
    return {};
  }));
  Pair pair;
  PACELINE_RETURN_IF_ERROR(ends.on(0, [&]() -> Status {
    pair.here = Socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    return ::connect(pair.here.get(), general, length) != 0 ? system_error("connect") : Status();
  }));
  pair.there = Socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (pair.there.get() < 0) return system_error("accept");
  const int on = 1;
  for (const Socket* const socket : {&pair.here, &pair.there})
    ::setsockopt(socket->get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return pair;
}

// Receives until the count is full, then answers.
Status receive_stream(const Socket& socket, std::size_t count, std::span<const std::byte> last, std::size_t largest, Check check) {
  std::vector<std::byte> place(largest);
  std::size_t filled = 0;
  for (std::size_t i = 0; i < count; ++i) {
    PACELINE_ASSIGN_OR_RETURN(filled, socket.receive_chunk(place, check));
  }
  if (!std::ranges::equal(std::span(place).first(filled), last))
    return error(ErrorKind::kCorrupt, "plain socket: the last chunk arrived different");
  const std::byte answer{1};
  return socket.send_chunk({&answer, 1}, Check::kNone);
}

}  // namespace

SocketPair::~SocketPair() {
  for (const int one : {here_, there_})
    if (one >= 0) ::close(one);
}

Result<SocketPair> connected_sockets() {
  PACELINE_ASSIGN_OR_RETURN(Pair pair, connected_pair({}));
  return SocketPair(pair.here.release(), pair.there.release());
}

Result<Duration> stream_plain(const std::vector<std::vector<std::byte>>& chunks, std::size_t count, Check check, const Ends& ends) {
  PACELINE_ASSIGN_OR_RETURN(Pair pair, connected_pair(ends));
  std::size_t largest = 0;
  for (const auto& chunk : chunks) largest = std::max(largest, chunk.size());
  Status received;
  std::thread receiver([&] {
    received = receive_stream(pair.there, count, chunks[(count - 1) % chunks.size()], largest, check);
    if (!received.ok()) ::shutdown(pair.there.get(), SHUT_RDWR);  // so that the sender does not wait for ever
  });
  const SystemClock clock;
  const TimePoint start = clock.now();
  Status status;
  for (std::size_t i = 0; i < count && status.ok(); ++i) status = pair.here.send_chunk(chunks[i % chunks.size()], check);
  std::byte answer;
  if (status.ok()) status = pair.here.receive_chunk({&answer, 1}, Check::kNone).status();
  const Duration taken = clock.now() - start;
  if (!status.ok()) ::shutdown(pair.here.get(), SHUT_RDWR);
  receiver.join();
  PACELINE_RETURN_IF_ERROR(received);
  PACELINE_RETURN_IF_ERROR(status);
  return taken;
}

Result<Duration> round_trips_plain(std::span<const std::byte> payload, int count, Check check) {
  PACELINE_ASSIGN_OR_RETURN(Pair pair, connected_pair({}));
  std::thread echo([&] {
    std::vector<std::byte> place(payload.size());
    for (int i = 0; i < count; ++i) {
      if (!pair.there.receive_chunk(place, check).ok() || !pair.there.send_chunk(place, check).ok()) {
        ::shutdown(pair.there.get(), SHUT_RDWR);
        return;
      }
    }
  });
  std::vector<std::byte> back(payload.size());
  const SystemClock clock;
  const TimePoint start = clock.now();
  Status status;
  for (int i = 0; i < count && status.ok(); ++i) {
    status = pair.here.send_chunk(payload, check);
    if (status.ok()) status = pair.here.receive_chunk(back, check).status();
  }
  const Duration taken = clock.now() - start;
  if (!status.ok()) ::shutdown(pair.here.get(), SHUT_RDWR);
  echo.join();
  PACELINE_RETURN_IF_ERROR(status);
  if (!std::ranges::equal(back, payload)) return error(ErrorKind::kCorrupt, "plain socket: the bytes came back different");
  return taken;
}

}  // namespace paceline::bench

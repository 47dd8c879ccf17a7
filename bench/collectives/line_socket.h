// Lines of text over a connected socket, with a deadline. One thread.
#pragma once

#include <cerrno>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/status.h"
#include "lab/namespaces.h"

namespace paceline::bench {

inline Result<sockaddr_un> path_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return error(ErrorKind::kBadRequest, "{} is too long for a socket's name; at most {} characters are legal", path,
                 sizeof address.sun_path - 1);
  path.copy(address.sun_path, path.size());
  return address;
}

class LineSocket {
 public:
  explicit LineSocket(lab::Descriptor socket) : socket_(std::move(socket)) {}

  int descriptor() const { return socket_.get(); }

  bool send(std::string line) const {
    line += '\n';
    for (std::string_view rest = line; !rest.empty();) {
      const ssize_t sent = ::send(socket_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) return false;
      rest.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  // A whole line that is there already.
  std::optional<std::string> take() {
    const std::size_t end = buffer_.find('\n');
    if (end == std::string::npos) return std::nullopt;
    std::string line = buffer_.substr(0, end);
    buffer_.erase(0, end + 1);
    return line;
  }
  // Reads what is there, or waits for it. False: the other side hung up.
  bool read() {
    char bytes[65'536];
    const ssize_t count = ::read(socket_.get(), bytes, sizeof bytes);
    if (count < 0 && errno == EINTR) return true;
    if (count <= 0) return false;
    buffer_.append(bytes, static_cast<std::size_t>(count));
    return true;
  }

 private:
  lab::Descriptor socket_;
  std::string buffer_;
};

}  // namespace paceline::bench

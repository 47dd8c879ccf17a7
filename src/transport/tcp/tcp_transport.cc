#include "transport/tcp/tcp_transport.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <asio/ip/tcp.hpp>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace paceline::transport {
namespace {

using asio::ip::tcp;
using Resolver = asio::ip::basic_resolver<tcp, Executor>;

class NameSearch final : public SocketFamily::Search {
 public:
  NameSearch(SocketLoop& loop, const Address& address, SocketFamily::Found found) : resolver_(loop.io()) {
    resolver_.async_resolve(address.host, std::to_string(address.port), Resolver::numeric_service,
                            [found = std::move(found)](const asio::error_code& failure, const Resolver::results_type& results) {
                              std::vector<SocketEndpoint> endpoints;
                              for (const auto& entry : results) endpoints.emplace_back(entry.endpoint());
                              found(failure, std::move(endpoints));
                            });
  }

 private:
  Resolver resolver_;
};

class TcpFamily final : public SocketFamily {
 public:
  explicit TcpFamily(const SocketOptions& options)
      : user_timeout_(static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(options.user_timeout).count())),
        send_buffer_(options.send_buffer) {}

  Result<std::vector<SocketEndpoint>> known(const Address& address) const override {
    PACELINE_RETURN_IF_ERROR(check(address));
    asio::error_code failure;
    const auto literal = asio::ip::make_address(address.host, failure);
    if (failure) return std::vector<SocketEndpoint>();
    return std::vector<SocketEndpoint>{tcp::endpoint(literal, address.port)};
  }

  std::unique_ptr<Search> search(SocketLoop& loop, const Address& address, Found found) const override {
    return std::make_unique<NameSearch>(loop, address, std::move(found));
  }

  Result<Listening> listen(SocketLoop& loop, const Address& address) const override {
    PACELINE_RETURN_IF_ERROR(check(address));
    Resolver resolver(loop.io());
    asio::error_code failure;
    const auto found =
        resolver.resolve(address.host, std::to_string(address.port), Resolver::numeric_service | Resolver::passive, failure);
    if (failure) return error(ErrorKind::kBadRequest, "{}", failure.message()).because({"no-host", ""});
    Status status;
    for (const auto& entry : found) {
      Acceptor socket(loop.io());
      status = bind(socket, entry.endpoint());
      if (!status.ok()) continue;
      const std::uint16_t port = ip_endpoint(socket.local_endpoint()).port();
      return Listening{std::move(socket), Address{address.host, port}, nullptr};
    }
    return status;
  }

  bool configure(int descriptor) const override {
    const auto set = [descriptor](int level, int name, int value) {
      return ::setsockopt(descriptor, level, name, &value, sizeof value) == 0;
    };
    return set(IPPROTO_TCP, TCP_NODELAY, 1) && set(SOL_SOCKET, SO_KEEPALIVE, 1) && set(IPPROTO_TCP, TCP_KEEPIDLE, 1) &&
           set(IPPROTO_TCP, TCP_KEEPINTVL, 1) && set(IPPROTO_TCP, TCP_KEEPCNT, 3) &&
           set(IPPROTO_TCP, TCP_USER_TIMEOUT, user_timeout_) &&
           // The kernel doubles what it is given, for its own bookkeeping.
           (!send_buffer_ || set(SOL_SOCKET, SO_SNDBUF, static_cast<int>(send_buffer_->count / 2)));
  }

  Ends ends(int, const SocketEndpoint& local, const SocketEndpoint& peer) const override {
    return {.peer = address_of(peer).text(), .local = address_of(local)};
  }

 private:
  static Status check(const Address& address) {
    if (!address.is_file()) return {};
    return error(ErrorKind::kBadRequest, "this process talks over TCP, and takes HOST:PORT").because({"address", ""});
  }

  static Address address_of(const SocketEndpoint& from) {
    const tcp::endpoint endpoint = ip_endpoint(from);
    return {endpoint.address().to_string(), endpoint.port()};
  }

  static tcp::endpoint ip_endpoint(const SocketEndpoint& from) {
    tcp::endpoint endpoint;
    std::memcpy(endpoint.data(), from.data(), std::min(from.size(), endpoint.capacity()));
    return endpoint;
  }

  static Status bind(Acceptor& socket, const SocketEndpoint& endpoint) {
    PACELINE_RETURN_IF_ERROR(open_socket(socket, endpoint));
    asio::error_code failure;
    // A server that is started again is not kept waiting by the connections of its former life.
    socket.set_option(Acceptor::reuse_address(true), failure);
    if (!failure) socket.bind(endpoint, failure);
    if (!failure) socket.listen(Acceptor::max_listen_connections, failure);
    if (failure.value() == EADDRNOTAVAIL)
      return error(ErrorKind::kBadRequest, "this machine has no such address").because({"address", ""});
    if (failure.value() == EADDRINUSE)
      return error(ErrorKind::kIo, "{}; give another port, or none for a free one", failure.message()).because({"port-in-use", ""});
    if (failure) return error(ErrorKind::kIo, "{}", failure.message());
    return {};
  }

  int user_timeout_;  // milliseconds
  std::optional<Bytes> send_buffer_;
};

}  // namespace

Result<std::unique_ptr<Transport>> try_make_tcp_transport(const SocketOptions& options) {
  return try_make_socket_transport(std::make_shared<TcpFamily>(options), options);
}

std::unique_ptr<Transport> make_tcp_transport(const SocketOptions& options) {
  return std::move(try_make_tcp_transport(options)).value();
}

}  // namespace paceline::transport

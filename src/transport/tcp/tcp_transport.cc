#include "transport/tcp/tcp_transport.h"

#include <system_error>

#include "base/text.h"
#include "transport/tcp/tcp_acceptor.h"
#include "transport/tcp/tcp_connector.h"
#include "transport/tcp/tcp_loop.h"

namespace paceline::transport {
namespace {

class TcpTransport final : public Transport {
 public:
  explicit TcpTransport(const TcpOptions& options)
      : options_(options), tls_(options.key ? std::make_shared<TlsContext>(*options.key) : nullptr), loop_(options.spin) {}
  ~TcpTransport() override { loop_.shut_down(); }
  TcpTransport(const TcpTransport&) = delete;
  TcpTransport& operator=(const TcpTransport&) = delete;

  Loop& loop() override { return loop_; }

  Result<std::unique_ptr<Listener>> listen(const Address& address, const ListenOptions& options, Accepted accepted) override {
    auto acceptor = std::make_shared<TcpAcceptor>(loop_, options, options_, tls_, std::move(accepted));
    PACELINE_RETURN_IF_ERROR(acceptor->open(address));
    return std::unique_ptr<Listener>(std::make_unique<TcpListener>(std::move(acceptor)));
  }

  void connect(const Address& address, Duration deadline, Connected connected) override {
    std::make_shared<TcpConnector>(loop_, options_, tls_, address, deadline, std::move(connected))->start();
  }

 private:
  TcpOptions options_;
  std::shared_ptr<const TlsContext> tls_;  // null in the clear
  TcpLoop loop_;
};

Status check(const TcpOptions& options) {
  if (options.user_timeout < std::chrono::seconds(1) || options.user_timeout > std::chrono::hours(1)) {
    return error(ErrorKind::kBadRequest, "a connection cannot be given up after {}; from 1 s to 1 h is legal",
                 to_text(options.user_timeout));
  }
  if (options.send_buffer && (options.send_buffer->count < 4096 || options.send_buffer->count > (1 << 30))) {
    return error(ErrorKind::kBadRequest, "a send buffer of {} bytes is not possible; from 4096 bytes to 1 GiB is legal",
                 options.send_buffer->count);
  }
  if (options.spin < Duration::zero() || options.spin > std::chrono::seconds(1))
    return error(ErrorKind::kBadRequest, "a loop cannot spin for {}; from 0 to 1 s is legal", to_text(options.spin));
  return {};
}

}  // namespace

Result<std::unique_ptr<Transport>> try_make_tcp_transport(const TcpOptions& options) {
  PACELINE_RETURN_IF_ERROR(check(options));
  try {
    return std::unique_ptr<Transport>(std::make_unique<TcpTransport>(options));
  } catch (const std::system_error& failure) {  // Asio's only way to say that there was no descriptor
    return error(ErrorKind::kIo, "cannot start a loop: {}", failure.what());
  }
}

std::unique_ptr<Transport> make_tcp_transport(const TcpOptions& options) {
  return std::move(try_make_tcp_transport(options)).value();
}

}  // namespace paceline::transport

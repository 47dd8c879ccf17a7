#include <system_error>

#include "base/text.h"
#include "transport/sockets/socket_acceptor.h"
#include "transport/sockets/socket_connector.h"
#include "transport/sockets/socket_family.h"

namespace paceline::transport {
namespace {

class SocketTransport final : public Transport {
 public:
  SocketTransport(std::shared_ptr<const SocketFamily> family, const SocketOptions& options)
      : family_(std::move(family)),
        control_(options.key ? std::make_shared<TlsContext>(*options.key) : nullptr),
        data_(options.key && options.key->leaves_data_clear()
                  ? std::make_shared<TlsContext>(*options.key, TlsOptions{.only_opens = true})
                  : control_),
        loop_(options.spin) {}
  ~SocketTransport() override { loop_.shut_down(); }
  SocketTransport(const SocketTransport&) = delete;
  SocketTransport& operator=(const SocketTransport&) = delete;

  Loop& loop() override { return loop_; }

  Result<std::unique_ptr<Listener>> listen(const Address& address, const ListenOptions& options, Accepted accepted) override {
    auto acceptor = std::make_shared<SocketAcceptor>(loop_, family_, of(options.plane), options, std::move(accepted));
    PACELINE_RETURN_IF_ERROR(acceptor->open(address));
    return std::unique_ptr<Listener>(std::make_unique<SocketListener>(std::move(acceptor)));
  }

  void connect(const Address& address, const ConnectOptions& options, Connected connected) override {
    std::make_shared<SocketConnector>(loop_, family_, of(options.plane), address, options.deadline, std::move(connected))->start();
  }

 private:
  const std::shared_ptr<const TlsContext>& of(Plane plane) const { return plane == Plane::kData ? data_ : control_; }

  std::shared_ptr<const SocketFamily> family_;
  std::shared_ptr<const TlsContext> control_, data_;  // null in the clear
  SocketLoop loop_;
};

Status check(const SocketOptions& options) {
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

Result<std::unique_ptr<Transport>> try_make_socket_transport(std::shared_ptr<const SocketFamily> family,
                                                             const SocketOptions& options) {
  PACELINE_RETURN_IF_ERROR(check(options));
  try {
    return std::unique_ptr<Transport>(std::make_unique<SocketTransport>(std::move(family), options));
  } catch (const std::system_error& failure) {  // Asio's only way to say that there was no descriptor
    return error(ErrorKind::kIo, "cannot start a loop: {}", failure.what());
  }
}

}  // namespace paceline::transport

// Accepts connections on one address, within the limits for strangers and for descriptors.
#pragma once

#include <optional>
#include <vector>

#include "transport/sockets/handshake_allowance.h"
#include "transport/sockets/socket_family.h"
#include "transport/stream.h"
#include "transport/tls/tls_context.h"

namespace paceline::transport {

class TlsStream;

class SocketAcceptor final : public LoopMember, public std::enable_shared_from_this<SocketAcceptor> {
 public:
  // `tls`: null in the clear.
  SocketAcceptor(SocketLoop& loop, std::shared_ptr<const SocketFamily> family, std::shared_ptr<const TlsContext> tls,
                 const ListenOptions& options, Transport::Accepted accepted);
  ~SocketAcceptor() override;

  Status open(const Address& address);  // once, before all else
  Address address() const { return address_; }
  void close();

  void on_loop_gone() override;
  void on_turn_end() override {}

 private:
  struct Ready;

  void wait();
  void on_ready();
  void take_in(int descriptor, const SocketEndpoint& peer);
  void shake_hands(Socket socket, Ends ends);
  bool make_room();
  void hand_over(std::shared_ptr<Stream> stream);
  void refuse_one();
  void look_again(Duration later);

  HandlerMemory memory_;
  SocketLoop* loop_;  // null once the loop is gone
  std::shared_ptr<const SocketFamily> family_;
  std::shared_ptr<const TlsContext> tls_;
  ListenOptions options_;
  Transport::Accepted accepted_;
  Address address_;
  std::shared_ptr<void> kept_;  // see SocketFamily::Listening
  std::shared_ptr<StrangerCount> strangers_ = std::make_shared<StrangerCount>();
  std::shared_ptr<HandshakeAllowance> allowance_ = std::make_shared<HandshakeAllowance>();
  std::vector<std::shared_ptr<TlsStream>> shaking_;  // hands; the one that has been here longest first
  std::optional<Acceptor> acceptor_;
  int spare_ = -1;  // a descriptor held back, so that one who arrives when there are none left can be refused
  bool out_of_descriptors_ = false;
  Loop::TimerId retry_ = 0;
};

class SocketListener final : public Listener {
 public:
  explicit SocketListener(std::shared_ptr<SocketAcceptor> acceptor) : acceptor_(std::move(acceptor)) {}
  ~SocketListener() override { acceptor_->close(); }
  SocketListener(const SocketListener&) = delete;
  SocketListener& operator=(const SocketListener&) = delete;
  Address address() const override { return acceptor_->address(); }

 private:
  std::shared_ptr<SocketAcceptor> acceptor_;
};

}  // namespace paceline::transport

// Accepts connections on one address, within the limits for strangers and for descriptors.
#pragma once

#include <optional>
#include <vector>

#include "transport/stream.h"
#include "transport/tcp/tcp_loop.h"
#include "transport/tcp/tcp_transport.h"
#include "transport/tls/tls_context.h"

namespace paceline::transport {

class TlsStream;

class TcpAcceptor final : public LoopMember, public std::enable_shared_from_this<TcpAcceptor> {
 public:
  // `tls`: null in the clear.
  TcpAcceptor(TcpLoop& loop, const ListenOptions& options, const TcpOptions& tcp, std::shared_ptr<const TlsContext> tls,
              Transport::Accepted accepted);
  ~TcpAcceptor() override;

  Status open(const Address& address);  // once, before all else
  Address address() const { return address_; }
  void close();

  void on_loop_gone() override;
  void on_turn_end() override {}

 private:
  struct Ready;

  Status bind(const asio::ip::tcp::endpoint& endpoint);
  void wait();
  void on_ready();
  void take_in(int descriptor, const asio::ip::tcp::endpoint& peer);
  void shake_hands(Socket socket, std::string peer);
  bool make_room();
  void hand_over(std::shared_ptr<Stream> stream);
  void refuse_one();

  HandlerMemory memory_;
  TcpLoop* loop_;  // null once the loop is gone
  ListenOptions options_;
  TcpOptions tcp_;
  std::shared_ptr<const TlsContext> tls_;
  Transport::Accepted accepted_;
  Address address_;
  std::shared_ptr<StrangerCount> strangers_ = std::make_shared<StrangerCount>();
  std::vector<std::shared_ptr<TlsStream>> shaking_;  // hands; the one that has been here longest first
  std::optional<Acceptor> acceptor_;
  int spare_ = -1;  // a descriptor held back, so that one who arrives when there are none left can be refused
  bool out_of_descriptors_ = false;
  Loop::TimerId retry_ = 0;
};

class TcpListener final : public Listener {
 public:
  explicit TcpListener(std::shared_ptr<TcpAcceptor> acceptor) : acceptor_(std::move(acceptor)) {}
  ~TcpListener() override { acceptor_->close(); }
  TcpListener(const TcpListener&) = delete;
  TcpListener& operator=(const TcpListener&) = delete;
  Address address() const override { return acceptor_->address(); }

 private:
  std::shared_ptr<TcpAcceptor> acceptor_;
};

}  // namespace paceline::transport

// One attempt to connect: look the name up, try its addresses in turn, shake hands if that is wanted, all within a deadline, and
// call back once from the loop.
#pragma once

#include <optional>
#include <vector>

#include "transport/stream.h"
#include "transport/tcp/tcp_loop.h"
#include "transport/tcp/tcp_transport.h"
#include "transport/tls/tls_context.h"

namespace paceline::transport {

class TcpConnector final : public LoopMember, public std::enable_shared_from_this<TcpConnector> {
 public:
  // `tls`: null in the clear.
  TcpConnector(TcpLoop& loop, const TcpOptions& tcp, std::shared_ptr<const TlsContext> tls, Address address, Duration deadline,
               Transport::Connected connected);
  ~TcpConnector() override;

  void start();

  void on_loop_gone() override;
  void on_turn_end() override {}

 private:
  void on_resolved(const asio::error_code& failure, const Resolver::results_type& found);
  void try_next();
  void on_connected(const asio::error_code& failure);
  void shake_hands(std::string peer);
  void hand_over(std::shared_ptr<Stream> stream);
  void give_up_try(Status reason);
  void drop_try();
  void finish(Result<std::unique_ptr<Connection>> result);
  Duration left() const { return until_ - loop_->now(); }

  TcpLoop* loop_;  // null once finished
  TcpOptions tcp_;
  std::shared_ptr<const TlsContext> tls_;
  Address address_;
  Duration deadline_;
  TimePoint until_;
  Transport::Connected connected_;
  std::optional<Resolver> resolver_;
  std::vector<asio::ip::tcp::endpoint> endpoints_;
  std::size_t tried_ = 0;
  std::optional<Socket> socket_;
  std::shared_ptr<Stream> shaking_;  // hands; has the socket
  Status last_failure_;              // of the address tried last
  Loop::TimerId timer_ = 0;
};

}  // namespace paceline::transport

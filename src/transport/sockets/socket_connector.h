// One attempt to connect: look the name up, try its addresses in turn, shake hands if that is wanted, all within a deadline, and
// call back once from the loop.
#pragma once

#include <optional>
#include <vector>

#include "transport/sockets/socket_family.h"
#include "transport/stream.h"
#include "transport/tls/tls_context.h"

namespace paceline::transport {

class SocketConnector final : public LoopMember, public std::enable_shared_from_this<SocketConnector> {
 public:
  // `tls`: null in the clear.
  SocketConnector(SocketLoop& loop, std::shared_ptr<const SocketFamily> family, std::shared_ptr<const TlsContext> tls,
                  Address address, Duration deadline, Transport::Connected connected);
  ~SocketConnector() override;

  void start();

  void on_loop_gone() override;
  void on_turn_end() override {}

 private:
  void on_found(const asio::error_code& failure, std::vector<SocketEndpoint> found);
  void try_next();
  void on_connected(const asio::error_code& failure);
  void shake_hands(Ends ends);
  void hand_over(std::shared_ptr<Stream> stream);
  void give_up_try(Status reason);
  void pass_over(const std::string& reason);
  void drop_try();
  void finish(Result<std::unique_ptr<Connection>> result);
  Duration left() const { return until_ - loop_->now(); }

  SocketLoop* loop_;  // null once finished
  std::shared_ptr<const SocketFamily> family_;
  std::shared_ptr<const TlsContext> tls_;
  Address address_;
  Duration deadline_;
  TimePoint until_;
  Transport::Connected connected_;
  std::unique_ptr<SocketFamily::Search> search_;
  std::vector<SocketEndpoint> endpoints_;
  std::size_t tried_ = 0;
  std::optional<Socket> socket_;
  std::shared_ptr<Stream> shaking_;  // hands; has the socket
  Status last_failure_;              // of the address tried last, if there was a way to one
  bool all_refused_ = true;          // so far
  Loop::TimerId timer_ = 0;
};

}  // namespace paceline::transport

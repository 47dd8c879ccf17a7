// The loop over Asio. Everything that Asio calls back runs inside a Turn, at whose end the connections write what they were given.
#pragma once

#include <atomic>

#include <asio/basic_socket_acceptor.hpp>
#include <asio/basic_stream_socket.hpp>
#include <asio/generic/stream_protocol.hpp>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "transport/loop_core.h"
#include "transport/sockets/handler_memory.h"

namespace paceline::transport {

using Executor = asio::io_context::executor_type;
using Socket = asio::basic_stream_socket<asio::generic::stream_protocol, Executor>;
using Acceptor = asio::basic_socket_acceptor<asio::generic::stream_protocol, Executor>;
using SocketEndpoint = asio::generic::stream_protocol::endpoint;

class SocketLoop final : public LoopCore {
 public:
  // Exists while a handler called by Asio runs.
  class Turn {
   public:
    explicit Turn(SocketLoop& loop) : loop_(loop) { loop_.begin_turn(); }
    ~Turn() {
      loop_.end_turn();
      loop_.obey_stop();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    SocketLoop& loop_;
  };

  explicit SocketLoop(Duration spin = Duration::zero());

  void run() override;
  asio::io_context& io() { return io_; }

 private:
  struct Woken;

  void run_spinning();
  void wake() override;
  void on_woken();
  void on_earlier_timer(TimePoint due) override;
  void on_timer();
  void obey_stop() {
    if (stop_asked()) io_.stop();
  }

  const Duration spin_;  // how long run() looks for more work before it sleeps
  HandlerMemory wake_memory_;
  asio::io_context io_{1};
  asio::executor_work_guard<Executor> work_;
  asio::basic_waitable_timer<std::chrono::steady_clock, asio::wait_traits<std::chrono::steady_clock>, Executor> timer_;
  TimePoint armed_ = TimePoint::max();
  std::atomic<bool> wake_posted_ = false;
};

}  // namespace paceline::transport

#include "transport/sockets/socket_loop.h"

#include <thread>

#include <asio/post.hpp>

namespace paceline::transport {

struct SocketLoop::Woken {
  using allocator_type = HandlerAllocator<void>;
  allocator_type get_allocator() const { return allocator_type(loop->wake_memory_); }
  void operator()() const { loop->on_woken(); }

  SocketLoop* loop;
};

SocketLoop::SocketLoop(Duration spin) : spin_(spin), work_(io_.get_executor()), timer_(io_) {}

void SocketLoop::run() {
  while (!stop_asked()) {
    io_.restart();
    serve();  // what an earlier stop left over
    obey_stop();
    if (spin_ > Duration::zero()) {
      run_spinning();
    } else {
      io_.run();
    }
  }
  forget_stop();
}

// Yields: with fewer processors than ranks on a machine, the one that is waited for has to run.
void SocketLoop::run_spinning() {
  TimePoint busy = now();
  while (!stop_asked()) {
    if (io_.poll() > 0) {
      busy = now();
    } else if (now() - busy < spin_) {
      std::this_thread::yield();
    } else {
      io_.run_one();
      busy = now();
    }
  }
}

void SocketLoop::wake() {
  if (!wake_posted_.exchange(true, std::memory_order_acq_rel)) asio::post(io_, Woken{this});
}

void SocketLoop::on_woken() {
  wake_posted_.exchange(false, std::memory_order_acq_rel);
  serve();
  obey_stop();
}

// The timer is only ever moved forward; when it fires too early because the work was cancelled, it is armed again.
void SocketLoop::on_earlier_timer(TimePoint due) {
  if (due >= armed_) return;
  armed_ = due;
  timer_.expires_at(due);
  timer_.async_wait([this](const asio::error_code& failure) {
    if (!failure) on_timer();
  });
}

void SocketLoop::on_timer() {
  armed_ = TimePoint::max();
  serve();
  if (const auto due = next_timer()) on_earlier_timer(*due);
  obey_stop();
}

}  // namespace paceline::transport

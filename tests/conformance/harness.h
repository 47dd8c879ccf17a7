// What the transport tests share: backends by name, ranks as threads with a loop each, and ends of connections that record what
// happens to them. No test waits by sleeping; every wait ends after kPatience with a message that names it.
#pragma once

#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "transport/transport.h"

namespace paceline::transport::testing {

inline constexpr auto kPatience = std::chrono::seconds(120);

struct Backend {
  std::string name;
  std::function<std::unique_ptr<Transport>()> make;  // all of one Backend reach each other
  std::string host;
};
using MakeBackend = Backend (*)();
Backend inproc_backend();
Backend unix_backend();
Backend tcp_backend();
Backend tls_backend();         // the same with a key
Backend faultless_backend();   // the decorator that injects nothing must be invisible
Backend clear_data_backend();  // with a key that leaves data clear, and all connections for data
Backend faultless_tls_backend();

std::string backend_name(const ::testing::TestParamInfo<MakeBackend>& info);  // for the names of the tests

// Descriptors and threads of this process; a fixture compares before and after.
std::size_t open_descriptors();
std::size_t threads();

class LeakCheck : public ::testing::Test {
 protected:
  LeakCheck();
  ~LeakCheck() override;

 private:
  std::size_t descriptors_ = 0;
  std::size_t threads_ = 0;
};

[[noreturn]] void give_up(const std::string& on_what);

// A transport whose loop runs on a thread of its own, until stop() or destruction.
class Rank {
 public:
  explicit Rank(const Backend& backend);
  ~Rank();
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  Transport& transport() { return *transport_; }
  Loop& loop() { return transport_->loop(); }
  // Runs `work` on the loop and waits for it.
  void on_loop(const std::function<void()>& work);
  void stop();
  void destroy_transport();  // after stop()

 private:
  std::unique_ptr<Transport> transport_;
  std::thread thread_;
};

struct Received {
  wire::FrameHeader header;
  std::vector<std::byte> body;
  std::vector<std::byte> payload;
  const std::byte* place;      // on_frame's
  const std::byte* announced;  // what on_head returned
};

// One end of a connection. Hooks run on the loop, after the recording; set them before start().
class End final : public ConnectionHandler {
 public:
  explicit End(Rank& rank) : rank_(rank) {}

  void adopt(std::unique_ptr<Connection> connection);  // loop thread
  void start();                                        // any thread
  // Loop thread. The buffer is kept until on_sent or on_closed and then freed, so that a later touch is found.
  void send_here(wire::FrameHeader header, std::vector<std::byte> body, std::vector<std::byte> payload, std::uint64_t ticket);
  void send(wire::FrameHeader header, std::vector<std::byte> body, std::vector<std::byte> payload, std::uint64_t ticket);
  void send_raw(wire::SealedHead head, std::vector<std::byte> payload, std::uint64_t ticket = 0);
  void close();
  void destroy();

  // Waits until the condition on what was recorded holds.
  void wait_until(const std::string& what, const std::function<bool(const End&)>& condition);
  void wait_closed() {
    wait_until("on_closed", [](const End& end) { return end.closed == 1; });
  }

  std::function<std::span<std::byte>(const wire::FrameHeader&)> head_hook;  // instead of a place of the end's own
  std::function<void(const Frame&)> frame_hook;
  std::function<void(std::uint64_t)> sent_hook;
  std::function<void(const Status&)> closed_hook;

  Rank& rank() { return rank_; }
  std::unique_ptr<Connection> connection;  // loop thread

  // Guarded by the lock that wait_until() holds; to be read there or when the loops stand still.
  std::vector<Received> received;
  std::vector<std::uint64_t> sent;
  int closed = 0;
  Status reason;

 private:
  std::span<std::byte> on_head(const wire::FrameHeader& header, std::span<const std::byte> body) override;
  void on_frame(const Frame& frame) override;
  void on_sent(std::uint64_t ticket) override;
  void on_closed(const Status& status) override;
  void record(const std::function<void()>& what);

  Rank& rank_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::byte> place_;
  std::vector<std::vector<std::byte>> borrowed_;  // payloads being sent, oldest at first_borrowed_
  std::size_t first_borrowed_ = 0;
};

// Some ranks and the connections between them. Connections, listeners and transports go in the right order.
class World {
 public:
  World(const Backend& backend, int ranks);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  Rank& rank(int index) { return *ranks_[static_cast<std::size_t>(index)]; }
  // Listens on `rank`; each connection becomes an End that `accepted` (loop thread) may set up. Admitted unless `accepted` is
  // given.
  Address listen(int rank, const ListenOptions& options = {}, std::function<void(End&)> accepted = {});
  End& connect(int from, const Address& to);  // not started
  Result<std::unique_ptr<Connection>> try_connect(int from, const Address& to, Duration deadline = std::chrono::seconds(60));
  struct Pair {
    End& accepted;
    End& connected;
  };
  Pair pair(int listening, int connecting);  // neither started; the accepted one admitted
  End& wait_accepted(std::size_t index);     // the index-th of all accepted ends
  std::size_t accepted();                    // ends so far
  void stop();
  void destroy_transports();

 private:
  End& add(Rank& rank);

  Backend backend_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<End>> ends_;
  std::vector<End*> accepted_;
};

std::vector<std::byte> random_bytes(std::mt19937_64& random, std::size_t count);

}  // namespace paceline::transport::testing

// Once warm, sending and receiving frames allocates nothing. A program of its own, because it counts every operator new.
#include <atomic>

#include "counting_new.h"
#include "harness.h"

namespace paceline::transport::testing {
namespace {

// Keeps `window` frames on their way to the peer, which answers each with a small one, until all have been answered.
class Pump final : public ConnectionHandler {
 public:
  Pump(std::uint64_t frames, std::size_t bytes) : frames_(frames), payload_(bytes), place_(wire::kMaxPayload) {}

  std::unique_ptr<Connection> connection;
  Pump* peer = nullptr;
  std::promise<void> done;

  // Fills the send queue once to more than it ever holds later; what it grows to when is otherwise a matter of timing.
  void warm_up(std::uint64_t frames) {
    for (std::uint64_t i = 0; i < frames; ++i) connection->send(wire::seal({}, {}, {}), {}, 0);
  }
  void begin(std::uint64_t window) {
    for (std::uint64_t i = 0; i < window; ++i) send_next();
  }

 private:
  void send_next() {
    if (sent_ == frames_) return;
    ++sent_;
    connection->send(wire::seal({.sequence = sent_}, {}, payload_), payload_, sent_);
  }
  std::span<std::byte> on_head(const wire::FrameHeader& header, std::span<const std::byte>) override {
    return std::span(place_).first(header.payload_bytes);
  }
  void on_frame(const Frame& frame) override {
    if (frame.header.sequence == 0 && frame.header.acknowledged == 0) return;  // warming up
    if (frames_ == 0) {
      connection->send(wire::seal({.acknowledged = frame.header.sequence}, {}, {}), {}, 0);
    } else if (frame.header.acknowledged == frames_) {
      done.set_value();
    } else {
      send_next();
    }
  }
  void on_sent(std::uint64_t) override {}
  void on_closed(const Status&) override {}

  std::uint64_t frames_;
  std::uint64_t sent_ = 0;
  std::vector<std::byte> payload_;
  std::vector<std::byte> place_;
};

class Allocation : public ::testing::TestWithParam<MakeBackend> {};
INSTANTIATE_TEST_SUITE_P(Backends, Allocation, ::testing::Values(&inproc_backend, &unix_backend, &tcp_backend, &tls_backend),
                         backend_name);

TEST_P(Allocation, FramesCostNoneOnceWarm) {
  for (const std::size_t bytes : {0UL, 64UL, 20000UL, 65536UL}) {
    SCOPED_TRACE(bytes);
    World world(GetParam()(), 2);
    auto [accepted, connected] = world.pair(0, 1);
    Pump answering(0, 0);
    Pump warming(4000, bytes);
    world.rank(0).on_loop([&, &from = accepted] {
      answering.connection = std::move(from.connection);
      answering.connection->start(answering);
      answering.warm_up(64);
    });
    // The connection is used by one handler for its life, so the same pump warms up and is measured.
    std::atomic<std::uint64_t> at_half = 0;
    class Halving final : public ConnectionHandler {
     public:
      Halving(ConnectionHandler& inner, std::atomic<std::uint64_t>& at_half) : inner_(inner), at_half_(at_half) {}
      std::span<std::byte> on_head(const wire::FrameHeader& header, std::span<const std::byte> body) override {
        return inner_.on_head(header, body);
      }
      void on_frame(const Frame& frame) override {
        if (frame.header.acknowledged == 2000) at_half_ = allocations();
        if (frame.header.acknowledged == 4000) at_end = allocations();
        inner_.on_frame(frame);
      }
      void on_sent(std::uint64_t ticket) override { inner_.on_sent(ticket); }
      void on_closed(const Status& reason) override { inner_.on_closed(reason); }
      std::uint64_t at_end = 0;

     private:
      ConnectionHandler& inner_;
      std::atomic<std::uint64_t>& at_half_;
    };
    Halving halving(warming, at_half);
    auto done = warming.done.get_future();
    world.rank(1).on_loop([&, &from = connected] {
      warming.connection = std::move(from.connection);
      warming.connection->start(halving);
      warming.warm_up(64);
      warming.begin(32);
    });
    if (done.wait_for(kPatience) != std::future_status::ready) give_up("the frames");
    world.stop();
    EXPECT_GT(at_half.load(), 0U);
    EXPECT_EQ(halving.at_end - at_half.load(), 0U) << "allocations during 2000 frames and their answers";
    answering.connection.reset();
    warming.connection.reset();
  }
}

TEST_P(Allocation, RaisingASignalCostsNone) {
  World world(GetParam()(), 1);
  std::atomic<std::uint64_t> served = 0;
  std::unique_ptr<Signal> signal;
  world.rank(0).on_loop([&] { signal = world.rank(0).loop().make_signal([&] { served.fetch_add(1); }); });
  const auto raise_and_wait = [&] {
    const std::uint64_t before = served.load();
    signal->raise();
    while (served.load() == before) std::this_thread::yield();
  };
  for (int i = 0; i < 100; ++i) raise_and_wait();
  const std::uint64_t before = allocations();
  for (int i = 0; i < 1000; ++i) raise_and_wait();
  EXPECT_EQ(allocations() - before, 0U);
  world.stop();
}

}  // namespace
}  // namespace paceline::transport::testing

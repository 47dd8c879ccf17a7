// Once warm, messages allocate nothing, on all threads together. A program of its own, because it counts every operator new.
#include "conformance/counting_new.h"
#include "session_node.h"

namespace paceline::session::testing {
namespace {

constexpr wire::PeerName kServer{wire::Role::kServer, {0}};
constexpr wire::PeerName kWorker{wire::Role::kWorker, {1}};

// Keeps messages of several sizes and layers on their way, and answers each of the peer's with an empty one.
class Pump {
 public:
  explicit Pump(Node& node) : node_(node), payload_(100'000), place_(16, std::vector<std::byte>(100'000)) {
    node.begin_hook = [this](PeerId, const wire::MessageHead& head) -> Result<std::span<std::byte>> {
      return std::span(place_[head.unit]).first(head.payload_bytes);
    };
    node.message_hook = [](PeerId, const wire::MessageHead&, std::span<std::byte>) {};
    node.delivered_hook = [this](PeerId peer, std::uint64_t slot) {
      ++delivered_;
      if (delivered_ == warm_) before_ = transport::testing::allocations();
      if (delivered_ == all_) after_ = transport::testing::allocations();
      if (sent_ < all_ + 16) send(peer, static_cast<std::uint32_t>(slot));
    };
  }
  void begin(PeerId peer) {
    node_.rank.on_loop([&] {
      for (std::uint32_t slot = 0; slot < 16; ++slot) send(peer, slot);
    });
  }
  bool finished() const { return delivered_ >= all_ + 16; }
  std::uint64_t allocated() const { return after_ - before_; }
  static constexpr std::uint64_t warm_ = 3000, all_ = 13'000;

 private:
  void send(PeerId peer, std::uint32_t slot) {
    static constexpr std::array<std::size_t, 5> kSizes = {0, 100, 16'384, 20'000, 100'000};
    const std::size_t size = kSizes[sent_ % kSizes.size()];
    node_.endpoint->send(peer, {.layer = {static_cast<std::int32_t>(sent_++ % 7)}, .unit = slot, .payload_bytes = size},
                         std::span(payload_).first(size), slot);
  }

  Node& node_;
  std::vector<std::byte> payload_;
  std::vector<std::vector<std::byte>> place_;
  std::uint64_t sent_ = 0, delivered_ = 0, before_ = 0, after_ = 0;
};

class SessionAllocation : public ::testing::TestWithParam<transport::testing::MakeBackend> {};

TEST_P(SessionAllocation, OnceWarmTenThousandMessagesAllocateNothing) {
  const Backend backend = GetParam()();
  Node server(backend, {.self = kServer, .seed = 1, .chunk = {16'384}, .window = {65'536}});
  Node worker(backend, {.self = kWorker, .seed = 2, .chunk = {16'384}, .window = {65'536}});
  Pump of_server(server), of_worker(worker);
  worker.connect(server.listen(backend.host), kServer);
  const PeerId to_server = worker.wait_peer(kServer), to_worker = server.wait_peer(kWorker);
  of_server.begin(to_worker);
  of_worker.begin(to_server);
  worker.wait_until("all of the worker", [&](Node&) { return of_worker.finished(); });
  server.wait_until("all of the server", [&](Node&) { return of_server.finished(); });
  // A timer for the next heartbeat may be armed in between, and the waiting above asks the loops once: some, but none per message.
  EXPECT_LE(of_worker.allocated(), 20U);
  EXPECT_LE(of_server.allocated(), 20U);
  std::cout << of_worker.allocated() << " and " << of_server.allocated() << " allocations during 10000 messages\n";
}

INSTANTIATE_TEST_SUITE_P(Backends, SessionAllocation,
                         ::testing::Values(&transport::testing::inproc_backend, &transport::testing::tcp_backend),
                         transport::testing::backend_name);

}  // namespace
}  // namespace paceline::session::testing

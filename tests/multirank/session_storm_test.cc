// Four ranks, each with each other, thousands of messages of 0 to 1 MB in random layers: whatever the network does, every message
// arrives once and undamaged.
#include "session_node.h"
#include "transport/faulty/faulty_transport.h"
#include "transport/inproc/inproc_transport.h"
#include "transport/tcp/tcp_transport.h"

namespace paceline::session::testing {
namespace {

using namespace std::chrono_literals;

constexpr int kRanks = 4;

struct Case {
  std::string name;
  bool tcp = false;
  bool faulty = false;
  std::uint64_t messages = 0;  // from each rank to each other
  Bytes chunk{16'384};
};

// Sends its messages to one peer, a few at a time, and scribbles over each payload once it is its own again.
struct Stream {
  PeerId peer = 0;
  std::uint64_t to = 0, next = 0, delivered = 0;
  std::vector<bool> arrived;
  std::map<std::uint64_t, std::vector<std::byte>> sending, receiving;
};

class StormNode : public Node {
 public:
  StormNode(const Backend& backend, const EndpointOptions& with, std::uint64_t messages, std::uint64_t seed)
      : Node(backend, with), self_(static_cast<std::uint64_t>(with.self.rank.value)), messages_(messages), random_(seed) {
    begin_hook = [this](PeerId peer, const wire::MessageHead& head) -> Result<std::span<std::byte>> {
      auto& place = stream(peer).receiving[head.unit];
      EXPECT_TRUE(place.empty()) << "message " << head.unit << " began twice";
      place.resize(head.payload_bytes);
      return std::span(place);
    };
    message_hook = [this](PeerId peer, const wire::MessageHead& head, std::span<std::byte> payload) {
      Stream& from = stream(peer);
      ASSERT_LT(head.unit, messages_);
      EXPECT_FALSE(from.arrived[head.unit]) << "message " << head.unit << " of " << from.to << " arrived twice";
      from.arrived[head.unit] = true;
      EXPECT_TRUE(is_filled(payload, from.to, self_, head.unit)) << "message " << head.unit << " of " << from.to << " is damaged";
      from.receiving.erase(head.unit);
    };
    delivered_hook = [this](PeerId peer, std::uint64_t ticket) {
      Stream& to = stream(peer);
      const auto sent = to.sending.find(ticket);
      ASSERT_NE(sent, to.sending.end()) << "ticket " << ticket << " delivered twice";
      std::fill(sent->second.begin(), sent->second.end(), std::byte{0xee});
      to.sending.erase(sent);
      ++to.delivered;
      send_more(to);
    };
  }

  // After all peers are there.
  void begin() {
    rank.on_loop([this] {
      for (const auto& [peer, name] : peers) {
        Stream& stream = streams_[peer];
        stream.peer = peer;
        stream.to = static_cast<std::uint64_t>(name.rank.value);
        stream.arrived.resize(messages_);
      }
    });
  }
  void go() {
    rank.on_loop([this] {
      for (auto& [peer, stream] : streams_) send_more(stream);
    });
  }
  bool finished() {
    EXPECT_TRUE(lost.empty()) << (lost.empty() ? "" : lost.begin()->second.reason.message());
    if (!lost.empty()) return true;
    for (const auto& [peer, stream] : streams_) {
      if (stream.delivered < messages_ || std::find(stream.arrived.begin(), stream.arrived.end(), false) != stream.arrived.end())
        return false;
    }
    return true;
  }

 private:
  Stream& stream(PeerId peer) { return streams_.at(peer); }

  void send_more(Stream& to) {
    while (to.next < messages_ && to.sending.size() < 8) {
      const std::uint64_t index = to.next++;
      std::vector<std::byte>& payload = to.sending[index];
      payload.resize(draw_size());
      fill(payload, self_, to.to, index);
      const wire::MessageHead head{.layer = {static_cast<std::int32_t>(random_() % 6) - 1},
                                   .unit = static_cast<std::uint32_t>(index),
                                   .payload_bytes = payload.size()};
      endpoint->send(to.peer, head, payload, index);
    }
  }

  std::size_t draw_size() {
    switch (random_() % 64) {
      case 0:
        return random_() % 1'000'001;
      case 1:
      case 2:
      case 3:
      case 4:
      case 5:
      case 6:
      case 7:
      case 8:
        return 0;
      case 9:
        return 1;
      case 10:
        return 16'384;
      default:
        return random_() % 20'000;
    }
  }

  std::uint64_t self_, messages_;
  std::mt19937_64 random_;
  std::map<PeerId, Stream> streams_;
};

class SessionStorm : public LeakCheck, public ::testing::WithParamInterface<Case> {};

TEST_P(SessionStorm, EveryMessageArrivesOnceAndUndamaged) {
  const Case& with = GetParam();
  auto network = std::make_shared<transport::InprocNetwork>();
  std::vector<transport::FaultyTransport*> faults;
  Backend backend{with.name, {}, with.tcp ? "127.0.0.1" : "node"};
  backend.make = [&]() -> std::unique_ptr<transport::Transport> {
    auto inner = with.tcp ? transport::make_tcp_transport() : network->make_transport();
    if (!with.faulty) return inner;
    auto faulty = transport::make_faulty_transport(std::move(inner), {.seed = 100 + faults.size(),
                                                                      .delay = 0.002,
                                                                      .longest_delay = 5ms,
                                                                      .reorder = 0.01,
                                                                      .cut_before = 0.0007,
                                                                      .cut_inside = 0.0007,
                                                                      .cut_after = 0.0007,
                                                                      .corrupt_head = 0.0005,
                                                                      .corrupt_payload = 0.002,
                                                                      .duplicate_connect = 0.2});
    faults.push_back(faulty.get());
    return faulty;
  };
  std::vector<std::unique_ptr<StormNode>> nodes;
  for (int i = 0; i < kRanks; ++i) {
    const EndpointOptions options{.self = {wire::Role::kWorker, {i}},
                                  .job = 9,
                                  .epoch = 1,
                                  .seed = static_cast<std::uint64_t>(i),
                                  .chunk = with.chunk,
                                  .window = with.chunk * 6};
    nodes.push_back(std::make_unique<StormNode>(backend, options, with.messages, 1000 + static_cast<std::uint64_t>(i)));
  }
  for (int i = 0; i < kRanks; ++i) {
    const auto address = nodes[i]->listen(backend.host);
    for (int j = i + 1; j < kRanks; ++j) nodes[j]->connect(address, {wire::Role::kWorker, {i}});
  }
  for (auto& node : nodes) node->wait_until("all peers", [](Node& n) { return n.peers.size() == kRanks - 1; });
  for (auto& node : nodes) node->begin();
  for (auto& node : nodes) node->go();
  for (auto& node : nodes) node->wait_until("all messages", [](Node& n) { return static_cast<StormNode&>(n).finished(); });

  EndpointCounters all;
  transport::FaultCounts injected;
  for (auto& node : nodes) {
    const auto counters = node->counters();
    EXPECT_EQ(counters.messages_sent, with.messages * (kRanks - 1));
    EXPECT_EQ(counters.messages_received, with.messages * (kRanks - 1));
    all.payload_bytes_sent += counters.payload_bytes_sent;
    all.payload_bytes_received += counters.payload_bytes_received;
    all.overtakes += counters.overtakes;
    all.reconnects += counters.reconnects;
    all.chunks_resent += counters.chunks_resent;
    all.duplicates_dropped += counters.duplicates_dropped;
    all.frames_damaged += counters.frames_damaged;
  }
  for (const auto* faulty : faults) {
    injected.cuts += faulty->counts().cuts;
    injected.corruptions += faulty->counts().corruptions;
    injected.reorderings += faulty->counts().reorderings;
    injected.duplicate_connects += faulty->counts().duplicate_connects;
  }
  std::cout << fmt::format(
      "{}: {} MB, {} overtakes, {} reconnects, {} chunks resent, {} duplicates, {} damaged; injected {} cuts, {} corruptions, {} "
      "reorderings, {} connects\n",
      with.name, all.payload_bytes_sent / 1'000'000, all.overtakes, all.reconnects, all.chunks_resent, all.duplicates_dropped,
      all.frames_damaged, injected.cuts, injected.corruptions, injected.reorderings, injected.duplicate_connects);
  EXPECT_EQ(all.payload_bytes_sent, all.payload_bytes_received);
  EXPECT_GT(all.overtakes, 0U);
  if (with.faulty) {
    EXPECT_GT(injected.cuts, 0U);
    EXPECT_GT(injected.corruptions, 0U);
    EXPECT_GT(injected.reorderings, 0U);
    EXPECT_GT(injected.duplicate_connects, 0U);
    EXPECT_GT(all.reconnects, 0U);
    EXPECT_GT(all.chunks_resent, 0U);
    EXPECT_GT(all.frames_damaged, 0U);
  } else {
    EXPECT_EQ(all.reconnects, 0U);
    EXPECT_EQ(all.chunks_resent, 0U);
    EXPECT_EQ(all.frames_damaged, 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, SessionStorm,
                         ::testing::Values(Case{.name = "inproc", .messages = 2500},
                                           Case{.name = "tcp", .tcp = true, .messages = 2500},
                                           Case{.name = "faulty_inproc", .faulty = true, .messages = 2000},
                                           Case{.name = "faulty_tcp", .tcp = true, .faulty = true, .messages = 2000}),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace paceline::session::testing

// What the engine hands to the sessions, stepped by hand: which operations wait for an acknowledgement, and from where messages
// leave.
#include "collectives/exec/engine.h"

#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

namespace paceline::collectives {
namespace {

struct Sent {
  Rank to;
  std::span<const std::byte> payload;
  std::uint64_t ticket;
};

struct Network final : PeerOutbox {
  void send(Rank to, const wire::MessageHead&, std::span<const std::byte> payload, std::uint64_t ticket) override {
    sent.push_back({to, payload, ticket});
  }
  std::vector<Sent> sent;
};

// Rank 0 of two or more, which broadcasts to a group of itself and one other.
struct Root {
  // Begins a broadcast of `values` in a group with `to`.
  bool& broadcast(std::vector<float>& values, Rank to) {
    Group group;
    group.id = static_cast<std::uint32_t>(to.value);
    group.ranks = {Rank{0}, to};
    const Call call{.kind = CollectiveKind::kBroadcast,
                    .output = values.data(),
                    .count = std::ssize(values),
                    .algorithm = Algorithm::kMinimumSpanningTree};
    const Rules rules{.agreement = Agreement::kWithData};
    const Choice choice = choose(group, call, rules);
    auto program = programs.get(group, call, rules, choice);
    bool& over = *overs.emplace_back(std::make_unique<bool>(false));
    engine.start(prepare(std::make_shared<const Group>(std::move(group)), call, choice, std::move(program), ++numbers[to]),
                 [&over](const Status& status) { over = status.ok(); });
    return over;
  }

  Network network;
  Engine engine{Rank{0}, 3, network};
  ProgramCache programs;
  std::map<Rank, std::uint32_t> numbers;
  std::vector<std::unique_ptr<bool>> overs;
};

std::vector<float> numbers_from(float first, std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

constexpr std::size_t kSmall = wire::kCopiedCollectiveBytes / sizeof(float);

TEST(Engine, ASmallMessageLeavesFromACopySoThatItsOperationIsOverAtOnce) {
  Root root;
  std::vector<float> values = numbers_from(1, kSmall);
  EXPECT_TRUE(root.broadcast(values, Rank{1}));
  ASSERT_EQ(root.network.sent.size(), 1U);
  const std::vector<float> before = values;
  std::ranges::fill(values, -1.0F);  // the caller's again
  EXPECT_TRUE(std::ranges::equal(root.network.sent[0].payload, std::as_bytes(std::span(before))));
  root.engine.on_delivered(root.network.sent[0].ticket);
}

TEST(Engine, ALargerMessageLeavesFromWhereItStandsAndItsOperationLastsUntilDelivery) {
  Root root;
  std::vector<float> values = numbers_from(1, kSmall + 1);
  const bool& over = root.broadcast(values, Rank{1});
  ASSERT_FALSE(root.network.sent.empty());
  EXPECT_EQ(static_cast<const void*>(root.network.sent[0].payload.data()), values.data());
  EXPECT_FALSE(over);
  for (std::size_t i = 0; i < root.network.sent.size(); ++i) root.engine.on_delivered(root.network.sent[i].ticket);
  EXPECT_TRUE(over);
}

TEST(Engine, CopiesAreLimitedAndWhatIsDeliveredOrLostMakesRoomForOthers) {
  Root root;
  std::vector<float> values = numbers_from(1, kSmall);
  for (std::int64_t bytes = 0; bytes < Engine::kMostCopiedBytes; bytes += std::int64_t{wire::kCopiedCollectiveBytes})
    ASSERT_TRUE(root.broadcast(values, Rank{1})) << bytes;
  const bool& waits = root.broadcast(values, Rank{1});
  EXPECT_FALSE(waits);
  root.engine.on_delivered(root.network.sent.back().ticket);
  EXPECT_TRUE(waits);

  root.engine.on_delivered(root.network.sent.front().ticket);
  EXPECT_TRUE(root.broadcast(values, Rank{2}));
  EXPECT_FALSE(root.broadcast(values, Rank{2}));
  root.engine.on_delivered(root.network.sent.back().ticket);
  root.engine.on_peer_lost(Rank{1}, error(ErrorKind::kPeerLost, "rank 1 is gone"));
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(root.broadcast(values, Rank{2})) << i;
}

}  // namespace
}  // namespace paceline::collectives

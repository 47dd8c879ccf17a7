// What the engine hands to the sessions, stepped by hand: which operations wait for an acknowledgement, and from where messages
// leave.
#include "collectives/exec/engine.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include <gtest/gtest.h>

#include "wire/control.h"

namespace paceline::collectives {
namespace {

struct Sent {
  Rank to;
  std::span<const std::byte> payload;
  std::uint64_t ticket;
};

struct Network final : session::Sender {
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
    CallPlanner planner(std::make_shared<const Group>(std::move(group)), {.agreement = Agreement::kWithData});
    bool& over = *overs.emplace_back(std::make_unique<bool>(false));
    engine.start(planner.prepare(call, planner.choose(call), ++numbers[to]), [&over](const Status& status) { over = status.ok(); });
    return over;
  }

  Network network;
  Engine engine{Rank{0}, 3, network};
  std::map<Rank, std::uint32_t> numbers;
  std::vector<std::unique_ptr<bool>> overs;
};

// Rank 1 of two, whose block to rank 0 the network still holds when the verdict on their disagreement comes, and rank 0 goes.
TEST(Engine, TheVerdictOfAJudgeThatGoesBeforeItsLastBlockIsReturnedEndsTheOperation) {
  Network network;
  Engine engine(Rank{1}, 2, network);
  std::vector<float> values(wire::kCopiedCollectiveBytes, 1.0F);
  const auto group = std::make_shared<const Group>(Group{.id = 0, .ranks = {Rank{0}, Rank{1}}, .self = 1});
  const Call call{.kind = CollectiveKind::kBroadcast,
                  .output = values.data(),
                  .count = std::ssize(values),
                  .root = 1,
                  .algorithm = Algorithm::kMinimumSpanningTree};
  CallPlanner planner(group, {.agreement = Agreement::kWithData});
  const Choice choice = planner.choose(call);
  std::optional<Status> end;
  engine.start(planner.prepare(call, choice, 1), [&](const Status& how) { end = how; });
  // Its first block may leave once rank 0 has begun; what rank 0 has begun is something else.
  wire::CollectiveHead theirs = head_of(*group, call, choice, 1);
  wire::MessageHead ready{.kind = wire::MessageKind::kCollectiveReady};
  pack(theirs, ready);
  engine.on_message(Rank{0}, ready, {});
  ASSERT_TRUE(std::ranges::any_of(network.sent, [](const Sent& sent) { return !sent.payload.empty(); })) << "nothing is borrowed";
  ++theirs.count;
  wire::MessageHead other{.kind = wire::MessageKind::kCollective};
  pack(theirs, other);
  engine.on_message(Rank{0}, other, {});
  const Status verdict = error(ErrorKind::kBadRequest, "ranks 0 and 1 disagree");
  auto told = encode(wire::stop_for(verdict));
  engine.on_message(Rank{0}, {.kind = wire::MessageKind::kCollectiveFailed, .payload_bytes = told.size()}, told);
  EXPECT_FALSE(end) << "the network still reads the block";
  engine.on_peer_lost(Rank{0}, wire::Channel::kCollective, error(ErrorKind::kPeerLost, "rank 0 was killed"));
  ASSERT_TRUE(end) << "nothing else can happen that would end it";
  EXPECT_EQ(end->message(), verdict.message());
}

// Of four ranks 3 and 0 are lost. Rank 1 needs rank 0 and fails; rank 2 does not.
TEST(Engine, WithoutTheJudgeWhoFailsTellsAllOthersSoThatTheyDoNotBlameIt) {
  Network network;
  Engine engine(Rank{1}, 4, network);
  std::vector<float> values(10, 1.0F);
  const auto group = std::make_shared<const Group>(Group{.id = 0, .ranks = {Rank{0}, Rank{1}, Rank{2}, Rank{3}}, .self = 1});
  CallPlanner planner(group, {.agreement = Agreement::kWithData});
  const Call call{.kind = CollectiveKind::kBroadcast,
                  .output = values.data(),
                  .count = std::ssize(values),
                  .algorithm = Algorithm::kLinearPipeline};
  std::optional<Status> end;
  engine.start(planner.prepare(call, planner.choose(call), 1), [&](const Status& how) { end = how; });
  const Status gone = error(ErrorKind::kPeerLost, "rank 0 has ended");
  engine.on_peer_lost(Rank{3}, wire::Channel::kCollective, error(ErrorKind::kPeerLost, "rank 3 has ended"));
  network.sent.clear();
  engine.on_peer_lost(Rank{0}, wire::Channel::kCollective, gone);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->message(), gone.message());
  std::vector<Rank> told;
  for (const Sent& sent : network.sent) told.push_back(sent.to);
  EXPECT_EQ(told, std::vector<Rank>{Rank{2}}) << "rank 3 is not there to be told";

  // Rank 2 needs nothing of rank 0, and has not noticed.
  Network other;
  Engine hearer(Rank{2}, 4, other);
  const auto payload = network.sent.at(0).payload;
  std::vector<std::byte> copy(payload.begin(), payload.end());
  hearer.on_message(Rank{1}, {.kind = wire::MessageKind::kCollectiveFailed, .payload_bytes = copy.size()}, copy);
  EXPECT_TRUE(hearer.failure().ok()) << "the judge, for all it knows, will say what counts";
  ASSERT_EQ(other.sent.size(), 1U);
  EXPECT_EQ(other.sent[0].to, Rank{0});
  hearer.on_peer_lost(Rank{0}, wire::Channel::kCollective, error(ErrorKind::kPeerLost, "rank 0 hung up"));
  EXPECT_EQ(hearer.failure().message(), gone.message());
}

// Rank 0 of two, which has sent all of its broadcast and waits only for rank 1 to begin, which cuts it into other blocks.
TEST(Engine, WhoseBlocksDifferIsFoundBeforeTheRootIsDone) {
  Network network;
  Engine engine(Rank{0}, 2, network);
  std::vector<float> values(100, 1.0F);
  const auto group = std::make_shared<const Group>(Group{.id = 0, .ranks = {Rank{0}, Rank{1}}});
  Call call{.kind = CollectiveKind::kBroadcast,
            .output = values.data(),
            .count = std::ssize(values),
            .algorithm = Algorithm::kLinearPipeline,
            .block = Bytes{40}};
  const auto program_of = [&](int rank) {
    const auto own = std::make_shared<const Group>(Group{.id = 0, .ranks = group->ranks, .self = rank});
    return CallPlanner(own, {}).program_of(call, choose(*own, call, {}));
  };
  std::optional<Status> end;
  CallPlanner planner(group, {});
  engine.start(planner.prepare(call, planner.choose(call), 1), [&](const Status& how) { end = how; });
  EXPECT_EQ(network.sent.size(), 10U) << "all blocks are on their way, which say that it has begun";
  for (std::size_t i = 0; i < network.sent.size(); ++i)
    engine.on_delivered(Rank{1}, wire::Channel::kCollective, network.sent[i].ticket);
  ASSERT_FALSE(end);

  call.block = Bytes{120};
  wire::CollectiveHead theirs = head_of(*group, call, choose(*group, call, {}), 1);
  theirs.index = program_of(1)->cut;
  wire::MessageHead begun{.kind = wire::MessageKind::kCollective};
  pack(theirs, begun);
  engine.on_message(Rank{1}, begun, {});
  ASSERT_TRUE(end);
  EXPECT_EQ(end->kind(), ErrorKind::kBadRequest);
  EXPECT_NE(end->message().find("rank 1 sends blocks of 120 bytes instead of 40; give the same block_bytes"), std::string::npos)
      << end->message();
}

std::vector<float> numbers_from(float first, std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

// Rank 1 of two, for which rank 0 broadcasts before it leaves, and before rank 1 begins.
struct Leaf {
  // The message of rank 0 begins; its place.
  std::span<std::byte> begin_message() {
    pack(head_of(*group, call, choice, 1), head);
    return engine.on_message_begin(Rank{0}, head).value();
  }
  void lose() { engine.on_peer_lost(Rank{0}, wire::Channel::kCollective, error(ErrorKind::kCancelled, "rank 0 has left")); }
  // How the operation of that number ends, which it has to when it begins.
  Status run(std::uint32_t number) {
    std::optional<Status> end;
    engine.start(planner.prepare(call, choice, number), [&](const Status& how) { end = how; });
    EXPECT_TRUE(end) << "it waits for nobody";
    return end.value_or(Status());
  }

  Network network;
  Engine engine{Rank{1}, 2, network};
  std::vector<float> values = std::vector<float>(10);
  Call call{.kind = CollectiveKind::kBroadcast,
            .output = values.data(),
            .count = std::ssize(values),
            .algorithm = Algorithm::kMinimumSpanningTree};
  std::shared_ptr<const Group> group = std::make_shared<const Group>(Group{.id = 0, .ranks = {Rank{0}, Rank{1}}, .self = 1});
  CallPlanner planner{group, {.agreement = Agreement::kWithData}};
  Choice choice = planner.choose(call);
  wire::MessageHead head{.kind = wire::MessageKind::kCollective, .payload_bytes = 10 * sizeof(float)};
};

TEST(Engine, WhatASenderHadSentBeforeItLeftIsEnoughForAnOperationThatNeedsNoMoreOfIt) {
  Leaf leaf;
  const std::vector<float> sent = numbers_from(1, 10);
  const auto place = leaf.begin_message();
  std::ranges::copy(std::as_bytes(std::span(sent)), place.begin());
  leaf.engine.on_message(Rank{0}, leaf.head, place);
  leaf.lose();
  const Status status = leaf.run(1);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(leaf.values, sent);
  EXPECT_EQ(leaf.run(2).message(), "rank 0 has left");
}

TEST(Engine, WhatHadOnlyBegunToComeWhenItsSenderLeftIsNot) {
  Leaf leaf;
  leaf.begin_message();
  leaf.lose();
  EXPECT_EQ(leaf.run(1).message(), "rank 0 has left");
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
  root.engine.on_delivered(Rank{1}, wire::Channel::kCollective, root.network.sent[0].ticket);
}

TEST(Engine, ALargerMessageLeavesFromWhereItStandsAndItsOperationLastsUntilDelivery) {
  Root root;
  std::vector<float> values = numbers_from(1, kSmall + 1);
  const bool& over = root.broadcast(values, Rank{1});
  ASSERT_FALSE(root.network.sent.empty());
  EXPECT_EQ(static_cast<const void*>(root.network.sent[0].payload.data()), values.data());
  EXPECT_FALSE(over);
  for (std::size_t i = 0; i < root.network.sent.size(); ++i)
    root.engine.on_delivered(Rank{1}, wire::Channel::kCollective, root.network.sent[i].ticket);
  EXPECT_TRUE(over);
}

TEST(Engine, CopiesAreLimitedAndWhatIsDeliveredOrLostMakesRoomForOthers) {
  Root root;
  std::vector<float> values = numbers_from(1, kSmall);
  for (std::int64_t bytes = 0; bytes < Engine::kMostCopiedBytes; bytes += std::int64_t{wire::kCopiedCollectiveBytes})
    ASSERT_TRUE(root.broadcast(values, Rank{1})) << bytes;
  const bool& waits = root.broadcast(values, Rank{1});
  EXPECT_FALSE(waits);
  root.engine.on_delivered(Rank{1}, wire::Channel::kCollective, root.network.sent.back().ticket);
  EXPECT_TRUE(waits);

  root.engine.on_delivered(Rank{1}, wire::Channel::kCollective, root.network.sent.front().ticket);
  EXPECT_TRUE(root.broadcast(values, Rank{2}));
  EXPECT_FALSE(root.broadcast(values, Rank{2}));
  root.engine.on_delivered(Rank{1}, wire::Channel::kCollective, root.network.sent.back().ticket);
  root.engine.on_peer_lost(Rank{1}, wire::Channel::kCollective, error(ErrorKind::kPeerLost, "rank 1 is gone"));
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(root.broadcast(values, Rank{2})) << i;
}

}  // namespace
}  // namespace paceline::collectives

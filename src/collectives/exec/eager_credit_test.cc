// What may be sent to a rank that has not begun, by itself and between two engines that are stepped by hand.
#include "collectives/exec/eager_credit.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "collectives/exec/engine.h"

namespace paceline::collectives {
namespace {

constexpr std::int32_t kManyRanks = 4096;  // so that each has room for kEagerBytes at another
constexpr std::int64_t kQuarter = kEagerBytes / 4;

TEST(EagerCredit, WhatAllMaySendTogetherIsWhatARankKeeps) {
  for (const std::int32_t ranks : {2, 3, 8, 1000})
    EXPECT_LE(early_bytes_of_each(ranks) * (ranks - 1), kMostEarlyBytes) << ranks << " ranks";
  EXPECT_EQ(early_bytes_of_each(1), kMostEarlyBytes);
  EXPECT_EQ(early_bytes_of_each(kManyRanks), kEagerBytes) << "one operation always fits";
}

TEST(EagerCredit, IsThereAgainWhenThePeerHasBegunWhatItWasSent) {
  EagerCredit credit(kManyRanks);
  for (std::uint32_t number = 1; number <= 4; ++number)
    EXPECT_TRUE(credit.take(Rank{1}, {.group = 7, .number = number}, kQuarter)) << number;
  EXPECT_FALSE(credit.take(Rank{1}, {.group = 7, .number = 5}, 1));
  EXPECT_FALSE(credit.take(Rank{1}, {.group = 8, .number = 1}, 1)) << "it is the peer's memory, whatever the group";
  EXPECT_TRUE(credit.take(Rank{2}, {.group = 7, .number = 5}, kEagerBytes)) << "another peer's";
  credit.on_begun(Rank{1}, {.group = 7, .number = 3});
  EXPECT_FALSE(credit.take(Rank{1}, {.group = 8, .number = 1}, 1)) << "the fourth may still wait there";
  credit.on_begun(Rank{1}, {.group = 7, .number = 6});
  EXPECT_TRUE(credit.take(Rank{1}, {.group = 7, .number = 6}, kEagerBytes)) << "that does not wait there";
  EXPECT_TRUE(credit.take(Rank{1}, {.group = 8, .number = 1}, kEagerBytes));
}

TEST(EagerCredit, NamesOnceWhatElseKeepsTheRoom) {
  EagerCredit credit(kManyRanks);
  credit.take(Rank{1}, {.group = 7, .number = 1}, kQuarter);
  credit.take(Rank{1}, {.group = 7, .number = 2}, kQuarter);
  credit.take(Rank{1}, {.group = 8, .number = 1}, kQuarter);
  const auto asked = credit.to_ask_about(Rank{1}, 8);
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0], (wire::CollectiveHead{.group = 7, .number = 2}));
  EXPECT_TRUE(credit.to_ask_about(Rank{1}, 8).empty());
  credit.take(Rank{1}, {.group = 7, .number = 3}, kQuarter);
  EXPECT_EQ(credit.to_ask_about(Rank{1}, 8).size(), 1U) << "there is a newer one";
}

// Ranks 0 and 1, of which the former broadcasts to the latter in groups of the two. What one sends waits until it is brought.
class TwoRanks {
 public:
  TwoRanks() : ends_{std::make_unique<End>(Rank{0}), std::make_unique<End>(Rank{1})} {}

  // The rank begins the next broadcast of the group.
  void begin(int rank, std::uint32_t group, std::vector<float>& values) {
    End& end = *ends_[static_cast<std::size_t>(rank)];
    const auto both = std::make_shared<const Group>(Group{.id = group, .ranks = {Rank{0}, Rank{1}}, .self = rank});
    const Call call{.kind = CollectiveKind::kBroadcast,
                    .output = values.data(),
                    .count = std::ssize(values),
                    .algorithm = Algorithm::kMinimumSpanningTree};
    CallPlanner planner(both, {.agreement = Agreement::kWithData});
    end.engine.start(planner.prepare(call, planner.choose(call), ++end.numbers[group]), [&end](const Status& how) {
      EXPECT_TRUE(how.ok()) << how.message();
      ++end.over;
    });
  }

  // Brings the oldest message of the rank, if there is one, to the other, and its receipt back.
  Status bring_one(int rank) {
    End& sender = *ends_[static_cast<std::size_t>(rank)];
    Engine& receiver = ends_[static_cast<std::size_t>(1 - rank)]->engine;
    if (sender.outgoing.empty()) return {};
    const Outgoing message = sender.outgoing.front();
    sender.outgoing.pop_front();
    std::span<std::byte> place;
    if (!message.payload.empty()) {
      PACELINE_ASSIGN_OR_RETURN(place, receiver.on_message_begin(Rank{rank}, message.head));
      std::ranges::copy(message.payload, place.begin());
    }
    receiver.on_message(Rank{rank}, message.head, place);
    sender.engine.on_delivered(Rank{1 - rank}, wire::Channel::kCollective, message.ticket);
    return {};
  }

  // And all that follows from it.
  Status bring_all() {
    while (!ends_[0]->outgoing.empty() || !ends_[1]->outgoing.empty()) {
      for (const int rank : {0, 1}) PACELINE_RETURN_IF_ERROR(bring_one(rank));
    }
    return {};
  }

  int over(int rank) const { return ends_[static_cast<std::size_t>(rank)]->over; }

 private:
  struct Outgoing {
    wire::MessageHead head;
    std::span<const std::byte> payload;
    std::uint64_t ticket;
  };
  struct End final : session::Sender {
    explicit End(Rank self) : engine(self, kManyRanks, *this) {}
    void send(Rank, const wire::MessageHead& head, std::span<const std::byte> payload, std::uint64_t ticket) override {
      outgoing.push_back({head, payload, ticket});
    }
    std::deque<Outgoing> outgoing;
    std::map<std::uint32_t, std::uint32_t> numbers;  // by group
    int over = 0;
    Engine engine;
  };

  std::array<std::unique_ptr<End>, 2> ends_;
};

std::vector<float> of_bytes(std::int64_t bytes, float value) {
  return std::vector<float>(static_cast<std::size_t>(bytes) / sizeof(float), value);
}

TEST(EagerCredit, ALateRankIsSentWhatItKeepsAndTheRestWhenItBegins) {
  TwoRanks ranks;
  std::vector<std::vector<float>> sent(10, of_bytes(kQuarter, 2)), got(10, of_bytes(kQuarter, 0));
  for (auto& values : sent) {
    ranks.begin(0, 1, values);
    ASSERT_TRUE(ranks.bring_all().ok());
  }
  EXPECT_EQ(ranks.over(0), 4);
  for (auto& values : got) {
    ranks.begin(1, 1, values);
    ASSERT_TRUE(ranks.bring_all().ok());
  }
  EXPECT_EQ(ranks.over(0), 10);
  EXPECT_EQ(ranks.over(1), 10);
  EXPECT_EQ(got, sent);
}

TEST(EagerCredit, AGroupThatFillsTheRoomKeepsNoOtherFromGoingOn) {
  TwoRanks ranks;
  std::vector<std::vector<float>> sent(6, of_bytes(kQuarter, 2)), got(6, of_bytes(kQuarter, 0));
  for (std::size_t i = 0; i < 4; ++i) ranks.begin(0, 1, sent[i]);
  ranks.begin(0, 2, sent[4]);
  ASSERT_TRUE(ranks.bring_all().ok());
  EXPECT_EQ(ranks.over(0), 4);
  ranks.begin(1, 2, got[4]);
  ASSERT_TRUE(ranks.bring_all().ok());
  EXPECT_EQ(ranks.over(1), 1) << "rank 1 may begin nothing of the first group before";
  for (std::size_t i = 0; i < 4; ++i) ranks.begin(1, 1, got[i]);
  ASSERT_TRUE(ranks.bring_all().ok());
  ranks.begin(0, 2, sent[5]);
  ASSERT_TRUE(ranks.bring_all().ok());
  EXPECT_EQ(ranks.over(0), 6) << "there is room again, which nobody has to ask for";
  ranks.begin(1, 2, got[5]);
  EXPECT_EQ(got, sent);
}

TEST(EagerCredit, RanksThatBeginGroupsInOrdersOfTheirOwnEndAndNeitherIsSentMoreThanItKeeps) {
  constexpr std::uint32_t kGroups = 3;
  constexpr std::size_t kEach = 8;
  for (unsigned seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    TwoRanks ranks;
    std::array<std::array<std::vector<std::vector<float>>, kGroups>, 2> values;  // by rank and group
    for (std::uint32_t group = 0; group < kGroups; ++group) {
      for (std::size_t i = 0; i < kEach; ++i) {
        constexpr std::array<std::int64_t, 4> kSizes = {400, kQuarter, kEagerBytes - 4, kEagerBytes + 4};
        const std::int64_t bytes = kSizes[random() % kSizes.size()];
        values[0][group].push_back(of_bytes(bytes, static_cast<float>(i + 1)));
        values[1][group].push_back(of_bytes(bytes, 0));
      }
    }
    std::array<std::array<std::size_t, kGroups>, 2> begun{};
    for (std::size_t left = 2 * kGroups * kEach; left > 0;) {
      const std::size_t rank = random() % 2, group = random() % kGroups;
      if (random() % 4 == 0) {
        ASSERT_TRUE(ranks.bring_one(static_cast<int>(rank)).ok());
      }
      if (begun[rank][group] == kEach) continue;
      ranks.begin(static_cast<int>(rank), static_cast<std::uint32_t>(group + 1), values[rank][group][begun[rank][group]++]);
      --left;
    }
    ASSERT_TRUE(ranks.bring_all().ok());
    EXPECT_EQ(ranks.over(0), static_cast<int>(kGroups * kEach));
    EXPECT_EQ(ranks.over(1), static_cast<int>(kGroups * kEach));
    EXPECT_EQ(values[1], values[0]);
  }
}

}  // namespace
}  // namespace paceline::collectives

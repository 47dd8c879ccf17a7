#include "paramserver/service/dear_sender.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paramserver/service/testing.h"

namespace paceline::paramserver {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

struct Sent final : session::Sender {
  void send(Rank to, const wire::MessageHead&, std::span<const std::byte>, std::uint64_t ticket) override {
    messages.emplace_back(to.value, ticket);
  }
  std::vector<std::pair<std::int32_t, std::uint64_t>> messages;
};

class Dear : public ::testing::Test {
 protected:
  void send(std::int32_t worker, std::uint64_t ticket, wire::MessageKind kind = wire::MessageKind::kValue) {
    dear_.send(Rank{worker}, {.kind = kind}, {}, ticket);
  }
  testing::HandLoop loop_;
  Sent sent_;
  DearSender dear_{loop_, sent_, std::chrono::milliseconds(5)};
};

TEST_F(Dear, AValueLeavesAfterItsStartUpAndTheNextOnesBeginsWhenItHasArrived) {
  send(0, 1);
  send(0, 2);
  EXPECT_THAT(sent_.messages, IsEmpty());
  EXPECT_EQ(loop_.fire_timers(), 1U);
  EXPECT_THAT(sent_.messages, ElementsAre(Pair(0, 1)));
  EXPECT_EQ(loop_.fire_timers(), 0U) << "the first has not arrived";
  dear_.on_delivered(Rank{0}, 1);
  EXPECT_THAT(sent_.messages, ElementsAre(Pair(0, 1)));
  EXPECT_EQ(loop_.fire_timers(), 1U);
  EXPECT_THAT(sent_.messages, ElementsAre(Pair(0, 1), Pair(0, 2)));
  dear_.on_delivered(Rank{0}, 2);
  EXPECT_EQ(loop_.fire_timers(), 0U);
}

TEST_F(Dear, WorkersDoNotWaitForEachOther) {
  send(0, 1);
  send(1, 2);
  EXPECT_EQ(loop_.fire_timers(), 2U);
  EXPECT_THAT(sent_.messages, ElementsAre(Pair(0, 1), Pair(1, 2)));
}

TEST_F(Dear, WhatIsNoValueGoesAsItIs) {
  send(0, 1);
  send(0, 2, wire::MessageKind::kNotify);
  EXPECT_THAT(sent_.messages, ElementsAre(Pair(0, 2)));
  dear_.on_delivered(Rank{0}, 2);
  EXPECT_EQ(loop_.fire_timers(), 1U) << "the value's start-up was over before its time";
  EXPECT_THAT(sent_.messages, ElementsAre(Pair(0, 2), Pair(0, 1)));
}

TEST_F(Dear, WhatWaitsForALostWorkerIsDropped) {
  send(0, 1);
  send(1, 2);
  dear_.on_peer_lost(Rank{0});
  EXPECT_EQ(loop_.fire_timers(), 1U);
  EXPECT_THAT(sent_.messages, ElementsAre(Pair(1, 2)));
  dear_.on_delivered(Rank{0}, 1);
  EXPECT_EQ(loop_.fire_timers(), 0U);
}

}  // namespace
}  // namespace paceline::paramserver

#include "wire/messages.h"

#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::wire {
namespace {

using ::testing::HasSubstr;

// A head that says what `message` does, with a payload where one may be.
MessageHead head_with_payload(const Message& message) {
  return std::visit([&](const auto& is) { return head_of(message, {}, is.kPayload == Payload::kNever ? 0 : 8); }, message);
}

template <std::size_t index = 0>
void for_each_type(const auto& visit) {
  if constexpr (index < std::variant_size_v<Message>) {
    visit(std::variant_alternative_t<index, Message>());
    for_each_type<index + 1>(visit);
  }
}

TEST(Messages, EveryKindOfAJobWithServersHasOneStruct) {
  std::multiset<MessageKind> kinds;
  for_each_type([&](const auto& is) { kinds.insert(is.kKind); });
  std::multiset<MessageKind> expected;
  for (const MessageKind kind : all_message_kinds()) {
    if (channel_of(kind) != Channel::kControl && channel_of(kind) != Channel::kCollective) expected.insert(kind);
  }
  EXPECT_EQ(kinds, expected);
}

TEST(Messages, AHeadHasEachFieldAtItsPlace) {
  const auto is = [](const Message& message, MessageKind kind, std::uint32_t unit, std::uint32_t detail, Iteration iteration) {
    EXPECT_EQ(head_of(message),
              (MessageHead{.kind = kind, .layer = kControlLayer, .unit = unit, .detail = detail, .iteration = iteration}))
        << static_cast<int>(kind);
  };
  is(Initial{.unit = 3, .iteration = 4}, MessageKind::kInitial, 3, 0, 4);
  is(Push{.unit = 3, .unused_parts = 6, .iteration = 5}, MessageKind::kPush, 3, 6, 5);
  is(Pushes{.unit = 3, .last = 7, .iteration = 5}, MessageKind::kPushes, 3, 7, 5);
  is(Pull{.unit = 3, .last = 3, .iteration = 5}, MessageKind::kPull, 3, 3, 5);
  is(Done{.iteration = 9}, MessageKind::kDone, 0, 0, 9);
  is(Rates{.iteration = 9}, MessageKind::kRates, 0, 0, 9);
  is(Order{}, MessageKind::kOrder, 0, 0, 0);
  is(StateAsked{}, MessageKind::kStateAsked, 0, 0, 0);
  is(Value{.unit = 3, .update_micros = 120, .iteration = 5}, MessageKind::kValue, 3, 120, 5);
  is(Values{.unit = 3, .last = 8, .iteration = 5}, MessageKind::kValues, 3, 8, 5);
  is(Notify{.unit = 3, .iteration = 5}, MessageKind::kNotify, 3, 0, 5);
  is(State{.unit = 3, .iteration = 5}, MessageKind::kState, 3, 0, 5);
  is(MiniBatch{.count = 2, .number = 300}, MessageKind::kMiniBatch, 2, 0, 300);
  is(VerdictPart{.iteration = 5}, MessageKind::kVerdict, 0, 0, 5);
  is(SquareSum{.iteration = 5}, MessageKind::kSquareSum, 0, 0, 5);
  is(Barrier{.worker = 3, .iteration = 17}, MessageKind::kBarrier, 3, 0, 17);
  EXPECT_EQ(head_of(Notify{.unit = 3}, Layer{2}, 0).layer, Layer{2});
  EXPECT_EQ(head_of(Value{}, Layer{2}, 400).payload_bytes, 400U);
}

// Whatever a head says: either it is what some message says, or it is none.
TEST(Messages, AHeadIsReadAsWhatWritesItAndNothingElseIsRead) {
  std::mt19937_64 random(1);
  const auto kinds = all_message_kinds();
  std::int64_t read = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto small = [&] { return static_cast<std::uint32_t>(random() % 3); };
    const MessageHead head{.kind = kinds[random() % kinds.size()],
                           .flags = static_cast<std::uint8_t>(random() % 8 == 0),
                           .layer = {static_cast<std::int32_t>(small())},
                           .unit = small(),
                           .detail = small(),
                           .iteration = small(),
                           .payload_bytes = small()};
    const auto message = message_of(head);
    if (!message) continue;
    ++read;
    EXPECT_EQ(head_of(*message, head.layer, head.payload_bytes), head);
  }
  EXPECT_GT(read, 1000);
}

TEST(Messages, WhatItsStructDoesNotSayIsNoMessage) {
  for_each_type([](const auto& is) {
    SCOPED_TRACE(static_cast<int>(is.kKind));
    MessageHead legal = head_with_payload(Message(is));
    if (!message_of(legal)) legal.detail = 1;  // the last of several units
    ASSERT_TRUE(message_of(legal).has_value());
    MessageHead head = legal;
    head.flags = 1;
    EXPECT_FALSE(message_of(head).has_value()) << "a flag";
    head = legal;
    head.payload_bytes = head.payload_bytes == 0 ? 8 : 0;
    EXPECT_EQ(message_of(head).has_value(), is.kPayload == Payload::kMay) << "its payload";
    head = legal;
    head.unit = 1;
    head.detail = 2;
    head.iteration = 3;
    int named = 0;
    std::apply([&](auto... field) { named = (0 + ... + int{!std::is_null_pointer_v<decltype(field)>}); }, is.kFields);
    EXPECT_EQ(message_of(head).has_value(), named == 3) << "a field without a name";
  });
  EXPECT_FALSE(message_of(head_with_payload(Pushes{.unit = 2, .last = 2})).has_value());
  EXPECT_FALSE(message_of(head_with_payload(Pull{.unit = 3, .last = 2})).has_value());
  EXPECT_TRUE(message_of(head_with_payload(Pull{.unit = 2, .last = 2})).has_value());
  EXPECT_FALSE(message_of({.kind = MessageKind::kJoin, .payload_bytes = 8}).has_value()) << "of another channel";
}

TEST(Messages, AreAsUrgentAsTheirUnitsOrBeforeEveryLayer) {
  EXPECT_EQ(unit_of(Push{.unit = 4}), 4U);
  EXPECT_EQ(unit_of(Values{.unit = 4, .last = 6}), 4U);
  EXPECT_EQ(unit_of(MiniBatch{.count = 4}), std::nullopt);
  EXPECT_EQ(unit_of(Barrier{.worker = 4}), std::nullopt);
}

struct TakesPulls {
  Status on(Rank from, const Pull& pull, int more) {
    return error(ErrorKind::kBadRequest, "{} {} {}", from.value, pull.unit, more);
  }
  int on_begin(Rank, const Push& push, int more) { return static_cast<int>(push.unit) + more; }
};

TEST(Messages, GoToWhoeverTakesTheirType) {
  TakesPulls taker;
  EXPECT_EQ(deliver(taker, Rank{2}, Pull{.unit = 5}, 7)->message(), "2 5 7");
  EXPECT_EQ(deliver(taker, Rank{2}, Push{.unit = 5}, 7), std::nullopt);
  EXPECT_EQ(deliver_begin<int>(taker, Rank{2}, Push{.unit = 5}, 7), 12);
  EXPECT_EQ(deliver_begin<int>(taker, Rank{2}, Pull{.unit = 5}, 7), std::nullopt);
  EXPECT_THAT(not_taken({.kind = MessageKind::kPush, .flags = 1, .payload_bytes = 9}, Rank{2}, {Role::kWorker, Rank{1}}).message(),
              HasSubstr("server 2 sent worker 1 a message it does not take: kind 33, flags 1, 9 bytes"));
  EXPECT_THAT(not_taken({.kind = MessageKind::kSquareSum}, Rank{2}, {Role::kServer, Rank{1}}).message(),
              HasSubstr("server 2 sent server 1"));
  EXPECT_THAT(not_taken({.kind = MessageKind::kMiniBatch}, Rank{2}, {Role::kServer, Rank{1}}).message(),
              HasSubstr("worker 2 sent server 1"));
}

}  // namespace
}  // namespace paceline::wire

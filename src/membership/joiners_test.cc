#include "membership/joiners.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::membership {
namespace {

using ::testing::HasSubstr;

constexpr std::int32_t kFree = 3;

wire::MessageHead join(std::uint64_t bytes) { return {.kind = wire::MessageKind::kJoin, .payload_bytes = bytes}; }

TEST(Joiners, CanOnlyJoinAndOnlyOnce) {
  Joiners joiners;
  EXPECT_FALSE(joiners.on_peer(1, kFree));
  for (const wire::MessageKind as : wire::all_message_kinds()) {
    if (as == wire::MessageKind::kJoin) continue;
    EXPECT_THAT(joiners.on_message_begin(1, {.kind = as, .payload_bytes = 1}, kFree).status().message(),
                HasSubstr("can only join"));
  }
  EXPECT_THAT(Joiners::check(join(0)).message(), HasSubstr("can only join")) << "or it could be told so without end";
  EXPECT_THAT(joiners.on_message_begin(1, join(wire::kMaxJoinBytes + 1), kFree).status().message(), HasSubstr("at most 16777216"));
  EXPECT_TRUE(joiners.on_message_begin(1, join(3000), kFree).ok());
  EXPECT_THAT(joiners.on_message_begin(1, join(3000), kFree).status().message(), HasSubstr("once"));
}

TEST(Joiners, OfTooManyTheOneThatHasHadMostTimeGoes) {
  Joiners joiners;
  session::PeerId next = 0;
  for (std::size_t i = 0; i < Joiners::kMost + kFree; ++i) EXPECT_FALSE(joiners.on_peer(++next, kFree));
  joiners.remove(1);  // it has joined
  EXPECT_FALSE(joiners.on_peer(++next, kFree));
  const auto dropped = joiners.on_peer(++next, kFree);
  ASSERT_TRUE(dropped);
  EXPECT_EQ(dropped->peer, 2U);
  EXPECT_FALSE(joiners.contains(2));
  EXPECT_TRUE(joiners.contains(next));
}

TEST(Joiners, OfThoseWhoAnnounceTooMuchTheLargestGoesAndNeverWhoeverNeedsLittle) {
  Joiners joiners;
  session::PeerId next = 0;
  for (int i = 0; i < kFree; ++i) {
    joiners.on_peer(++next, kFree);
    EXPECT_TRUE(joiners.on_message_begin(next, join(wire::kMaxJoinBytes), kFree).ok());
  }
  joiners.on_peer(++next, kFree);
  EXPECT_TRUE(joiners.on_message_begin(next, join(wire::kMaxJoinBytes - 100), kFree).ok())
      << "as many as there are places, and one";
  joiners.on_peer(++next, kFree);
  const auto honest = joiners.on_message_begin(next, join(3000), kFree);
  ASSERT_TRUE(honest.ok());
  ASSERT_TRUE(honest->has_value());
  EXPECT_EQ((*honest)->peer, 1U);
  joiners.on_peer(++next, kFree);
  EXPECT_TRUE(joiners.on_message_begin(next, join(wire::kMaxJoinBytes - 200), kFree).ok());
  joiners.on_peer(++next, kFree);
  EXPECT_TRUE(joiners.on_message_begin(next, join(wire::kMaxJoinBytes), kFree).ok()) << "another one as large was there first";
}

}  // namespace
}  // namespace paceline::membership

#include "collectives/exec/operation.h"

#include <gtest/gtest.h>

namespace paceline::collectives {
namespace {

Group group_of(int ranks) {
  Group group;
  for (int rank = 0; rank < ranks; ++rank) group.ranks.push_back(Rank{rank});
  return group;
}

Choice choice_for(CollectiveKind kind, int ranks, std::int64_t bytes, const Rules& rules,
                  std::optional<Bytes> block = std::nullopt) {
  Call call{.kind = kind, .count = bytes / 4};
  call.block = block;
  if (block) call.algorithm = Algorithm::kLinearPipeline;
  return choose(group_of(ranks), call, rules);
}

// 1 Gb/s, whose reductions the fit has hardly seen.
const Rules kGigabit{.link = {20e-6, 8.4e-9, 0.2e-9}};

TEST(Choice, LargeAllreducesGoAroundTheRingThatAddsWhileItReceivesAndSmallOnesByTheFewestMessages) {
  for (const int ranks : {3, 4, 8}) {
    for (const std::int64_t bytes : {4'000'000, 64'000'000, 256'000'000}) {
      EXPECT_EQ(choice_for(CollectiveKind::kAllreduce, ranks, bytes, kGigabit).algorithm, Algorithm::kRing)
          << ranks << " ranks, " << bytes << " bytes";
    }
    EXPECT_NE(choice_for(CollectiveKind::kAllreduce, ranks, 4'000, kGigabit).algorithm, Algorithm::kRing) << ranks << " ranks";
  }
}

TEST(Choice, LargeBroadcastsAndReducesGoAlongTheChainAndSmallOnesDownATree) {
  for (const int ranks : {4, 8}) {
    for (const auto kind : {CollectiveKind::kBroadcast, CollectiveKind::kReduce}) {
      EXPECT_EQ(choice_for(kind, ranks, 1'000'000, kGigabit).algorithm, Algorithm::kLinearPipeline);
      EXPECT_EQ(choice_for(kind, ranks, 64'000'000, kGigabit).algorithm, Algorithm::kLinearPipeline);
      EXPECT_EQ(choice_for(kind, ranks, 4'000, kGigabit).algorithm, Algorithm::kMinimumSpanningTree);
    }
  }
}

TEST(Choice, TheRingIsPredictedToTakeWhatItsBusiestPortTakesAndLittleMore) {
  const Choice choice = choice_for(CollectiveKind::kAllreduce, 4, 64'000'000, kGigabit);
  const double bound = 1.5 * 64e6 * kGigabit.link.beta;
  EXPECT_GT(choice.seconds, bound);
  EXPECT_LT(choice.seconds, 1.01 * bound);
}

TEST(Choice, ABlockThatWouldMakeTooManyMessagesIsRaisedAndOneLargerThanTheMessageClippedAndBothAreSaid) {
  const Choice raised = choice_for(CollectiveKind::kBroadcast, 4, 64'000'000, kGigabit, Bytes{1});
  EXPECT_TRUE(raised.raised);
  EXPECT_LE(64'000'000 / raised.block->count, kMostBlocks);
  EXPECT_NE(raised.text().find("smaller ones would be more than 65536"), std::string::npos) << raised.text();
  const Choice clipped = choice_for(CollectiveKind::kBroadcast, 4, 4'000, kGigabit, Bytes{5'000});
  EXPECT_TRUE(clipped.clipped && !clipped.raised);
  EXPECT_EQ(clipped.block, Bytes{4'000});
  // A link without start-up has no best block above a byte.
  const Choice free = choice_for(CollectiveKind::kBroadcast, 4, 64'000'000, {.link = {0, 8.4e-9, 0}});
  EXPECT_TRUE(free.raised);
  EXPECT_GE(free.block->count, 64'000'000 / kMostBlocks);
}

}  // namespace
}  // namespace paceline::collectives

#include "collectives/exec/operation.h"

#include <memory>

#include <gtest/gtest.h>

namespace paceline::collectives {
namespace {

Group group_of(int ranks) {
  Group group;
  for (int rank = 0; rank < ranks; ++rank) group.ranks.push_back(Rank{rank});
  return group;
}

CallPlanner planner_of(const Group& group, const Rules& rules) { return {std::make_shared<const Group>(group), rules}; }

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

TEST(Choice, TimesArePredictedByConstantsOfTheirOwnAndNothingIsTakenOffThatTheyDoNotCharge) {
  Rules rules = kGigabit;
  rules.expected = Expectation{{0, 9e-9, 0}};
  for (const std::int64_t bytes : {4'000'000, 64'000'000}) {
    const Choice choice = choice_for(CollectiveKind::kAllreduce, 8, bytes, rules);
    EXPECT_EQ(choice.algorithm, choice_for(CollectiveKind::kAllreduce, 8, bytes, kGigabit).algorithm);
    const CollectiveProblem problem{Operation::kAllreduce, 8, Bytes{bytes}, rules.expected->link};
    EXPECT_DOUBLE_EQ(choice.seconds, cost_of(problem, *choice.algorithm).value().seconds);
  }
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

// Host 1 is four times slower than the others.
Rules with_a_slow_host(int ranks) {
  Rules rules = kGigabit;
  std::vector<double> links;
  for (int a = 0; a < ranks; ++a) {
    for (int b = 0; b < ranks; ++b) links.push_back(a == 1 || b == 1 ? 4 : 1);
  }
  rules.links = std::make_shared<const LinkRates>(LinkRates::make(ranks, links)->scaled_to(4 * 8.4e-9));
  return rules;
}

TEST(Choice, WithASlowHostAnAllreduceGoesAlongAChainAtWhoseEndItStandsAndSaysWhy) {
  const Rules rules = with_a_slow_host(4);
  const Call call{.kind = CollectiveKind::kAllreduce, .count = 16'000'000};
  const Choice choice = planner_of(group_of(4), rules).choose(call);
  EXPECT_EQ(choice.algorithm, Algorithm::kLinearPipeline);
  EXPECT_EQ(choice.order, (std::vector<int>{0, 2, 3, 1}));
  EXPECT_NE(choice.text().find(" along ranks 0 2 3 1 (rank 1 has links of "), std::string::npos) << choice.text();
  EXPECT_NEAR(choice.seconds, 64e6 * 4 * 8.4e-9, 0.1 * 64e6 * 4 * 8.4e-9);
}

TEST(Choice, AGroupWithoutTheSlowHostAndSumsInRankOrderFollowTheRanks) {
  const Rules rules = with_a_slow_host(4);
  Group fast;
  fast.ranks = {Rank{0}, Rank{2}, Rank{3}};
  const Call call{.kind = CollectiveKind::kAllreduce, .count = 16'000'000, .algorithm = Algorithm::kLinearPipeline};
  const Choice choice = planner_of(fast, rules).choose(call);
  EXPECT_TRUE(choice.order.empty());
  EXPECT_EQ(choice.text().find("along"), std::string::npos);
  Rules in_order = rules;
  in_order.order = SumOrder::kRank;
  EXPECT_TRUE(planner_of(group_of(4), in_order).choose(call).order.empty());
  EXPECT_TRUE(planner_of(group_of(4), kGigabit).choose(call).order.empty()) << "links that are alike";
}

TEST(Choice, TheProgramRunsTheChainThatWasChosen) {
  const Rules rules = with_a_slow_host(5);
  Group group = group_of(5);
  group.self = 1;
  const Call call{.kind = CollectiveKind::kBroadcast, .count = 1'000, .algorithm = Algorithm::kLinearPipeline};
  CallPlanner planner = planner_of(group, rules);
  const Choice choice = planner.choose(call);
  ASSERT_EQ(choice.order.back(), 1);
  const auto program = planner.program_of(call, choice);
  EXPECT_EQ(program, planner.program_of(call, planner.choose(call))) << "compiled once";
  for (const Action& action : program->actions) {
    if (action.elements > 0) {
      EXPECT_TRUE(action.kind == ActionKind::kReceive && action.peer == choice.order[3]) << "the last one only receives";
    }
  }
}

// Nothing is read where the buffers are said to be.
TEST(Call, OfMoreThanAMessageMayHaveIsRefusedAndSaysWhatMay) {
  for (const tensor::DType dtype : {tensor::DType::kFloat32, tensor::DType::kBFloat16}) {
    Call call{.kind = CollectiveKind::kBroadcast, .output = reinterpret_cast<void*>(4096), .dtype = dtype};
    call.count = static_cast<std::int64_t>(wire::kMaxMessageBytes / tensor::size_of(dtype));
    EXPECT_TRUE(validate(group_of(2), call, {}).ok());
    ++call.count;
    const Status refused = validate(group_of(2), call, {});
    EXPECT_EQ(refused.kind(), ErrorKind::kBadRequest);
    EXPECT_NE(refused.message().find(fmt::format("legal: 0 to {}, which are 64 GiB", call.count - 1)), std::string::npos)
        << refused.message();
  }
}

TEST(CallPlanner, KeepsTheProgramOfACallAndForgetsThoseOfCallsThatDoNotComeAgain) {
  const Group group = group_of(2);
  CallPlanner planner = planner_of(group, kGigabit);
  const auto program_of = [&](std::int64_t count) {
    const Call call{.kind = CollectiveKind::kAllreduce, .count = count};
    return planner.program_of(call, planner.choose(call));
  };
  const std::weak_ptr<const Program> first = program_of(1);
  EXPECT_EQ(first.lock(), program_of(1));
  for (std::int64_t count = 2; count < 2000; ++count) program_of(count);
  EXPECT_TRUE(first.expired());
}

}  // namespace
}  // namespace paceline::collectives

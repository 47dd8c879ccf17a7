#include "membership/alike_ledger.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::membership {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr Rank kFirst{0}, kSecond{1}, kThird{2};

TEST(AlikeLedger, AStepThatOneLeavesOutIsNamedWhenAnotherIsKnownToHaveMadeIt) {
  AlikeLedger ledger(2);
  EXPECT_TRUE(ledger.on_passed(kFirst, 3).ok());
  EXPECT_TRUE(ledger.on_left_out(kSecond, 4).ok()) << "the other may be about to say the same";
  const Status parted = ledger.on_passed(kFirst, 4);
  EXPECT_EQ(parted.code(), "parted");
  EXPECT_EQ(parted.kind(), ErrorKind::kBadRequest);
  EXPECT_THAT(parted.message(), HasSubstr("rank 1 left out the step of iteration 4, and rank 0 made it"));
}

TEST(AlikeLedger, ItIsNamedAlsoWhenTheOtherHasPassedBefore) {
  AlikeLedger ledger(2);
  EXPECT_TRUE(ledger.on_passed(kSecond, 5).ok());
  EXPECT_THAT(ledger.on_left_out(kFirst, 4).message(), HasSubstr("rank 0 left out the step of iteration 4, and rank 1 made it"));
}

TEST(AlikeLedger, WhoTellsOfALaterIterationHasPassedThoseBefore) {
  AlikeLedger one(2), other(2);
  EXPECT_TRUE(one.on_left_out(kFirst, 4).ok());
  EXPECT_THAT(one.on_left_out(kSecond, 5).message(), HasSubstr("rank 0 left out the step of iteration 4, and rank 1 made it"));
  EXPECT_TRUE(other.on_left_out(kFirst, 4).ok());
  EXPECT_THAT(other.on_told(kSecond, 5, {{"lr", "1"}}).message(), HasSubstr("rank 0 left out the step of iteration 4"));
}

TEST(AlikeLedger, AStepThatWasLeftOutIsNamedBeforeWhatFollowsFromIt) {
  AlikeLedger ledger(2);
  EXPECT_TRUE(ledger.on_left_out(kSecond, 8).ok());
  EXPECT_TRUE(ledger.on_told(kSecond, 8, {{"a.weight", "1"}}).ok());
  EXPECT_THAT(ledger.on_told(kFirst, 8, {{"a.weight", "2"}}).message(), HasSubstr("rank 1 left out the step of iteration 8"));
}

TEST(AlikeLedger, AllMayLeaveAStepOut) {
  AlikeLedger ledger(3);
  for (Iteration i = 1; i <= 1000; ++i) {
    for (const Rank rank : {kThird, kFirst, kSecond}) {
      ASSERT_TRUE(ledger.on_left_out(rank, i).ok());
      ASSERT_TRUE(ledger.on_passed(rank, i).ok());
    }
  }
}

TEST(AlikeLedger, WhatDiffersIsNamedWithBothTexts) {
  AlikeLedger ledger(3);
  EXPECT_TRUE(ledger.on_told(kThird, 100, {{"lr of group 0", "0.1"}, {"a.weight", "7"}, {"b.weight", "8"}}).ok());
  EXPECT_TRUE(ledger.on_told(kFirst, 100, {{"lr of group 0", "0.1"}, {"a.weight", "7"}, {"b.weight", "8"}}).ok());
  const Status parted = ledger.on_told(kSecond, 100, {{"lr of group 0", "0.05"}, {"a.weight", "7"}, {"b.weight", "9"}});
  EXPECT_EQ(parted.code(), "parted");
  EXPECT_THAT(parted.message(), AllOf(HasSubstr("ranks 2 and 1"), HasSubstr("after iteration 100"),
                                      HasSubstr("lr of group 0 is 0.1 on rank 2 and 0.05 on rank 1, and 1 more differ")));
}

TEST(AlikeLedger, WhatOnlyOneHasDiffersAndAnEmptyTextDoesNot) {
  AlikeLedger ledger(2);
  EXPECT_TRUE(ledger.on_told(kFirst, 100, {{"a", ""}, {"b", "2"}}).ok());
  EXPECT_TRUE(ledger.on_told(kSecond, 100, {{"b", ""}, {"a", "1"}}).ok()) << "in any order";
  EXPECT_TRUE(ledger.on_told(kFirst, 200, {{"a", "1"}}).ok());
  EXPECT_THAT(ledger.on_told(kSecond, 200, {{"b", "1"}, {"a", "1"}}).message(),
              AllOf(HasSubstr("b is not there on rank 0 and 1 on rank 1"), Not(HasSubstr("more"))));
}

TEST(AlikeLedger, WhoEndsEarlierIsComparedAsFarAsHeCame) {
  AlikeLedger ledger(2);
  EXPECT_TRUE(ledger.on_told(kSecond, 7, {{"lr", "1"}}).ok());
  EXPECT_TRUE(ledger.on_passed(kSecond, 7).ok());
  EXPECT_TRUE(ledger.on_passed(kFirst, 9).ok()) << "its last iteration is another one: that is said elsewhere";
}

// Ranks' words interleaved at random, each rank's in their order.
TEST(AlikeLedger, FindsEveryDifferenceAndNoOtherInAnyOrder) {
  for (std::uint32_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const auto below = [&](std::uint32_t n) { return random() % n; };
    const std::size_t ranks = 1 + below(4), iterations = 1 + below(6);
    std::vector<bool> left_out(iterations);
    for (std::size_t i = 0; i < iterations; ++i) left_out[i] = below(3) == 0;
    std::vector<std::vector<bool>> left_out_by(ranks, left_out);
    std::vector<std::vector<std::string>> told_by(ranks, std::vector<std::string>(iterations, "x"));
    bool differ = false;
    if (below(2) == 0) {
      const std::size_t rank = below(static_cast<std::uint32_t>(ranks)), i = below(static_cast<std::uint32_t>(iterations));
      differ = ranks > 1;
      if (below(2) == 0)
        left_out_by[rank][i] = !left_out_by[rank][i];
      else
        told_by[rank][i] = "y";
    }
    AlikeLedger ledger(static_cast<std::int32_t>(ranks));
    std::vector<std::size_t> at(ranks, 0);  // events of a rank: of each iteration left out or not, told, passed
    Status first;
    for (std::size_t left = ranks * iterations * 3; left > 0 && first.ok();) {
      const std::size_t rank = below(static_cast<std::uint32_t>(ranks));
      if (at[rank] == iterations * 3) continue;
      const std::size_t i = at[rank] / 3, what = at[rank]++ % 3;
      --left;
      const Rank who{static_cast<std::int32_t>(rank)};
      const auto iteration = static_cast<Iteration>(i + 1);
      if (what == 0 && left_out_by[rank][i]) first = ledger.on_left_out(who, iteration);
      if (what == 1) first = ledger.on_told(who, iteration, {{"what", told_by[rank][i]}});
      if (what == 2) first = ledger.on_passed(who, iteration);
    }
    ASSERT_EQ(first.ok(), !differ) << first.message();
  }
}

}  // namespace
}  // namespace paceline::membership

#include "paramserver/core/held_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/testing_jobs.h"

namespace paceline::paramserver {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two units on each of three servers.
std::shared_ptr<const job::Plan> plan_that(double clip_norm) {
  job::PlanOptions options{.servers = 3};
  options.schedule.cut = scheduling::whole_tensors();
  options.update.clip_norm = clip_norm;
  return *job::Plan::make(job::testing::table_of({{1, 1, 1}, {1, 1, 1}}), options);
}

TEST(HeldSums, AnIterationIsCompleteOnceWithAllUnitsAndAllOtherServers) {
  const auto plan = plan_that(1);
  HeldSums sums(*plan, Rank{1});
  EXPECT_THAT(sums.takers(), ElementsAre(Rank{0}, Rank{2}));
  EXPECT_TRUE(sums.on_square_sum(Rank{0}, 7, 7).ok());
  EXPECT_FALSE(sums.count());
  EXPECT_TRUE(sums.count()) << "the last of its units";
  EXPECT_FALSE(sums.take_complete(7)) << "server 2 is missing";
  EXPECT_TRUE(sums.on_square_sum(Rank{2}, 7, 7).ok());
  EXPECT_TRUE(sums.take_complete(7));
  EXPECT_FALSE(sums.take_complete(7)) << "the next sums are those of iteration 8";
}

TEST(HeldSums, AServerMayBeAnIterationAhead) {
  const auto plan = plan_that(1);
  HeldSums sums(*plan, Rank{1});
  for (const Rank other : {Rank{0}, Rank{2}}) {
    for (const Iteration iteration : {7, 8}) EXPECT_TRUE(sums.on_square_sum(other, iteration, 7).ok());
  }
  for (const Iteration iteration : {7, 8}) {
    for (int unit = 0; unit < 2; ++unit) sums.count();
    EXPECT_TRUE(sums.take_complete(iteration));
  }
}

TEST(HeldSums, WhatDoesNotFitIsRefused) {
  const auto plan = plan_that(1), without = plan_that(0);
  HeldSums sums(*plan, Rank{1});
  EXPECT_THAT(sums.on_square_sum(Rank{0}, 9, 7).message(), HasSubstr("of iteration 9 during iteration 7"));
  EXPECT_THAT(sums.on_square_sum(Rank{1}, 7, 7).message(), HasSubstr("they do not exchange any"));
  EXPECT_THAT(sums.on_square_sum(Rank{3}, 7, 7).message(), HasSubstr("they do not exchange any"));
  ASSERT_TRUE(sums.on_square_sum(Rank{0}, 7, 7).ok());
  EXPECT_THAT(sums.on_square_sum(Rank{0}, 7, 7).message(), HasSubstr("of iteration 7 twice"));
  EXPECT_THAT(HeldSums(*without, Rank{1}).on_square_sum(Rank{0}, 7, 7).message(), HasSubstr("does not clip"));
}

}  // namespace
}  // namespace paceline::paramserver

#include "sync/pace_rule.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::sync {

bool operator==(const Start& a, const Start& b) { return a.worker == b.worker && a.iteration == b.iteration; }

namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr Rank r0{0}, r1{1}, r2{2}, r3{3};

TimePoint at(double s) { return TimePoint(from_seconds(s)); }

std::unique_ptr<PaceRule> rule_of(SyncOptions options, std::vector<Rank> workers, Iteration first = 1) {
  return std::move(make_pace_rule(options, {std::move(workers), first})).value();
}

SyncOptions bsp() { return {}; }
SyncOptions asp() { return {.kind = SyncKind::kAsp}; }
SyncOptions ssp(std::int64_t staleness) { return {.kind = SyncKind::kSsp, .staleness = staleness}; }
SyncOptions elastic(std::int64_t lookahead, std::int64_t history, Objective objective = Objective::kSpan) {
  return {.kind = SyncKind::kElasticBsp, .lookahead = lookahead, .objective = objective, .history = history};
}

// What the server that predicts does after every event.
void answer_question(PaceRule& rule, double now, std::vector<Start>& starts) {
  while (const auto question = rule.take_question()) {
    const std::vector<Iteration> barriers = answer(*question);
    for (std::size_t i = 0; i < barriers.size(); ++i)
      EXPECT_TRUE(rule.on_barrier(question->workers[i], barriers[i], at(now), starts).ok());
  }
}
std::vector<Start> ask(PaceRule& rule, Rank worker, Iteration iteration, double now = 0) {
  std::vector<Start> starts;
  EXPECT_TRUE(rule.on_start_asked(worker, iteration, at(now), starts).ok());
  answer_question(rule, now, starts);
  return starts;
}
std::vector<Start> leave(PaceRule& rule, Rank worker, double now) {
  std::vector<Start> starts;
  EXPECT_TRUE(rule.on_left(worker, at(now), starts).ok());
  return starts;
}
std::string refused_start(PaceRule& rule, Rank worker, Iteration iteration) {
  std::vector<Start> starts;
  const Status status = rule.on_start_asked(worker, iteration, at(0), starts);
  EXPECT_TRUE(starts.empty());
  return status.message();
}

// --- BSP ---

TEST(Bsp, StartsAllWhenTheLastHasEnded) {
  auto rule = rule_of(bsp(), {r0, r1});
  EXPECT_THAT(ask(*rule, r0, 1), ElementsAre(Start{r0, 1}));
  EXPECT_THAT(ask(*rule, r1, 1), ElementsAre(Start{r1, 1}));
  EXPECT_THAT(ask(*rule, r1, 2), IsEmpty());
  const auto wait = rule->waits_for(r1);
  ASSERT_TRUE(wait);
  EXPECT_THAT(wait->behind, ElementsAre(r0));
  EXPECT_THAT(wait->until, ElementsAre(1));
  EXPECT_THAT(ask(*rule, r0, 2), ElementsAre(Start{r0, 2}, Start{r1, 2}));
  EXPECT_FALSE(rule->waits_for(r1));
}

TEST(Bsp, ALostWorkerIsNoLongerWaitedFor) {
  auto rule = rule_of(bsp(), {r0, r1, r2});
  for (Rank worker : {r0, r1, r2}) ask(*rule, worker, 1);
  ask(*rule, r0, 2);
  ask(*rule, r1, 2);
  EXPECT_THAT(leave(*rule, r2, 1), ElementsAre(Start{r0, 2}, Start{r1, 2}));
}

TEST(Bsp, AWorkerJoinsAtAnIterationThatNobodyHasEnded) {
  auto rule = rule_of(bsp(), {r0, r1});
  ask(*rule, r0, 1);
  ask(*rule, r1, 1);
  ask(*rule, r0, 2);
  EXPECT_EQ(rule->earliest_join(), 1);
  ask(*rule, r1, 2);
  EXPECT_EQ(rule->earliest_join(), 2);
  EXPECT_THAT(rule->on_joined(r2, 1).message(), HasSubstr("the earliest is 2"));
  ASSERT_TRUE(rule->on_joined(r2, 2).ok());
  EXPECT_THAT(ask(*rule, r2, 2), ElementsAre(Start{r2, 2}));
  EXPECT_THAT(ask(*rule, r0, 3), IsEmpty());
  EXPECT_THAT(ask(*rule, r1, 3), IsEmpty());
  EXPECT_THAT(ask(*rule, r2, 3), ElementsAre(Start{r0, 3}, Start{r1, 3}, Start{r2, 3}));
}

TEST(Bsp, ResumesAtALaterIteration) { EXPECT_THAT(ask(*rule_of(bsp(), {r0}, 501), r0, 501), ElementsAre(Start{r0, 501})); }

TEST(PaceRule, SaysWhichPushesAreSummedOverTheWorkers) {
  EXPECT_EQ(rule_of(bsp(), {r0})->summed_until(), std::numeric_limits<Iteration>::max());
  EXPECT_EQ(rule_of(asp(), {r0})->summed_until(), 0);
  EXPECT_EQ(rule_of(ssp(2), {r0})->summed_until(), 0);
  EXPECT_EQ(rule_of(elastic(5, 3), {r0})->summed_until(), 3);
  EXPECT_EQ(rule_of(elastic(5, 3), {r0}, 11)->summed_until(), 13);
}

// --- ASP, SSP ---

TEST(Asp, NobodyWaits) {
  auto rule = rule_of(asp(), {r0, r1});
  EXPECT_EQ(rule->delivery(), Delivery::kToPusher);
  for (Iteration i = 1; i <= 50; ++i) EXPECT_THAT(ask(*rule, r0, i), ElementsAre(Start{r0, i}));
}

TEST(Ssp, RunsAheadByItsStalenessAndNoFurther) {
  auto rule = rule_of(ssp(2), {r0, r1});
  EXPECT_EQ(rule->delivery(), Delivery::kAtStart);
  ask(*rule, r1, 1);
  for (Iteration i = 1; i <= 3; ++i) EXPECT_THAT(ask(*rule, r0, i), ElementsAre(Start{r0, i}));
  EXPECT_EQ(rule->ahead(r0), 2);
  EXPECT_THAT(ask(*rule, r0, 4), IsEmpty());  // needs 4 - 2 - 1 = 1 ended by worker 1
  EXPECT_THAT(rule->waits_for(r0)->until, ElementsAre(1));
  EXPECT_THAT(ask(*rule, r1, 2), ElementsAre(Start{r0, 4}, Start{r1, 2}));
}

TEST(Ssp, OfZeroHasThePaceOfBsp) {
  auto rule = rule_of(ssp(0), {r0, r1});
  ask(*rule, r0, 1);
  ask(*rule, r1, 1);
  EXPECT_THAT(ask(*rule, r0, 2), IsEmpty());
  EXPECT_THAT(ask(*rule, r1, 2), ElementsAre(Start{r0, 2}, Start{r1, 2}));
}

TEST(Ssp, TheSlowestLeavingLetsTheOthersGoOn) {
  auto rule = rule_of(ssp(1), {r0, r1, r2});
  for (Rank worker : {r0, r1, r2}) ask(*rule, worker, 1);
  ask(*rule, r0, 2);
  EXPECT_THAT(ask(*rule, r0, 3), IsEmpty());
  ask(*rule, r1, 2);
  EXPECT_THAT(leave(*rule, r2, 1), ElementsAre(Start{r0, 3}));
}

// --- ElasticBSP ---

TEST(ElasticBsp, RunsSupersteps3To1WhenOneWorkerIsThreeTimesAsFast) {
  auto rule = rule_of(elastic(5, 1), {r0, r1});
  EXPECT_EQ(rule->delivery(), Delivery::kAtStart);
  ask(*rule, r0, 1, 0);
  ask(*rule, r1, 1, 0);
  // The first iteration is BSP: both wait.
  EXPECT_THAT(ask(*rule, r0, 2, 1), IsEmpty());
  EXPECT_THAT(ask(*rule, r1, 2, 3), ElementsAre(Start{r0, 2}, Start{r1, 2}));
  // Intervals 1 and 3: the barrier is 3 iterations of worker 0 and one of worker 1.
  EXPECT_THAT(ask(*rule, r0, 3, 4), ElementsAre(Start{r0, 3}));
  EXPECT_EQ(rule->ahead(r0), 1);
  EXPECT_THAT(ask(*rule, r0, 4, 5), ElementsAre(Start{r0, 4}));
  EXPECT_EQ(rule->ahead(r0), 2);
  EXPECT_THAT(ask(*rule, r0, 5, 6), IsEmpty());
  const auto wait = rule->waits_for(r0);
  EXPECT_THAT(wait->behind, ElementsAre(r1));
  EXPECT_THAT(wait->until, ElementsAre(2));
  EXPECT_THAT(ask(*rule, r1, 3, 6), ElementsAre(Start{r0, 5}, Start{r1, 3}));
}

TEST(ElasticBsp, TheMedianIgnoresOnePause) {
  auto rule = rule_of(elastic(4, 3), {r0, r1});
  double now = 0;
  Iteration i = 1;
  for (; i <= 3; ++i, now += 2) {
    ask(*rule, r0, i, now);
    ask(*rule, r1, i, now);
  }
  // Worker 0 ended its iterations as late as worker 1: both intervals are 2, and the span rule takes one iteration each.
  ask(*rule, r0, i, now);
  EXPECT_THAT(ask(*rule, r1, i, now), ElementsAre(Start{r0, 4}, Start{r1, 4}));
  ask(*rule, r0, 5, now + 90);  // a pause of worker 0
  EXPECT_THAT(ask(*rule, r1, 5, now + 90), ElementsAre(Start{r0, 5}, Start{r1, 5}));
  // By the last interval worker 1 would have been sent 90/2 iterations, here R = 4, ahead; the median says 2 and 2.
  EXPECT_THAT(ask(*rule, r1, 6, now + 92), IsEmpty());
}

TEST(ElasticBsp, AWorkerLostInASuperstepDoesNotStallTheBarrier) {
  auto rule = rule_of(elastic(5, 1), {r0, r1});
  ask(*rule, r0, 1, 0);
  ask(*rule, r1, 1, 0);
  ask(*rule, r0, 2, 1);
  ask(*rule, r1, 2, 3);
  for (Iteration i = 3; i <= 5; ++i) ask(*rule, r0, i, static_cast<double>(i));
  ASSERT_TRUE(rule->waits_for(r0));
  EXPECT_THAT(leave(*rule, r1, 9), ElementsAre(Start{r0, 5}));
}

TEST(ElasticBsp, AJoiningWorkerWaitsForTheBarrierAndThenAllDoOneEach) {
  auto rule = rule_of(elastic(5, 1), {r0, r1});
  ask(*rule, r0, 1, 0);
  ask(*rule, r1, 1, 0);
  ask(*rule, r0, 2, 1);
  ask(*rule, r1, 2, 3);  // barrier 3 : 1
  EXPECT_EQ(rule->earliest_join(), 2);
  ASSERT_TRUE(rule->on_joined(r2, 2).ok());
  EXPECT_THAT(ask(*rule, r2, 2, 3.5), IsEmpty());
  EXPECT_THAT(ask(*rule, r0, 3, 4), ElementsAre(Start{r0, 3}));
  EXPECT_THAT(ask(*rule, r0, 4, 5), ElementsAre(Start{r0, 4}));
  EXPECT_THAT(ask(*rule, r0, 5, 6), IsEmpty());
  EXPECT_THAT(ask(*rule, r1, 3, 6), ElementsAre(Start{r0, 5}, Start{r1, 3}, Start{r2, 2}));
  // Worker 2 has no interval yet: one iteration each.
  EXPECT_THAT(ask(*rule, r0, 6, 7), IsEmpty());
  EXPECT_THAT(ask(*rule, r2, 3, 7), IsEmpty());
  EXPECT_THAT(ask(*rule, r1, 4, 9), ElementsAre(Start{r0, 6}, Start{r1, 4}, Start{r2, 3}));
  // Now it has one, of 1 s like worker 0: both do three.
  EXPECT_THAT(ask(*rule, r2, 4, 10), ElementsAre(Start{r2, 4}));
}

// The model of a server that does not predict: it is told.
TEST(ElasticBsp, AllStartAtABarrierAndWaitForTheNextOnesPlaceOnlyAfterTheirFirstIteration) {
  auto rule = rule_of(elastic(5, 1), {r0, r1});
  std::vector<Start> starts;
  const auto asks = [&](Rank worker, Iteration iteration, double now) {
    starts.clear();
    EXPECT_TRUE(rule->on_start_asked(worker, iteration, at(now), starts).ok());
    return starts;
  };
  const auto told = [&](Rank worker, Iteration barrier) {
    starts.clear();
    const Status status = rule->on_barrier(worker, barrier, at(4), starts);
    return status.ok() ? "" : status.message();
  };
  asks(r0, 1, 0);
  asks(r1, 1, 0);
  EXPECT_EQ(told(r1, 3), "");  // the other server is at the barrier already
  EXPECT_THAT(told(r1, 4), HasSubstr("and not yet"));
  asks(r0, 2, 1);
  EXPECT_THAT(asks(r1, 2, 3), ElementsAre(Start{r0, 2}, Start{r1, 2}));
  EXPECT_TRUE(starts[0].at_barrier && starts[1].at_barrier);
  EXPECT_EQ(rule->superstep(), 2);
  EXPECT_THAT(asks(r1, 3, 3.5), ElementsAre(Start{r1, 3}));
  EXPECT_FALSE(starts[0].at_barrier);
  EXPECT_THAT(asks(r0, 3, 4), IsEmpty());  // where its barrier is has not come
  EXPECT_THAT(told(r0, 1), HasSubstr("worker 0 was told of a barrier after iteration 1; legal are 2 to 6"));
  EXPECT_THAT(told(r0, 7), HasSubstr("legal are 2 to 6"));
  EXPECT_EQ(told(r3, 7), "");  // has left
  EXPECT_EQ(told(r0, 4), "");
  EXPECT_THAT(starts, ElementsAre(Start{r0, 3}));
  EXPECT_THAT(rule_of(ssp(1), {r0})->on_barrier(r0, 2, at(0), starts).message(), HasSubstr("ssp predicts none"));
}

TEST(ElasticBsp, ASuperstepThatIsOverSaysWhenItsWorkersWereExpectedAndWhenTheyCame) {
  auto rule = rule_of(elastic(5, 1), {r0, r1});
  ask(*rule, r0, 1, 10);
  ask(*rule, r1, 1, 10);
  ask(*rule, r0, 2, 11);
  ask(*rule, r1, 2, 13);  // barrier 3 : 1
  const auto first = rule->take_finished();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->number, 1);
  EXPECT_THAT(first->predicted, IsEmpty());
  EXPECT_THAT(first->arrived, ElementsAre(1, 3));
  for (Iteration i = 3; i <= 5; ++i) ask(*rule, r0, i, 11.0 + static_cast<double>(i));
  EXPECT_FALSE(rule->take_finished());
  ask(*rule, r1, 3, 17);
  const auto second = rule->take_finished();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->number, 2);
  EXPECT_THAT(second->iterations, ElementsAre(3, 1));
  EXPECT_THAT(second->predicted, ElementsAre(3, 3));
  EXPECT_THAT(second->arrived, ElementsAre(3, 4));
}

TEST(ElasticBsp, AWorkerThatHasJoinedButNotComeHoldsNobodyUp) {
  auto rule = rule_of(elastic(5, 1), {r0});
  ask(*rule, r0, 1, 0);
  ASSERT_TRUE(rule->on_joined(r1, 2).ok());
  for (Iteration i = 2; i < 20; ++i) EXPECT_THAT(ask(*rule, r0, i, static_cast<double>(i)), ElementsAre(Start{r0, i}));
}

// --- all ---

TEST(PaceRule, RefusesWrongEventsAndStaysAsItWas) {
  for (SyncOptions options : {bsp(), asp(), ssp(1), elastic(3, 1)}) {
    auto rule = rule_of(options, {r0, r1});
    EXPECT_THAT(refused_start(*rule, r3, 1), HasSubstr("worker 3"));
    EXPECT_THAT(refused_start(*rule, r0, 2), HasSubstr("its next is 1"));
    EXPECT_THAT(ask(*rule, r0, 1), ElementsAre(Start{r0, 1}));
    EXPECT_THAT(refused_start(*rule, r0, 1), HasSubstr("its next is 2"));
    std::vector<Start> starts;
    EXPECT_EQ(rule->on_left(r3, at(0), starts).kind(), ErrorKind::kBadRequest);
    EXPECT_THAT(rule->on_joined(r1, 5).message(), HasSubstr("takes part already"));
    EXPECT_EQ(rule->ahead(r3), 0);
    EXPECT_FALSE(rule->waits_for(r3));
  }
}

TEST(PaceRule, AWorkerThatWaitsCannotAskAgain) {
  auto rule = rule_of(bsp(), {r0, r1});
  ask(*rule, r0, 1);
  ask(*rule, r0, 2);
  EXPECT_THAT(refused_start(*rule, r0, 2), HasSubstr("while it waits for iteration 2"));
}

TEST(PaceRule, AMalformedClusterIsRefused) {
  EXPECT_FALSE(make_pace_rule(bsp(), {{r0, r0}, 1}).ok());
  EXPECT_FALSE(make_pace_rule(elastic(1, 1), {{r0, r0}, 1}).ok());
  EXPECT_FALSE(make_pace_rule(bsp(), {{Rank{-1}}, 1}).ok());
  EXPECT_FALSE(make_pace_rule(bsp(), {{r0}, 0}).ok());
}

TEST(SyncOptions, NamesGoBothWays) {
  for (SyncKind kind : {SyncKind::kBsp, SyncKind::kAsp, SyncKind::kSsp, SyncKind::kElasticBsp})
    EXPECT_EQ(parse_sync_kind(to_text(kind)).value(), kind);
  EXPECT_EQ(to_text(SyncKind::kElasticBsp), "elastic-bsp");
  EXPECT_THAT(parse_sync_kind("elastic_bsp").status().message(), HasSubstr("did you mean 'elastic-bsp'"));
  EXPECT_EQ(parse_objective("waiting-share").value(), Objective::kWaitingShare);
  EXPECT_FALSE(parse_objective("spam").ok());
}

TEST(SyncOptions, AreCheckedInOnePlace) {
  EXPECT_THAT(validated({.staleness = -1}).status().message(), HasSubstr("staleness is -1"));
  EXPECT_THAT(validated({.lookahead = 0}).status().message(), HasSubstr("lookahead is 0"));
  EXPECT_THAT(validated({.history = 0}).status().message(), HasSubstr("history is 0"));
  EXPECT_TRUE(validated({}).ok());
  EXPECT_FALSE(make_pace_rule({.lookahead = 0}, {{r0}, 1}).ok());
}

}  // namespace
}  // namespace paceline::sync

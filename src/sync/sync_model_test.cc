#include "sync/sync_model.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::sync {

bool operator==(const Start& a, const Start& b) { return a.worker == b.worker && a.iteration == b.iteration; }

namespace {

// An update that outlives the model's next event.
struct Applied {
  std::int32_t unit = 0;
  Iteration iteration = 0;
  std::vector<Rank> workers;
  double scale = 1;
  bool operator==(const Applied&) const = default;
};

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr Rank r0{0}, r1{1}, r2{2}, r3{3};

TimePoint at(double s) { return TimePoint(from_seconds(s)); }

std::unique_ptr<SyncModel> model_of(SyncOptions options, std::vector<Rank> workers, std::int32_t units = 1, Iteration first = 1) {
  return std::move(make_sync_model(options, {units, std::move(workers), first})).value();
}

SyncOptions bsp() { return {}; }
SyncOptions asp() { return {.kind = SyncKind::kAsp}; }
SyncOptions ssp(std::int64_t staleness) { return {.kind = SyncKind::kSsp, .staleness = staleness}; }
SyncOptions elastic(std::int64_t lookahead, std::int64_t history, Objective objective = Objective::kSpan) {
  return {.kind = SyncKind::kElasticBsp, .lookahead = lookahead, .objective = objective, .history = history};
}

// What the server that predicts does after every event.
void answer_question(SyncModel& model, double now, std::vector<Start>& starts) {
  while (const auto question = model.take_question()) {
    const std::vector<Iteration> barriers = answer(*question);
    for (std::size_t i = 0; i < barriers.size(); ++i)
      EXPECT_TRUE(model.on_barrier(question->workers[i], barriers[i], at(now), starts).ok());
  }
}
std::vector<Start> ask(SyncModel& model, Rank worker, Iteration iteration, double now = 0) {
  std::vector<Start> starts;
  EXPECT_TRUE(model.on_start_asked(worker, iteration, at(now), starts).ok());
  answer_question(model, now, starts);
  return starts;
}
std::vector<Applied> applied(const std::vector<Update>& updates) {
  std::vector<Applied> kept;
  for (const Update& update : updates)
    kept.push_back({update.unit, update.iteration, {update.workers.begin(), update.workers.end()}, update.scale});
  return kept;
}
std::vector<Applied> push(SyncModel& model, Rank worker, std::int32_t unit, Iteration iteration) {
  std::vector<Update> updates;
  EXPECT_TRUE(model.on_push(worker, unit, iteration, updates).ok());
  return applied(updates);
}
std::string refused_push(SyncModel& model, Rank worker, std::int32_t unit, Iteration iteration) {
  std::vector<Update> updates;
  const Status status = model.on_push(worker, unit, iteration, updates);
  EXPECT_TRUE(updates.empty());
  return status.message();
}
std::string refused_start(SyncModel& model, Rank worker, Iteration iteration) {
  std::vector<Start> starts;
  const Status status = model.on_start_asked(worker, iteration, at(0), starts);
  EXPECT_TRUE(starts.empty());
  return status.message();
}

// --- BSP ---

TEST(Bsp, AppliesAUnitWhenAllHavePushedItInRankOrderWithTheMean) {
  auto model = model_of(bsp(), {r0, r1, r2}, 2);
  EXPECT_EQ(model->delivery(), Delivery::kToAll);
  EXPECT_THAT(push(*model, r2, 0, 1), IsEmpty());
  EXPECT_THAT(push(*model, r0, 0, 1), IsEmpty());
  EXPECT_THAT(push(*model, r1, 1, 1), IsEmpty());
  EXPECT_THAT(push(*model, r1, 0, 1), ElementsAre(Applied{0, 1, {r0, r1, r2}, 1.0 / 3}));
}

TEST(Bsp, StartsAllWhenTheLastHasEnded) {
  auto model = model_of(bsp(), {r0, r1});
  EXPECT_THAT(ask(*model, r0, 1), ElementsAre(Start{r0, 1}));
  EXPECT_THAT(ask(*model, r1, 1), ElementsAre(Start{r1, 1}));
  EXPECT_THAT(ask(*model, r1, 2), IsEmpty());
  const auto wait = model->waits_for(r1);
  ASSERT_TRUE(wait);
  EXPECT_THAT(wait->behind, ElementsAre(r0));
  EXPECT_THAT(wait->until, ElementsAre(1));
  EXPECT_THAT(ask(*model, r0, 2), ElementsAre(Start{r0, 2}, Start{r1, 2}));
  EXPECT_FALSE(model->waits_for(r1));
}

TEST(Bsp, ALostWorkerIsNoLongerWaitedForAndItsPushStays) {
  auto model = model_of(bsp(), {r0, r1, r2}, 2);
  for (Rank worker : {r0, r1, r2}) ask(*model, worker, 1);
  push(*model, r0, 0, 1);
  push(*model, r0, 1, 1);
  push(*model, r1, 0, 1);
  push(*model, r1, 1, 1);
  push(*model, r2, 1, 1);  // completes unit 1; unit 0 of worker 2 never comes
  ask(*model, r0, 2);
  ask(*model, r1, 2);
  const Decisions decisions = model->on_left(r2, at(1)).value();
  EXPECT_THAT(applied(decisions.updates), ElementsAre(Applied{0, 1, {r0, r1}, 0.5}));
  EXPECT_THAT(decisions.starts, ElementsAre(Start{r0, 2}, Start{r1, 2}));

  push(*model, r1, 0, 2);
  EXPECT_THAT(applied(model->on_left(r1, at(2))->updates), IsEmpty());  // worker 0 still has to push
  EXPECT_THAT(push(*model, r0, 0, 2), ElementsAre(Applied{0, 2, {r0, r1}, 0.5}));
}

TEST(Bsp, ThePushesOfTheLastWorkerToLeaveAreApplied) {
  auto model = model_of(bsp(), {r0, r1}, 1);
  push(*model, r0, 0, 1);
  EXPECT_THAT(applied(model->on_left(r0, at(0))->updates), IsEmpty());
  EXPECT_THAT(applied(model->on_left(r1, at(0))->updates), ElementsAre(Applied{0, 1, {r0}, 1.0}));
}

TEST(Bsp, AWorkerJoinsAtAnIterationThatNobodyHasPushed) {
  auto model = model_of(bsp(), {r0, r1}, 1);
  ask(*model, r0, 1);
  ask(*model, r1, 1);
  push(*model, r0, 0, 1);
  EXPECT_EQ(model->earliest_join(), 2);
  EXPECT_THAT(model->on_joined(r2, 1).message(), HasSubstr("the earliest is 2"));
  ASSERT_TRUE(model->on_joined(r2, 2).ok());
  EXPECT_THAT(push(*model, r1, 0, 1), ElementsAre(Applied{0, 1, {r0, r1}, 0.5}));
  EXPECT_THAT(ask(*model, r2, 2), IsEmpty());
  ask(*model, r0, 2);
  EXPECT_THAT(ask(*model, r1, 2), ElementsAre(Start{r0, 2}, Start{r1, 2}, Start{r2, 2}));
  push(*model, r0, 0, 2);
  push(*model, r1, 0, 2);
  EXPECT_THAT(push(*model, r2, 0, 2), ElementsAre(Applied{0, 2, {r0, r1, r2}, 1.0 / 3}));
}

TEST(Bsp, ResumesAtALaterIteration) {
  auto model = model_of(bsp(), {r0}, 1, 501);
  EXPECT_THAT(ask(*model, r0, 501), ElementsAre(Start{r0, 501}));
  EXPECT_THAT(push(*model, r0, 0, 501), ElementsAre(Applied{0, 501, {r0}, 1.0}));
}

// --- ASP, SSP ---

TEST(Asp, AppliesAtOnceAtFullStepAndNobodyWaits) {
  auto model = model_of(asp(), {r0, r1});
  EXPECT_EQ(model->delivery(), Delivery::kToPusher);
  for (Iteration i = 1; i <= 50; ++i) {
    EXPECT_THAT(ask(*model, r0, i), ElementsAre(Start{r0, i}));
    EXPECT_THAT(push(*model, r0, 0, i), ElementsAre(Applied{0, i, {r0}, 1.0}));
  }
}

TEST(Ssp, RunsAheadByItsStalenessAndNoFurther) {
  auto model = model_of(ssp(2), {r0, r1});
  EXPECT_EQ(model->delivery(), Delivery::kAtStart);
  ask(*model, r1, 1);
  for (Iteration i = 1; i <= 3; ++i) EXPECT_THAT(ask(*model, r0, i), ElementsAre(Start{r0, i}));
  EXPECT_EQ(model->ahead(r0), 2);
  EXPECT_THAT(ask(*model, r0, 4), IsEmpty());  // needs 4 - 2 - 1 = 1 ended by worker 1
  EXPECT_THAT(model->waits_for(r0)->until, ElementsAre(1));
  EXPECT_THAT(ask(*model, r1, 2), ElementsAre(Start{r0, 4}, Start{r1, 2}));
}

TEST(Ssp, OfZeroHasThePaceOfBsp) {
  auto model = model_of(ssp(0), {r0, r1});
  ask(*model, r0, 1);
  ask(*model, r1, 1);
  EXPECT_THAT(ask(*model, r0, 2), IsEmpty());
  EXPECT_THAT(ask(*model, r1, 2), ElementsAre(Start{r0, 2}, Start{r1, 2}));
}

TEST(Ssp, TheSlowestLeavingLetsTheOthersGoOn) {
  auto model = model_of(ssp(1), {r0, r1, r2});
  for (Rank worker : {r0, r1, r2}) ask(*model, worker, 1);
  ask(*model, r0, 2);
  EXPECT_THAT(ask(*model, r0, 3), IsEmpty());
  ask(*model, r1, 2);
  EXPECT_THAT(model->on_left(r2, at(1))->starts, ElementsAre(Start{r0, 3}));
}

TEST(GradientScale, OverridesTheModels) {
  SyncOptions options = ssp(3);
  options.scale = GradientScale::kMean;
  EXPECT_THAT(push(*model_of(options, {r0, r1}), r1, 0, 1), ElementsAre(Applied{0, 1, {r1}, 0.5}));
  options = bsp();
  options.scale = GradientScale::kFull;
  EXPECT_THAT(push(*model_of(options, {r1}), r1, 0, 1), ElementsAre(Applied{0, 1, {r1}, 1.0}));
  auto model = model_of(options, {r0, r1});
  push(*model, r0, 0, 1);
  EXPECT_THAT(push(*model, r1, 0, 1), ElementsAre(Applied{0, 1, {r0, r1}, 1.0}));
}

// --- ElasticBSP ---

TEST(ElasticBsp, RunsSupersteps3To1WhenOneWorkerIsThreeTimesAsFast) {
  auto model = model_of(elastic(5, 1), {r0, r1});
  EXPECT_EQ(model->delivery(), Delivery::kAtStart);
  ask(*model, r0, 1, 0);
  ask(*model, r1, 1, 0);
  // The first iteration is BSP: gradients summed, both wait.
  EXPECT_THAT(push(*model, r0, 0, 1), IsEmpty());
  EXPECT_THAT(ask(*model, r0, 2, 1), IsEmpty());
  EXPECT_THAT(push(*model, r1, 0, 1), ElementsAre(Applied{0, 1, {r0, r1}, 0.5}));
  EXPECT_THAT(ask(*model, r1, 2, 3), ElementsAre(Start{r0, 2}, Start{r1, 2}));
  // Intervals 1 and 3: the barrier is 3 iterations of worker 0 and one of worker 1.
  EXPECT_THAT(push(*model, r0, 0, 2), ElementsAre(Applied{0, 2, {r0}, 1.0}));
  EXPECT_THAT(ask(*model, r0, 3, 4), ElementsAre(Start{r0, 3}));
  EXPECT_EQ(model->ahead(r0), 1);
  EXPECT_THAT(ask(*model, r0, 4, 5), ElementsAre(Start{r0, 4}));
  EXPECT_EQ(model->ahead(r0), 2);
  EXPECT_THAT(ask(*model, r0, 5, 6), IsEmpty());
  const auto wait = model->waits_for(r0);
  EXPECT_THAT(wait->behind, ElementsAre(r1));
  EXPECT_THAT(wait->until, ElementsAre(2));
  EXPECT_THAT(ask(*model, r1, 3, 6), ElementsAre(Start{r0, 5}, Start{r1, 3}));
}

TEST(ElasticBsp, TheMedianIgnoresOnePause) {
  auto model = model_of(elastic(4, 3), {r0, r1});
  double now = 0;
  Iteration i = 1;
  for (; i <= 3; ++i, now += 2) {
    ask(*model, r0, i, now);
    ask(*model, r1, i, now);
  }
  // Worker 0 ended its iterations as late as worker 1: both intervals are 2, and the span rule takes one iteration each.
  ask(*model, r0, i, now);
  EXPECT_THAT(ask(*model, r1, i, now), ElementsAre(Start{r0, 4}, Start{r1, 4}));
  ask(*model, r0, 5, now + 90);  // a pause of worker 0
  EXPECT_THAT(ask(*model, r1, 5, now + 90), ElementsAre(Start{r0, 5}, Start{r1, 5}));
  // By the last interval worker 1 would have been sent 90/2 iterations, here R = 4, ahead; the median says 2 and 2.
  EXPECT_THAT(ask(*model, r1, 6, now + 92), IsEmpty());
}

TEST(ElasticBsp, AWorkerLostInASuperstepDoesNotStallTheBarrier) {
  auto model = model_of(elastic(5, 1), {r0, r1});
  ask(*model, r0, 1, 0);
  ask(*model, r1, 1, 0);
  ask(*model, r0, 2, 1);
  ask(*model, r1, 2, 3);
  for (Iteration i = 3; i <= 5; ++i) ask(*model, r0, i, static_cast<double>(i));
  ASSERT_TRUE(model->waits_for(r0));
  EXPECT_THAT(model->on_left(r1, at(9))->starts, ElementsAre(Start{r0, 5}));
}

TEST(ElasticBsp, AJoiningWorkerWaitsForTheBarrierAndThenAllDoOneEach) {
  auto model = model_of(elastic(5, 1), {r0, r1});
  ask(*model, r0, 1, 0);
  ask(*model, r1, 1, 0);
  ask(*model, r0, 2, 1);
  ask(*model, r1, 2, 3);  // barrier 3 : 1
  EXPECT_EQ(model->earliest_join(), 2);
  ASSERT_TRUE(model->on_joined(r2, 2).ok());
  EXPECT_THAT(ask(*model, r2, 2, 3.5), IsEmpty());
  EXPECT_THAT(ask(*model, r0, 3, 4), ElementsAre(Start{r0, 3}));
  EXPECT_THAT(ask(*model, r0, 4, 5), ElementsAre(Start{r0, 4}));
  EXPECT_THAT(ask(*model, r0, 5, 6), IsEmpty());
  EXPECT_THAT(ask(*model, r1, 3, 6), ElementsAre(Start{r0, 5}, Start{r1, 3}, Start{r2, 2}));
  // Worker 2 has no interval yet: one iteration each.
  EXPECT_THAT(ask(*model, r0, 6, 7), IsEmpty());
  EXPECT_THAT(ask(*model, r2, 3, 7), IsEmpty());
  EXPECT_THAT(ask(*model, r1, 4, 9), ElementsAre(Start{r0, 6}, Start{r1, 4}, Start{r2, 3}));
  // Now it has one, of 1 s like worker 0: both do three.
  EXPECT_THAT(ask(*model, r2, 4, 10), ElementsAre(Start{r2, 4}));
}

// The model of a server that does not predict: it is told.
TEST(ElasticBsp, AllStartAtABarrierAndWaitForTheNextOnesPlaceOnlyAfterTheirFirstIteration) {
  auto model = model_of(elastic(5, 1), {r0, r1});
  std::vector<Start> starts;
  const auto asks = [&](Rank worker, Iteration iteration, double now) {
    starts.clear();
    EXPECT_TRUE(model->on_start_asked(worker, iteration, at(now), starts).ok());
    return starts;
  };
  const auto told = [&](Rank worker, Iteration barrier) {
    starts.clear();
    const Status status = model->on_barrier(worker, barrier, at(4), starts);
    return status.ok() ? "" : status.message();
  };
  asks(r0, 1, 0);
  asks(r1, 1, 0);
  EXPECT_EQ(told(r1, 3), "");  // the other server is at the barrier already
  EXPECT_THAT(told(r1, 4), HasSubstr("and not yet"));
  asks(r0, 2, 1);
  EXPECT_THAT(asks(r1, 2, 3), ElementsAre(Start{r0, 2}, Start{r1, 2}));
  EXPECT_TRUE(starts[0].at_barrier && starts[1].at_barrier);
  EXPECT_EQ(model->superstep(), 2);
  EXPECT_THAT(asks(r1, 3, 3.5), ElementsAre(Start{r1, 3}));
  EXPECT_FALSE(starts[0].at_barrier);
  EXPECT_THAT(asks(r0, 3, 4), IsEmpty());  // where its barrier is has not come
  EXPECT_THAT(told(r0, 1), HasSubstr("worker 0 was told of a barrier after iteration 1; legal are 2 to 6"));
  EXPECT_THAT(told(r0, 7), HasSubstr("legal are 2 to 6"));
  EXPECT_EQ(told(r3, 7), "");  // has left
  EXPECT_EQ(told(r0, 4), "");
  EXPECT_THAT(starts, ElementsAre(Start{r0, 3}));
  EXPECT_THAT(model_of(ssp(1), {r0})->on_barrier(r0, 2, at(0), starts).message(), HasSubstr("ssp predicts none"));
}

TEST(ElasticBsp, ASuperstepThatIsOverSaysWhenItsWorkersWereExpectedAndWhenTheyCame) {
  auto model = model_of(elastic(5, 1), {r0, r1});
  ask(*model, r0, 1, 10);
  ask(*model, r1, 1, 10);
  ask(*model, r0, 2, 11);
  ask(*model, r1, 2, 13);  // barrier 3 : 1
  const auto first = model->take_finished();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->number, 1);
  EXPECT_THAT(first->predicted, IsEmpty());
  EXPECT_THAT(first->arrived, ElementsAre(1, 3));
  for (Iteration i = 3; i <= 5; ++i) ask(*model, r0, i, 11.0 + static_cast<double>(i));
  EXPECT_FALSE(model->take_finished());
  ask(*model, r1, 3, 17);
  const auto second = model->take_finished();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->number, 2);
  EXPECT_THAT(second->iterations, ElementsAre(3, 1));
  EXPECT_THAT(second->predicted, ElementsAre(3, 3));
  EXPECT_THAT(second->arrived, ElementsAre(3, 4));
}

TEST(ElasticBsp, AWorkerThatHasJoinedButNotComeHoldsNobodyUp) {
  auto model = model_of(elastic(5, 1), {r0});
  ask(*model, r0, 1, 0);
  ASSERT_TRUE(model->on_joined(r1, 2).ok());
  for (Iteration i = 2; i < 20; ++i) EXPECT_THAT(ask(*model, r0, i, static_cast<double>(i)), ElementsAre(Start{r0, i}));
}

// --- all ---

TEST(SyncModel, RefusesWrongEventsAndStaysAsItWas) {
  for (SyncOptions options : {bsp(), asp(), ssp(1), elastic(3, 1)}) {
    auto model = model_of(options, {r0, r1}, 2);
    EXPECT_THAT(refused_push(*model, r3, 0, 1), HasSubstr("worker 3"));
    EXPECT_THAT(refused_push(*model, r0, 2, 1), HasSubstr("units 0..1"));
    EXPECT_THAT(refused_push(*model, r0, -1, 1), HasSubstr("units 0..1"));
    EXPECT_THAT(refused_push(*model, r0, 0, 2), HasSubstr("expected iteration 1"));
    push(*model, r0, 0, 1);
    EXPECT_THAT(refused_push(*model, r0, 0, 1), HasSubstr("expected iteration 2"));
    EXPECT_THAT(refused_start(*model, r3, 1), HasSubstr("worker 3"));
    EXPECT_THAT(refused_start(*model, r0, 2), HasSubstr("its next is 1"));
    EXPECT_THAT(ask(*model, r0, 1), ElementsAre(Start{r0, 1}));
    EXPECT_THAT(refused_start(*model, r0, 1), HasSubstr("its next is 2"));
    EXPECT_EQ(model->on_left(r3, at(0)).status().kind(), ErrorKind::kBadRequest);
    EXPECT_THAT(model->on_joined(r1, 5).message(), HasSubstr("takes part already"));
    EXPECT_EQ(model->ahead(r3), 0);
    EXPECT_FALSE(model->waits_for(r3));
  }
}

TEST(SyncModel, AWorkerThatWaitsCannotAskAgain) {
  auto model = model_of(bsp(), {r0, r1});
  ask(*model, r0, 1);
  ask(*model, r0, 2);
  EXPECT_THAT(refused_start(*model, r0, 2), HasSubstr("while it waits for iteration 2"));
}

TEST(SyncModel, AMalformedClusterIsRefused) {
  EXPECT_FALSE(make_sync_model(bsp(), {-1, {r0}, 1}).ok());
  EXPECT_FALSE(make_sync_model(bsp(), {1, {r0, r0}, 1}).ok());
  EXPECT_FALSE(make_sync_model(elastic(1, 1), {1, {r0, r0}, 1}).ok());
  EXPECT_FALSE(make_sync_model(bsp(), {1, {Rank{-1}}, 1}).ok());
  EXPECT_FALSE(make_sync_model(bsp(), {1, {r0}, 0}).ok());
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
  EXPECT_FALSE(make_sync_model({.lookahead = 0}, {1, {r0}, 1}).ok());
}

}  // namespace
}  // namespace paceline::sync

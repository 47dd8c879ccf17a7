#include "paramserver/core/push_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exchange/account.h"
#include "job/testing_jobs.h"

namespace paceline::paramserver {
namespace {

using ::testing::HasSubstr;
using Lines = std::vector<std::string>;

TimePoint at(int milliseconds) { return TimePoint{} + std::chrono::milliseconds(milliseconds); }

// Layer 0: tensors 0 and 1 (units 0 and 1), layer 1: tensor 2 (unit 2), two elements each.
class Bench {
 public:
  explicit Bench(scheduling::ScheduleOptions schedule, std::int32_t rank = 1, std::int32_t servers = 1) {
    job::PlanOptions options;
    options.workers = 2;
    options.servers = servers;
    options.schedule = schedule;
    plan = *job::Plan::make(job::testing::table_of({{2, 2}, {2}}), options);
    gates = std::make_unique<exchange::GateLedger>(plan, Rank{rank}, gate_rule(schedule));
    book = std::make_unique<exchange::AccountBook>(*gates);
    core = std::make_unique<PushLedger>(*gates, Rank{rank}, book.get());
  }
  Status value(std::uint32_t unit, Iteration label, int began = 0, int complete = 0, std::uint32_t micros = 0) {
    const Rank server = plan->units().units[unit].server;
    const wire::Value value{unit, micros, label};
    auto place = core->on_begin(server, value, static_cast<std::uint64_t>(plan->units().units[unit].elements) * 4, at(began));
    if (!place.ok()) return place.status();
    last_place = *place;
    return core->on(server, value, at(complete), sends);
  }
  void values(Iteration label) {
    for (std::uint32_t unit = 0; unit < plan->units().units.size(); ++unit) ASSERT_TRUE(value(unit, label).ok());
  }
  Status ready(std::uint32_t tensor, int now = 0) {
    std::vector<exchange::GateLedger::Complete> complete;
    PACELINE_RETURN_IF_ERROR(gates->on_gradient(tensor, complete));
    core->on_complete(complete, at(now), sends);
    return {};
  }
  Status done(Iteration iteration, std::vector<std::uint32_t> unused = {}) {
    std::vector<exchange::GateLedger::Complete> complete;
    PACELINE_RETURN_IF_ERROR(gates->on_backward_done(iteration, unused, complete));
    core->on_complete(complete, at(0), sends);
    core->on_backward_done(at(0), sends);
    gates->next_iteration();
    return {};
  }
  Lines take_trace() {
    Lines lines;
    for (const Send& send : sends) {
      if (const auto* pushes = std::get_if<wire::Pushes>(&send.message)) {
        lines.push_back(fmt::format("push {} to {}@{}", pushes->unit, pushes->last, pushes->iteration));
      } else if (const auto* push = std::get_if<wire::Push>(&send.message)) {
        const bool unused = push->unused_parts == scheduling::all_parts(plan->units().units[push->unit]);
        lines.push_back(fmt::format("{} {}@{}", unused ? "unused" : "push", push->unit, push->iteration));
        if (!unused && push->unused_parts != 0) lines.back() += fmt::format(" without {}", push->unused_parts);
      } else {
        const auto& pull = std::get<wire::Pull>(send.message);
        lines.push_back(fmt::format("pull {}@{}", pull.unit, pull.iteration));
        if (pull.last != pull.unit) lines.back() += fmt::format(" to {}", pull.last);
      }
      EXPECT_EQ(send.to, plan->units().units[*wire::unit_of(send.message)].server);
    }
    sends.clear();
    return lines;
  }

  std::shared_ptr<const job::Plan> plan;
  std::unique_ptr<exchange::GateLedger> gates;
  std::unique_ptr<exchange::AccountBook> book;
  std::unique_ptr<PushLedger> core;
  std::vector<Send> sends;
  PushLedger::Place last_place = PushLedger::Place::kParameters;
};

TEST(Worker, LayerWisePushesEachTensorWhenReadyAndPullsALayerWhenAllOfItIsPushed) {
  Bench bench(scheduling::layer_wise());
  bench.values(0);
  ASSERT_TRUE(bench.ready(2).ok());
  EXPECT_EQ(bench.take_trace(), (Lines{"push 2@1", "pull 2@1"}));
  ASSERT_TRUE(bench.ready(1).ok());
  EXPECT_EQ(bench.take_trace(), (Lines{"push 1@1"}));
  ASSERT_TRUE(bench.ready(0).ok());
  EXPECT_EQ(bench.take_trace(), (Lines{"push 0@1", "pull 0@1 to 1"})) << "one request for both tensors of the layer";
  ASSERT_TRUE(bench.done(1).ok());
  EXPECT_EQ(bench.take_trace(), Lines{});

  EXPECT_FALSE(bench.gates->open(Layer{0}, 2));
  ASSERT_TRUE(bench.value(1, 1).ok());
  EXPECT_FALSE(bench.gates->open(Layer{0}, 2));
  ASSERT_TRUE(bench.value(0, 1).ok());
  EXPECT_TRUE(bench.gates->open(Layer{0}, 2));
  EXPECT_FALSE(bench.gates->open(Layer{1}, 2));
  EXPECT_EQ(bench.gates->missing(Layer{1}), 2U);
}

TEST(Worker, DefaultPushesAtTheEndAndOpensAllGatesAtOnce) {
  Bench bench(scheduling::default_schedule());
  bench.values(0);
  ASSERT_TRUE(bench.ready(2).ok());
  ASSERT_TRUE(bench.ready(0).ok());
  EXPECT_EQ(bench.take_trace(), Lines{});
  ASSERT_TRUE(bench.done(1, {1}).ok());
  EXPECT_EQ(bench.take_trace(), (Lines{"push 2@1", "push 0@1", "unused 1@1", "pull 0@1 to 2"})) << "one request for all";
  ASSERT_TRUE(bench.value(0, 1).ok());
  ASSERT_TRUE(bench.value(1, 1).ok());
  EXPECT_FALSE(bench.gates->open(Layer{0}, 2));
  ASSERT_TRUE(bench.value(2, 1).ok());
  EXPECT_TRUE(bench.gates->open(Layer{0}, 2));
  EXPECT_TRUE(bench.gates->open(Layer{1}, 2));
}

TEST(Worker, WithPushesAtTheEndAsksForLayersWhenTheServersHaveAllGradients) {
  scheduling::ScheduleOptions schedule = scheduling::layer_wise();
  schedule.push = scheduling::PushWhen::kAtEnd;
  Bench bench(schedule);
  bench.values(0);
  for (const Iteration iteration : {1, 2}) {
    for (const std::uint32_t tensor : {2U, 0U}) ASSERT_TRUE(bench.ready(tensor).ok());
    ASSERT_TRUE(bench.done(iteration, {1}).ok());
    const auto at_iteration = [&](const char* what) { return fmt::format("{}@{}", what, iteration); };
    EXPECT_EQ(bench.take_trace(), (Lines{at_iteration("push 2"), at_iteration("push 0"), at_iteration("unused 1")}));
    bench.core->on_push_delivered(0, at(1), bench.sends);
    EXPECT_EQ(bench.take_trace(), Lines{}) << "unit 2 is on its way";
    bench.core->on_push_delivered(2, at(2), bench.sends);
    EXPECT_EQ(bench.take_trace(), (Lines{fmt::format("pull 0@{} to 1", iteration), at_iteration("pull 2")}))
        << "in the order of need";
    bench.values(iteration);
  }
  ASSERT_TRUE(bench.done(3, {0, 1, 2}).ok());
  EXPECT_EQ(bench.take_trace(), (Lines{"unused 0@3", "unused 1@3", "unused 2@3", "pull 0@3 to 1", "pull 2@3"}))
      << "nothing to wait for";
}

TEST(Worker, BroadcastAsksForNothing) {
  Bench bench(scheduling::p3());
  bench.values(0);
  ASSERT_TRUE(bench.ready(2).ok());
  ASSERT_TRUE(bench.ready(1).ok());
  ASSERT_TRUE(bench.done(1, {0}).ok());
  EXPECT_EQ(bench.take_trace(), (Lines{"push 2@1", "push 1@1", "unused 0@1"}));
}

TEST(Worker, KvstoreAsksForALayerWhenItsServersHaveSaidThatAllOfItIsUpdated) {
  Bench bench(scheduling::kvstore());
  bench.values(0);
  for (const std::uint32_t tensor : {2U, 1U, 0U}) ASSERT_TRUE(bench.ready(tensor).ok());
  EXPECT_EQ(bench.take_trace(), (Lines{"push 2@1", "push 1@1", "push 0@1"}));
  const auto notify = [&](std::uint32_t unit, Iteration label) {
    return bench.core->on(Rank{0}, wire::Notify{unit, label}, at(0), bench.sends);
  };
  ASSERT_TRUE(notify(1, 1).ok());
  EXPECT_EQ(bench.take_trace(), Lines{});
  ASSERT_TRUE(bench.done(1).ok());
  ASSERT_TRUE(notify(0, 1).ok());
  EXPECT_EQ(bench.take_trace(), (Lines{"pull 0@1", "pull 1@1"}));
  EXPECT_THAT(notify(0, 1).message(), HasSubstr("does not await"));
  EXPECT_THAT(notify(2, 2).message(), HasSubstr("does not await"));
  EXPECT_THAT(notify(3, 1).message(), HasSubstr("the job has 3 units"));
  ASSERT_TRUE(notify(2, 1).ok());
  EXPECT_EQ(bench.take_trace(), (Lines{"pull 2@1"}));
}

TEST(Worker, PushesAMergedUnitWhenTheLastOfItsTensorsIsKnownAndSaysWhichWereNotUsed) {
  scheduling::ScheduleOptions schedule = scheduling::p3();
  schedule.cut.merge = 10;
  Bench bench(schedule);
  ASSERT_EQ(bench.plan->units().units.size(), 1U);
  bench.values(0);
  ASSERT_TRUE(bench.ready(2).ok());
  ASSERT_TRUE(bench.ready(0).ok());
  EXPECT_EQ(bench.take_trace(), Lines{});
  ASSERT_TRUE(bench.done(1, {1}).ok());
  EXPECT_EQ(bench.take_trace(), (Lines{"push 0@1 without 2"}));
  EXPECT_FALSE(bench.gates->free(Layer{0}) || bench.gates->free(Layer{1}));
  bench.core->on_push_delivered(0, at(1), bench.sends);
  EXPECT_TRUE(bench.gates->free(Layer{0}) && bench.gates->free(Layer{1}));
  EXPECT_FALSE(bench.gates->open(Layer{0}, 2) || bench.gates->open(Layer{1}, 2));
  ASSERT_TRUE(bench.value(0, 1).ok());
  EXPECT_TRUE(bench.gates->open(Layer{0}, 2) && bench.gates->open(Layer{1}, 2));
  for (const std::uint32_t tensor : {2U, 1U, 0U}) ASSERT_EQ(bench.ready(tensor).ok(), true);
  EXPECT_EQ(bench.take_trace(), (Lines{"push 0@2"}));
}

TEST(Worker, AsksForABatchWithOneRequestToEachServer) {
  scheduling::ScheduleOptions schedule = scheduling::layer_wise();
  schedule.back = scheduling::Return::kPullInBatches;
  schedule.cut = scheduling::slices_of(1);
  Bench bench(schedule, 1, 2);  // six units, in turn on servers 0 and 1
  bench.values(0);
  ASSERT_TRUE(bench.ready(2).ok());
  EXPECT_EQ(bench.take_trace(), (Lines{"push 5@1", "push 4@1", "pull 4@1", "pull 5@1"})) << "all of layer 1 is pushed";
  ASSERT_TRUE(bench.ready(1).ok());
  bench.take_trace();
  ASSERT_TRUE(bench.ready(0).ok());
  EXPECT_THAT(bench.take_trace(), ::testing::IsSupersetOf({"pull 0@1 to 2", "pull 1@1 to 3"}));
  ASSERT_TRUE(bench.done(1).ok());
  EXPECT_EQ(bench.take_trace(), Lines{});
  EXPECT_THAT(bench.core->on_begin(Rank{0}, wire::Values{0, 2, 1}, 4, at(0)).status().message(), HasSubstr("it has 8"));
  EXPECT_THAT(bench.core->on_begin(Rank{0}, wire::Values{2, 0, 1}, 8, at(0)).status().message(), HasSubstr("units 2 to 0"));
  EXPECT_THAT(bench.core->on_begin(Rank{0}, wire::Values{0, 3, 1}, 8, at(0)).status().message(), HasSubstr("lives on server 1"));
  ASSERT_TRUE(bench.core->on_begin(Rank{0}, wire::Values{0, 2, 1}, 8, at(0)).ok());
  ASSERT_TRUE(bench.core->on(Rank{0}, wire::Values{0, 2, 1}, at(0), bench.sends).ok());
  ASSERT_TRUE(bench.value(1, 1).ok());
  EXPECT_FALSE(bench.gates->open(Layer{0}, 2));
  ASSERT_TRUE(bench.value(3, 1).ok());
  EXPECT_TRUE(bench.gates->open(Layer{0}, 2));
  ASSERT_TRUE(bench.value(4, 1).ok());
  ASSERT_TRUE(bench.value(5, 1).ok());
  bench.core->set_batches({2});
  for (const std::uint32_t tensor : {2U, 1U}) {
    ASSERT_TRUE(bench.ready(tensor).ok());
    EXPECT_THAT(bench.take_trace(), ::testing::Each(::testing::StartsWith("push"))) << "the batch waits for tensor 0";
  }
  ASSERT_TRUE(bench.ready(0).ok());
  Lines trace = bench.take_trace();
  ASSERT_GT(trace.size(), 2U);
  EXPECT_EQ(Lines(trace.end() - 2, trace.end()), (Lines{"pull 0@2 to 4", "pull 1@2 to 5"}));
}

scheduling::ScheduleOptions push_in_batches() {
  scheduling::ScheduleOptions schedule = scheduling::ibatch_schedule();
  schedule.push = scheduling::PushWhen::kInBatches;
  schedule.cut = scheduling::slices_of(1);
  return schedule;
}

TEST(Worker, PushesABatchOfLayersAsOneMessageToEachServerWhenAllItsGradientsAreThere) {
  Bench bench(push_in_batches(), 1, 2);  // units 0 to 3 in layer 0, 4 and 5 in layer 1, in turn on servers 0 and 1
  bench.values(0);
  // Until there are batches, each layer for itself. Worker 1 begins with server 1.
  ASSERT_TRUE(bench.ready(2).ok());
  EXPECT_EQ(bench.take_trace(), (Lines{"push 5@1", "push 4@1", "pull 4@1", "pull 5@1"}));
  ASSERT_TRUE(bench.ready(1).ok());
  EXPECT_EQ(bench.take_trace(), Lines{});
  ASSERT_TRUE(bench.ready(0).ok());
  EXPECT_EQ(bench.take_trace(), (Lines{"push 1 to 3@1", "push 0 to 2@1", "pull 0@1 to 2", "pull 1@1 to 3"}));
  ASSERT_TRUE(bench.done(1).ok());
  bench.take_trace();

  EXPECT_FALSE(bench.gates->free(Layer{0}));
  EXPECT_EQ(bench.gates->undelivered(), 0U);
  for (const std::uint32_t first : {1U, 5U, 4U}) bench.core->on_push_delivered(first, at(0), bench.sends);
  EXPECT_TRUE(bench.gates->free(Layer{1}));
  EXPECT_FALSE(bench.gates->free(Layer{0})) << "units 0 and 2 are on their way";
  bench.core->on_push_delivered(0, at(0), bench.sends);
  EXPECT_TRUE(bench.gates->free());

  bench.core->set_batches({2});
  bench.core->set_push_batches({2});
  bench.values(1);
  for (const std::uint32_t tensor : {2U, 1U}) ASSERT_TRUE(bench.ready(tensor).ok());
  EXPECT_EQ(bench.take_trace(), Lines{});
  ASSERT_TRUE(bench.ready(0).ok());
  EXPECT_EQ(bench.take_trace(), (Lines{"push 1 to 5@2", "push 0 to 4@2", "pull 0@2 to 4", "pull 1@2 to 5"}));
  EXPECT_EQ(bench.book->take(at(0)).bytes_pushed, 2 * 6 * 4);
}

TEST(Worker, AUnitOfABatchWithoutAGradientGoesByItselfAndTheBatchWaitsForItNoLonger) {
  Bench bench(push_in_batches(), 0, 1);  // all on one server
  for (std::uint32_t unit = 0; unit < 6; ++unit) bench.core->on_initial_received(unit);
  bench.core->set_batches({2});
  bench.core->set_push_batches({2});
  for (const std::uint32_t tensor : {2U, 0U}) ASSERT_TRUE(bench.ready(tensor).ok());
  EXPECT_EQ(bench.take_trace(), Lines{});
  ASSERT_TRUE(bench.done(1, {1}).ok());
  EXPECT_EQ(bench.take_trace(), (Lines{"push 0 to 1@1", "unused 2@1", "unused 3@1", "push 4 to 5@1", "pull 0@1 to 5"}));
}

TEST(Worker, BeginsATensorWithThePartsOnItsOwnServer) {
  scheduling::ScheduleOptions schedule = scheduling::p3();
  schedule.cut = scheduling::slices_of(1);
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    Bench bench(schedule, rank, 2);
    if (rank == 0) {
      for (std::uint32_t unit = 0; unit < 6; ++unit) bench.core->on_initial_received(unit);
    } else {
      bench.values(0);
    }
    ASSERT_TRUE(bench.ready(0).ok());
    ASSERT_EQ(bench.sends.size(), 2U);
    EXPECT_EQ(bench.sends[0].to, Rank{rank});
  }
}

TEST(Worker, ReceivesIntoTheParametersOnlyWhenBackwardIsOver) {
  Bench bench(scheduling::p3());
  bench.values(0);
  EXPECT_EQ(bench.last_place, PushLedger::Place::kParameters);
  ASSERT_TRUE(bench.ready(2).ok());
  ASSERT_TRUE(bench.value(2, 1).ok());  // while tensors 0 and 1 are still in backward
  EXPECT_EQ(bench.last_place, PushLedger::Place::kStaging);
  ASSERT_TRUE(bench.ready(1).ok());
  ASSERT_TRUE(bench.done(1, {0}).ok());
  ASSERT_TRUE(bench.value(1, 1).ok());
  EXPECT_EQ(bench.last_place, PushLedger::Place::kParameters);
  EXPECT_TRUE(bench.gates->open(Layer{1}, 2));
  EXPECT_EQ(bench.core->take_staged({0, 3}), 2U);
  EXPECT_EQ(bench.core->take_staged({0, 3}), std::nullopt);
}

TEST(Worker, PushesNothingBeforeAllValuesOfTheIterationBeforeHaveCome) {
  Bench bench(scheduling::layer_wise());
  bench.values(0);
  for (const std::uint32_t tensor : {2U, 1U, 0U}) ASSERT_TRUE(bench.ready(tensor).ok());
  ASSERT_TRUE(bench.done(1).ok());
  bench.take_trace();
  ASSERT_TRUE(bench.value(2, 1).ok());
  ASSERT_TRUE(bench.value(1, 1).ok());
  ASSERT_TRUE(bench.ready(2).ok());  // a forward that did not use layer 0
  EXPECT_EQ(bench.take_trace(), Lines{});
  EXPECT_THAT(bench.done(2, {0, 1}).message(), HasSubstr("before 1 of its parameters' values"));
  ASSERT_TRUE(bench.value(0, 1).ok());
  EXPECT_EQ(bench.take_trace(), (Lines{"push 2@2", "pull 2@2"}));
  ASSERT_TRUE(bench.done(2, {0, 1}).ok());
  EXPECT_EQ(bench.take_trace(), (Lines{"unused 0@2", "unused 1@2", "pull 0@2 to 1"}));
}

TEST(Worker, RefusesWrongEventsAndChangesNothing) {
  Bench bench(scheduling::layer_wise());
  const auto refused = [](const Status& status, const char* part) {
    ASSERT_FALSE(status.ok()) << part;
    EXPECT_EQ(status.kind(), ErrorKind::kBadRequest);
    EXPECT_THAT(status.message(), HasSubstr(part));
  };
  refused(bench.value(0, 1), "does not await");
  ASSERT_TRUE(bench.value(0, 0).ok());
  refused(bench.value(0, 0), "does not await");
  refused(bench.core->on_begin(Rank{1}, wire::Values{1, 1, 0}, 8, at(0)).status(), "lives on server 0");
  refused(bench.core->on_begin(Rank{0}, wire::Values{3, 3, 0}, 8, at(0)).status(), "the job has 3 units");
  refused(bench.core->on_begin(Rank{0}, wire::Values{1, 1, 0}, 12, at(0)).status(), "12 bytes");
  refused(bench.core->on(Rank{0}, wire::Values{1, 1, 0}, at(0), bench.sends), "empty");
  ASSERT_TRUE(bench.value(1, 0).ok());
  ASSERT_TRUE(bench.core->on_begin(Rank{0}, wire::Values{2, 2, 0}, 8, at(0)).ok());
  refused(bench.core->on_begin(Rank{0}, wire::Values{2, 2, 0}, 8, at(0)).status(), "does not await");
  ASSERT_TRUE(bench.core->on(Rank{0}, wire::Values{2, 2, 0}, at(0), bench.sends).ok());
  refused(bench.ready(3), "the model has 3");
  ASSERT_TRUE(bench.ready(2).ok());
  refused(bench.ready(2), "\"layer1.tensor0\" came twice in iteration 1");
  refused(bench.done(2), "iteration 2 is over in iteration 1");
  refused(bench.done(1), "\"layer0.tensor0\" has neither a gradient");
  refused(bench.done(1, {0, 1, 2}), "has a gradient");
  refused(bench.done(1, {0, 1, 1}), "twice");
  refused(bench.done(1, {0, 1, 7}), "the model has 3");
  refused(bench.value(1, 1), "does not await");  // not pushed yet
  ASSERT_TRUE(bench.done(1, {0, 1}).ok());
  EXPECT_EQ(bench.gates->current(), 2);
}

TEST(Worker, KnowsWhichGradientsAreStillBorrowed) {
  Bench bench(scheduling::layer_wise());
  bench.values(0);
  ASSERT_TRUE(bench.ready(2).ok());
  ASSERT_TRUE(bench.done(1, {0, 1}).ok());
  EXPECT_TRUE(bench.gates->free(Layer{0}));
  EXPECT_FALSE(bench.gates->free(Layer{1}));
  EXPECT_EQ(bench.gates->undelivered(), 2U);
  bench.core->on_push_delivered(2, at(1), bench.sends);
  EXPECT_TRUE(bench.gates->free());
}

TEST(Worker, SplitsTheTimeAtAGateIntoPushWaitUpdateAndPull) {
  Bench bench(scheduling::layer_wise());
  bench.values(0);
  for (const std::uint32_t tensor : {2U, 1U, 0U}) ASSERT_TRUE(bench.ready(tensor, 0).ok());
  ASSERT_TRUE(bench.done(1).ok());
  bench.core->on_push_delivered(1, at(12), bench.sends);
  bench.core->on_push_delivered(2, at(12), bench.sends);
  ASSERT_TRUE(bench.value(1, 1, 13, 14).ok());
  bench.core->on_push_delivered(0, at(30), bench.sends);
  ASSERT_TRUE(bench.value(0, 1, 50, 58, 5000).ok());  // the last of layer 0, so the one that counts
  bench.book->on_event(wire::during(at(20), at(60), {.what = wire::Happening::kGate, .iteration = 2}));
  const exchange::Account account = bench.book->take(at(60));
  EXPECT_EQ(account.push, std::chrono::milliseconds(10));
  EXPECT_EQ(account.wait, std::chrono::milliseconds(15));
  EXPECT_EQ(account.update, std::chrono::milliseconds(5));
  EXPECT_EQ(account.pull, std::chrono::milliseconds(10));
  EXPECT_EQ(account.overlapped_push, std::chrono::milliseconds(20));  // pushes were on their way from 0 to 30
  EXPECT_EQ(account.overlapped_pull, std::chrono::milliseconds(1));   // the 8 ms of the other one were waited for
  EXPECT_EQ(account.bytes_pushed, 24);
  EXPECT_EQ(account.bytes_pulled, 16);
  EXPECT_EQ(bench.book->take(at(61)).push, Duration{});
}

TEST(Worker, WaitsForNothingAtGatesThatAreOpenAlready) {
  Bench bench(scheduling::layer_wise());
  bench.values(0);
  for (const std::uint32_t tensor : {2U, 1U, 0U}) ASSERT_TRUE(bench.ready(tensor, 0).ok());
  ASSERT_TRUE(bench.done(1).ok());
  for (const std::uint32_t unit : {0U, 1U, 2U}) bench.core->on_push_delivered(unit, at(5), bench.sends);
  for (const std::uint32_t unit : {0U, 1U, 2U}) ASSERT_TRUE(bench.value(unit, 1, 6, 8).ok());
  bench.book->on_event(wire::during(at(20), at(20), {.what = wire::Happening::kGate, .iteration = 2}));
  const exchange::Account account = bench.book->take(at(30));
  EXPECT_EQ(account.push + account.wait + account.update + account.pull, Duration{});
  EXPECT_EQ(account.overlapped_push, std::chrono::milliseconds(5));
  EXPECT_EQ(account.overlapped_pull, std::chrono::milliseconds(2 * 3));
}

TEST(Plan, RefusesWhatCannotBeTrained) {
  const auto refused = [](const std::function<void(wire::TensorTable&, job::PlanOptions&)>& change, const char* part) {
    wire::TensorTable table = job::testing::table_of({{2}, {3}});
    job::PlanOptions options;
    change(table, options);
    const auto plan = job::Plan::make(table, options);
    ASSERT_FALSE(plan.ok()) << part;
    EXPECT_EQ(plan.status().kind(), ErrorKind::kBadRequest);
    EXPECT_THAT(plan.status().message(), HasSubstr(part));
  };
  refused([](auto&, auto& options) { options.workers = 0; }, "--workers 0");
  refused([](auto&, auto& options) { options.servers = -1; }, "--servers -1");
  refused([](auto&, auto& options) { options.first = 0; }, "iteration 0");
  refused([](auto&, auto& options) { options.update.clip_norm = -1; }, "--clip-norm -1");
  refused([](auto&, auto& options) { options.update.clip_norm = std::nan(""); }, "--clip-norm nan");
  refused([](auto&, auto& options) { options.update.optimizer.momentum = 2; }, "2");
  refused([](auto&, auto& options) { options.schedule.cut = scheduling::slices_of(0); }, "--slice 0");
  refused([](auto&, auto& options) { options.update.groups = {{-1, 0}}; }, "learning-rate factor -1");
  refused([](auto&, auto& options) { options.update.groups = {{1, -1}}; }, "weight decay -1");
  refused([](auto& table, auto&) { table.tensors[1].group = 1; }, "parameter group 1; legal are 0 to 0");
  refused([](auto& table, auto&) { table.tensors[1].dtype = "int32"; }, "int32");
  refused([](auto&, auto& options) { options.sync.kind = sync::SyncKind::kAsp, options.update.clip_norm = 1; }, "--clip-norm");
  refused([](auto&,
             auto& options) { options.sync.kind = sync::SyncKind::kSsp, options.update.non_finite = job::NonFinitePolicy::kSkip; },
          "skipping");
  EXPECT_TRUE(job::Plan::make(job::testing::table_of({{2}}), {}).ok());
  EXPECT_THAT(job::parse_non_finite_policy("skp").status().message(), HasSubstr("did you mean 'skip'"));
  EXPECT_EQ(*job::parse_non_finite_policy("apply"), job::NonFinitePolicy::kApply);
}

}  // namespace
}  // namespace paceline::paramserver

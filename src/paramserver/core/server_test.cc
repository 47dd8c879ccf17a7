// Servers in BSP: sums, values, refusals.
#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include <fmt/ranges.h>

#include "paramserver/core/server_testing.h"

namespace paceline::paramserver::testing {
namespace {

using ::testing::HasSubstr;

TEST(Server, SumsInRankOrderWhateverTheArrivalOrder) {
  // 1e8 + 1 + -1e8 is 0 in float32, but 1e8 + -1e8 + 1 is 1: the arrival order would show.
  const float gradients[] = {1e8F, 1.0F, -1e8F};
  std::vector<std::int32_t> arrival = {0, 1, 2};
  do {
    Setting setting;
    setting.layers = {{1}};
    Bench bench(setting);
    bench.start();
    for (const std::int32_t rank : arrival) ASSERT_TRUE(bench.push(rank, 0, 1, {gradients[rank]}).ok());
    EXPECT_EQ(bench.value(0)[0], -(((1e8F + 1.0F) + -1e8F) * static_cast<float>(1.0 / 3)))
        << "arrival " << fmt::format("{}", fmt::join(arrival, ","));
  } while (std::ranges::next_permutation(arrival).found);
}

TEST(Server, SendsTheInitialValuesToAllOthers) {
  Bench bench({});
  ASSERT_TRUE(bench.initial(1, 7).ok());
  EXPECT_EQ(bench.trace(), (Lines{"1<-1@0", "2<-1@0"}));
  EXPECT_EQ(bench.value(1), std::vector<float>(3, 7));
}

TEST(Server, BroadcastsAUnitWhenItsLastGradientIsThere) {
  Bench bench({});
  bench.start();
  ASSERT_TRUE(bench.push(2, 1, 1, {1, 1, 1}).ok());
  ASSERT_TRUE(bench.push(0, 1, 1, {1, 1, 1}).ok());
  EXPECT_EQ(bench.trace(), Lines{});
  ASSERT_TRUE(bench.push(1, 1, 1, {1, 1, 4}).ok());
  EXPECT_EQ(bench.trace(), (Lines{"0<-1@1", "1<-1@1", "2<-1@1"}));
  EXPECT_EQ(bench.value(1), (std::vector<float>{-1, -1, -2}));
  EXPECT_EQ(bench.core->export_part(1).version, 1);
  EXPECT_EQ(bench.core->export_part(0).version, 0);
}

TEST(Server, AnswersPullsThatCameBeforeThePushesWhenTheValueExists) {
  Setting setting;
  setting.workers = 2;
  setting.back = scheduling::Return::kPullByLayer;
  Bench bench(setting);
  bench.start();
  ASSERT_TRUE(bench.pull(1, 0, 0, 1).ok());
  ASSERT_TRUE(bench.push(1, 0, 1, {1, 1}).ok());
  EXPECT_EQ(bench.trace(), Lines{});
  ASSERT_TRUE(bench.push(0, 0, 1, {1, 1}).ok());
  EXPECT_EQ(bench.trace(), (Lines{"1<-0@1"}));
  bench.deliver();
  ASSERT_TRUE(bench.pull(0, 0, 0, 1).ok());
  EXPECT_EQ(bench.trace(), (Lines{"0<-0@1"}));
}

TEST(Server, SaysThatAnIterationIsCompleteBeforeItsLastValueLeaves) {
  Setting setting;
  setting.workers = 1;
  Bench bench(setting);
  bench.start();
  ASSERT_TRUE(bench.push(0, 0, 1, {1, 1}).ok());
  ASSERT_TRUE(bench.push(0, 1, 1, {1, 1, 1}).ok());
  EXPECT_EQ(bench.trace(), (Lines{"0<-0@1", "complete@1", "0<-1@1"}));
}

TEST(Server, TreatsAnUnusedUnitAsZeroAndSkipsOneThatNobodyUsed) {
  Setting setting;
  setting.workers = 2;
  setting.update.optimizer.kind = tensor::OptimizerKind::kMomentum;
  setting.update.optimizer.weight_decay = 0.5;
  Bench bench(setting);
  ASSERT_TRUE(bench.initial(0, 8).ok());
  ASSERT_TRUE(bench.initial(1, 8).ok());
  bench.deliver();
  ASSERT_TRUE(bench.push(1, 0, 1, {2, 4}).ok());
  ASSERT_TRUE(bench.on(0, wire::Push{0, 1, 1}).ok());
  EXPECT_EQ(bench.value(0), (std::vector<float>{8 - (1 + 4), 8 - (2 + 4)}));  // mean of 0 and the gradient, and half the value
  EXPECT_EQ(bench.core->export_part(0).steps, 1);

  ASSERT_TRUE(bench.on(0, wire::Push{1, 1, 1}).ok());
  ASSERT_TRUE(bench.on(1, wire::Push{1, 1, 1}).ok());
  EXPECT_EQ(bench.value(1), std::vector<float>(3, 8));  // no decay either
  EXPECT_EQ(bench.core->export_part(1).steps, 0);
  EXPECT_EQ(bench.core->export_part(1).version, 1);
  EXPECT_THAT(bench.trace(), ::testing::IsSupersetOf({"0<-1@1", "1<-1@1", "complete@1"}));
}

TEST(Server, RefusesWhatDoesNotFitAndChangesNothing) {
  Bench bench({});
  const auto refused = [&](const Status& status, const char* part) {
    ASSERT_FALSE(status.ok()) << part;
    EXPECT_EQ(status.kind(), ErrorKind::kBadRequest);
    EXPECT_THAT(status.message(), HasSubstr(part));
  };
  refused(bench.push(1, 0, 1, {1, 1}), "before it got the value of iteration 0");
  refused(bench.begin(1, wire::Initial{0, 0}, 8).status(), "only worker 0 does");
  refused(bench.begin(0, wire::Initial{0, 3}, 8).status(), "after iteration 3");
  refused(bench.begin(0, wire::Initial{0, 0}, 4).status(), "4 bytes");
  refused(bench.on(0, wire::Initial{0, 0}), "empty");
  ASSERT_TRUE(bench.initial(0).ok());
  refused(bench.initial(0), "twice");
  ASSERT_TRUE(bench.initial(1).ok());
  bench.deliver();
  refused(bench.push(3, 0, 1, {1, 1}), "worker 3; the job has 3 workers");
  refused(bench.push(-1, 0, 1, {1, 1}), "worker -1");
  refused(bench.push(0, 2, 1, {1, 1}), "unit 2; the job has 2 units");
  refused(bench.push(0, 0xffffffff, 1, {1, 1}), "the job has 2 units");
  refused(bench.push(0, 0, 0, {1, 1}), "expected is iteration 1");
  refused(bench.push(0, 0, 2, {1, 1}), "expected is iteration 1");
  refused(bench.push(0, 0, std::numeric_limits<Iteration>::min(), {1, 1}), "expected is iteration 1");
  refused(bench.push(0, 0, 1, {1}), "4 bytes");
  refused(bench.push(0, 0, 1, {}), "0 bytes");
  refused(bench.on(0, wire::Push{0, 0, 1}), "without a gradient");
  refused(bench.on(0, wire::Push{0, 3, 1}), "it has 1 parts");
  ASSERT_TRUE(bench.begin(0, wire::Push{0, 0, 1}, 8).ok());
  refused(bench.begin(0, wire::Push{0, 0, 1}, 8).status(), "twice");
  refused(bench.on(0, wire::Push{0, 1, 1}), "did not use");
  ASSERT_TRUE(bench.on(0, wire::Push{0, 0, 1}).ok());
  refused(bench.push(0, 0, 1, {1, 1}), "expected is iteration 2");
  refused(bench.push(0, 0, 2, {1, 1}), "before it got the value of iteration 1");
  refused(bench.on(0, wire::Push{0, 1, 1}), "expected is iteration 2");
  refused(bench.pull(0, 0, 0, 0), "it has that of 0");
  refused(bench.pull(0, 0, 0, 3), "has pushed up to 1");
  ASSERT_TRUE(bench.pull(0, 0, 0, 1).ok());
  refused(bench.pull(0, 0, 0, 1), "twice");
  refused(bench.on(1, wire::SquareSum{1}), "does not clip");
  EXPECT_EQ(bench.left.size(), 0U);
  EXPECT_EQ(bench.value(0), (std::vector<float>{0, 0}));
  EXPECT_EQ(bench.core->export_part(0).version, 0);
}

TEST(Server, RefusesUnitsOfOtherServersAndBadSquareSums) {
  Setting setting;
  setting.workers = 1;
  setting.servers = 2;
  setting.update.clip_norm = 1;
  Bench bench(setting);  // server 0 has the larger unit 1
  EXPECT_THAT(bench.push(0, 0, 1, {1, 1}).message(), HasSubstr("lives on server 1"));
  std::byte squares[tensor::kSquareSumBytes] = {};
  EXPECT_FALSE(bench.receive(0, wire::SquareSum{1}, squares).ok());
  EXPECT_FALSE(bench.receive(2, wire::SquareSum{1}, squares).ok());
  EXPECT_FALSE(bench.receive(1, wire::SquareSum{1}, std::span(squares).first(8)).ok());
  EXPECT_FALSE(bench.receive(1, wire::SquareSum{0}, squares).ok());
  EXPECT_FALSE(bench.receive(1, wire::SquareSum{3}, squares).ok());
  EXPECT_TRUE(bench.receive(1, wire::SquareSum{1}, squares).ok());
  EXPECT_FALSE(bench.receive(1, wire::SquareSum{1}, squares).ok());
  EXPECT_TRUE(bench.receive(1, wire::SquareSum{2}, squares).ok());  // one ahead is legal
}

TEST(Server, HoldsUpdatesForClippingUntilAllServersHaveTold) {
  Setting setting;
  setting.workers = 1;
  setting.servers = 2;
  setting.update.clip_norm = 1;
  Bench bench(setting);
  bench.start();
  ASSERT_TRUE(bench.push(0, 1, 1, {0, 4, 0}).ok());
  EXPECT_EQ(bench.trace(), (Lines{"squares->1@1"}));
  tensor::ExactSquareSum other;
  const float three = 3;
  other.add(std::span(&three, 1));
  std::array<std::byte, tensor::kSquareSumBytes> squares;
  other.write(squares);
  ASSERT_TRUE(bench.receive(1, wire::SquareSum{1}, squares).ok());
  EXPECT_EQ(bench.trace(), (Lines{"squares->1@1", "complete@1", "0<-1@1"}));
  EXPECT_EQ(bench.value(1)[1], -4.0F * static_cast<float>(1.0 / (5.0 + 1e-6)));
}

TEST(Server, KeepsAValueThatIsBeingSentAsItWas) {
  Setting setting;
  setting.workers = 2;
  setting.sync.kind = sync::SyncKind::kAsp;
  Bench bench(setting);
  bench.start();
  ASSERT_TRUE(bench.push(0, 0, 1, {1, 1}).ok());
  ASSERT_EQ(bench.trace(), (Lines{"0<-0@1"}));
  const ServerMemory::Sent sent = bench.left[0].sent;
  bench.forget();
  ASSERT_TRUE(bench.push(1, 0, 1, {1, 1}).ok());
  EXPECT_EQ(bench.value(0), (std::vector<float>{-2, -2}));
  EXPECT_EQ(reinterpret_cast<const float*>(sent.payload.data())[1], -1.0F);
  EXPECT_EQ(bench.core->counters().value_copies, 1);
  bench.core->on_delivered(sent.ticket);
  ASSERT_TRUE(bench.push(1, 1, 1, {1, 1, 1}).ok());
  bench.deliver();
  ASSERT_TRUE(bench.push(1, 0, 2, {1, 1}).ok());
  EXPECT_EQ(bench.core->counters().value_copies, 1);
}

TEST(Server, ForgetsAHalfReceivedGradientOfALostWorkerAndGoesOn) {
  Bench bench({});
  bench.start();
  ASSERT_TRUE(bench.begin(1, wire::Push{0, 0, 1}, 8).ok());
  ASSERT_TRUE(bench.push(0, 0, 1, {2, 2}).ok());
  ASSERT_TRUE(bench.push(2, 0, 1, {4, 4}).ok());
  EXPECT_EQ(bench.core->counters().gradient_bytes, 24);
  ASSERT_TRUE(bench.leave(1).ok());
  EXPECT_EQ(bench.core->counters().gradient_bytes, 0);
  EXPECT_EQ(bench.trace(), (Lines{"0<-0@1", "2<-0@1"}));
  EXPECT_FALSE(bench.leave(1).ok());
  EXPECT_FALSE(bench.push(1, 0, 1, {1, 1}).ok());
}

TEST(Server, GoesOnFromASavedState) {
  Setting setting;
  setting.workers = 1;
  setting.update.optimizer.kind = tensor::OptimizerKind::kAdam;
  Bench whole(setting);
  whole.start();
  ASSERT_TRUE(whole.push(0, 0, 1, {0.5, 2}).ok());
  const auto saved = whole.core->export_part(0);
  const std::vector<float> value(saved.value.begin(), saved.value.end()), state(saved.state.begin(), saved.state.end());
  ASSERT_TRUE(whole.push(0, 1, 1, {1, 1, 1}).ok());
  whole.deliver();
  ASSERT_TRUE(whole.push(0, 0, 2, {3, -1}).ok());

  setting.first = 2;
  Bench resumed(setting);
  EXPECT_FALSE(resumed.core->import_part({.part = 0, .value = value, .state = state, .version = 0, .steps = 1}).ok());
  EXPECT_FALSE(resumed.core->import_part({.part = 0, .value = value, .state = value, .version = 1, .steps = 1}).ok());
  EXPECT_FALSE(resumed.core->import_part({.part = 1, .value = value, .state = state, .version = 1, .steps = 1}).ok());
  EXPECT_FALSE(resumed.core->import_part({.part = 9, .value = value, .state = state, .version = 1, .steps = 1}).ok());
  ASSERT_TRUE(resumed.core->import_part({.part = 0, .value = value, .state = state, .version = 1, .steps = 1}).ok());
  ASSERT_TRUE(resumed.receive(0, wire::Initial{0, 1}, std::as_bytes(std::span(value))).ok());
  ASSERT_TRUE(resumed.push(0, 0, 2, {3, -1}).ok());
  EXPECT_TRUE(testing::same_bits(resumed.value(0), whole.value(0)));
  EXPECT_EQ(resumed.core->export_part(0).steps, 2);
}

TEST(Server, WithoutUnitsHasNothingToDo) {
  Setting setting;
  setting.workers = 1;
  setting.servers = 3;
  setting.layers = {{4}};
  Bench bench(setting, 2);
  EXPECT_FALSE(bench.push(0, 0, 1, {1, 1, 1, 1}).ok());
}

TEST(BufferPool, GivesBlocksOutAgainAndNeverToTwo) {
  exchange::BufferPool pool;
  const auto a = pool.take(1000), b = pool.take(1000);
  EXPECT_NE(a, b);
  pool.add_reference(a);
  pool.release(a);
  EXPECT_TRUE(pool.in_use(a));
  pool.release(a);
  EXPECT_EQ(pool.take(990), a);  // the same class of sizes
  const auto c = pool.take(100'000);
  EXPECT_NE(c, a);
  for (const std::size_t size : {1, 64, 65, 127, 128, 129, 1000, 1023, 1024, 1025, 99'999}) {
    const auto block = pool.take(size);
    std::ranges::fill(pool.of(block, size), 1.0F);  // the sanitizer sees when it is too small
    pool.release(block);
  }
}

TEST(Server, TellsWorkersOfAnUpdateAndSendsNothingUntilTheyAsk) {
  Bench bench({.workers = 2, .back = scheduling::Return::kNotifyAndPull});
  bench.start();
  ASSERT_TRUE(bench.push(0, 1, 1, {1, 1, 1}).ok());
  EXPECT_TRUE(bench.left.empty());
  ASSERT_TRUE(bench.push(1, 1, 1, {1, 1, 1}).ok());
  EXPECT_EQ(bench.trace(), (std::vector<std::string>{"0<-notify 1@1", "1<-notify 1@1"}));
  bench.deliver();
  ASSERT_TRUE(bench.pull(1, 1, 1, 1).ok());
  EXPECT_EQ(bench.trace(), (std::vector<std::string>{"1<-1@1"}));
}

TEST(Server, AnswersAPullOfSeveralUnitsOnceWithAllOfThem) {
  Bench bench({.workers = 2, .back = scheduling::Return::kPullInBatches, .layers = {{1, 2}, {3}}});
  bench.start();
  ASSERT_TRUE(bench.pull(0, 0, 2, 1).ok());
  EXPECT_FALSE(bench.pull(0, 1, 2, 1).ok());  // asked for already
  EXPECT_FALSE(bench.pull(1, 2, 1, 1).ok());
  EXPECT_FALSE(bench.pull(1, 0, 3, 1).ok());
  for (std::int32_t worker = 0; worker < 2; ++worker) {
    ASSERT_TRUE(bench.push(worker, 2, 1, {-3, -4, -5}).ok());
    ASSERT_TRUE(bench.push(worker, 0, 1, {-6}).ok());
  }
  EXPECT_TRUE(bench.trace().empty());
  ASSERT_TRUE(bench.push(0, 1, 1, {-1, -2}).ok());
  ASSERT_TRUE(bench.push(1, 1, 1, {-1, -2}).ok());
  // The order in the message is that of the units.
  EXPECT_EQ(bench.trace(), (std::vector<std::string>{"complete@1", "0<-0..2@1"}));
  const auto payload = bench.left.back().sent.payload;
  ASSERT_EQ(payload.size(), 24U);
  std::vector<float> values(6);
  std::memcpy(values.data(), payload.data(), payload.size());
  EXPECT_EQ(values, (std::vector<float>{6, 1, 2, 3, 4, 5}));
  bench.deliver();
  ASSERT_TRUE(bench.pull(1, 0, 1, 1).ok());  // everything is there already
  ASSERT_TRUE(bench.pull(1, 2, 2, 1).ok());
  EXPECT_EQ(bench.trace(), (std::vector<std::string>{"1<-0..1@1", "1<-2@1"}));
}

TEST(Server, StepsOnlyTheTensorsOfAMergedUnitThatSomebodyUsed) {
  job::PlanOptions options;
  options.workers = 2;
  options.schedule.cut.merge = 100;
  options.update.learning_rate.base = 1;
  const auto plan = *job::Plan::make(job::testing::table_of({{1, 2}, {1}}), options);
  ASSERT_EQ(plan->units().units.size(), 1U);
  const auto server = std::move(Server::make(plan, Rank{0})).value();
  Server& core = *server;
  std::vector<Leaving> left;
  std::ranges::fill(*core.on_begin(Rank{0}, wire::Initial{}, 16), std::byte{0});
  ASSERT_TRUE(core.on(Rank{0}, wire::Initial{}, TimePoint{}, left).ok());
  // Nobody uses tensor 1; worker 1 does not use tensor 2 either, whatever its gradient holds.
  for (std::int32_t worker = 0; worker < 2; ++worker) {
    const wire::Push push{.unused_parts = worker == 0 ? 0b010U : 0b110U, .iteration = 1};
    const std::vector<float> gradient(4, -2.0F);
    std::ranges::copy(std::as_bytes(std::span(gradient)), core.on_begin(Rank{worker}, push, 16)->begin());
    ASSERT_TRUE(core.on(Rank{worker}, push, TimePoint{}, left).ok());
  }
  EXPECT_EQ(core.export_part(0).value[0], 2);
  EXPECT_EQ(core.export_part(1).value[0], 0);
  EXPECT_EQ(core.export_part(2).value[0], 1);
  EXPECT_EQ(core.export_part(0).steps, 1);
  EXPECT_EQ(core.export_part(1).steps, 0);
  EXPECT_EQ(core.export_part(1).version, 1);
}

}  // namespace
}  // namespace paceline::paramserver::testing

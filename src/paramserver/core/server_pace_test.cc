// Servers whose workers do not wait for each other.
#include <algorithm>

#include "paramserver/core/server_testing.h"

namespace paceline::paramserver::testing {
namespace {

using ::testing::HasSubstr;

Setting uneven(sync::SyncOptions sync, scheduling::Return back = scheduling::Return::kBroadcast) {
  Setting setting;
  setting.workers = 2;
  setting.layers = {{2}};
  setting.sync = sync;
  setting.back = back;
  return setting;
}

TEST(Server, HandsOutEachMiniBatchOnceAndTheNextWithTheFirstPush) {
  Bench bench(uneven({.kind = sync::SyncKind::kAsp}));
  ASSERT_TRUE(bench.initial(0).ok());
  const auto handed_out = [&] {
    std::vector<std::string> lines;
    for (const Leaving& one : bench.left) {
      if (const auto* mini_batch = std::get_if<wire::MiniBatch>(&one.message))
        lines.push_back(fmt::format("{}: {} for {}", one.to.value, mini_batch->number, mini_batch->count));
    }
    bench.deliver();
    return lines;
  };
  EXPECT_EQ(handed_out(), (Lines{"0: 1 for 1", "1: 2 for 1"}));
  ASSERT_TRUE(bench.push(1, 0, 1, {1, 1}).ok());
  EXPECT_EQ(handed_out(), (Lines{"1: 3 for 2"}));
  ASSERT_TRUE(bench.push(1, 0, 2, {1, 1}).ok());
  EXPECT_EQ(handed_out(), (Lines{"1: 4 for 3"}));
  ASSERT_TRUE(bench.push(0, 0, 1, {1, 1}).ok());
  EXPECT_EQ(handed_out(), (Lines{"0: 5 for 2"}));
}

TEST(Server, AllWorkersGetTheSameFinalValuesWhenTheLastOneIsDone) {
  Bench bench(uneven({.kind = sync::SyncKind::kAsp}));
  bench.start();
  ASSERT_TRUE(bench.push(1, 0, 1, {1, 1}).ok());
  bench.deliver();
  ASSERT_TRUE(bench.on(1, wire::Done{1}).ok());
  EXPECT_EQ(bench.trace(), (Lines{}));
  EXPECT_FALSE(bench.push(1, 0, 2, {1, 1}).ok());
  for (const Iteration iteration : {1, 2}) ASSERT_TRUE(bench.push(0, 0, iteration, {1, 1}).ok());
  bench.deliver();
  ASSERT_TRUE(bench.on(0, wire::Done{2}).ok());
  EXPECT_EQ(bench.trace(), (Lines{"0<-0@3", "1<-0@2"}));
  EXPECT_EQ(bench.value(0), (std::vector<float>{-3, -3}));
}

TEST(Server, TheOthersGetTheFinalValuesAlsoWhenTheLastOneIsLost) {
  Bench bench(uneven({.kind = sync::SyncKind::kSsp, .staleness = 0}));
  bench.start();
  ASSERT_TRUE(bench.push(1, 0, 1, {1, 1}).ok());
  ASSERT_TRUE(bench.push(0, 0, 1, {1, 1}).ok());
  EXPECT_EQ(bench.trace(), (Lines{"0<-0@1", "1<-0@1"}));
  bench.deliver();
  ASSERT_TRUE(bench.on(1, wire::Done{1}).ok());
  ASSERT_TRUE(bench.leave(0).ok());
  EXPECT_EQ(bench.trace(), (Lines{"1<-0@2"}));
  EXPECT_TRUE(bench.leave(1).ok()) << "who is done may leave";
}

TEST(Server, RefusesAnEndThatDoesNotFit) {
  Bench bench(uneven({.kind = sync::SyncKind::kAsp}));
  bench.start();
  const auto done = [&](std::int32_t worker, Iteration last) { return bench.on(worker, wire::Done{last}).message(); };
  EXPECT_THAT(done(0, 1), HasSubstr("worker 0 says that iteration 1 was its last one; it has pushed"));
  EXPECT_THAT(done(7, 0), HasSubstr("does not take part"));
  EXPECT_EQ(done(0, 0), "");
  EXPECT_THAT(done(0, 0), HasSubstr("does not take part"));
  Bench even(uneven({}));
  even.start();
  EXPECT_THAT(even.on(0, wire::Done{0}).message(), HasSubstr("all workers end together"));
}

// Worker 1 asks for the values of a barrier only when worker 0 has pushed again.
TEST(Server, AtABarrierAWorkerGetsItsValuesHoweverLateItAsks) {
  Bench bench(uneven({.kind = sync::SyncKind::kElasticBsp, .history = 1}, scheduling::Return::kPullByLayer));
  bench.start();
  const auto pull = [&](std::int32_t worker, Iteration label) { return bench.pull(worker, 0, 0, label).message(); };
  for (const std::int32_t worker : {0, 1}) ASSERT_TRUE(bench.push(worker, 0, 1, {2, 2}).ok());
  ASSERT_EQ(pull(0, 1), "");
  bench.deliver();
  ASSERT_TRUE(bench.push(0, 0, 2, {1, 1}).ok());
  EXPECT_EQ(bench.value(0), (std::vector<float>{-3, -3}));
  ASSERT_EQ(pull(1, 1), "");
  ASSERT_EQ(bench.trace(), (Lines{"1<-0@1"}));
  const auto value =
      std::ranges::find_if(bench.left, [](const Leaving& one) { return std::holds_alternative<wire::Value>(one.message); });
  EXPECT_EQ(reinterpret_cast<const float*>(value->sent.payload.data())[0], -2.0F);
  bench.deliver();
}

}  // namespace
}  // namespace paceline::paramserver::testing

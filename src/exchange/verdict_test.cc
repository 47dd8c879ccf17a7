#include "exchange/verdict.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>

#include "paramserver/core/server_testing.h"

namespace paceline::exchange::testing {
namespace {

using ::testing::HasSubstr;

// Three tensors, each a unit of its own; so many servers.
std::shared_ptr<const job::Plan> plan_of(std::int32_t servers) {
  job::PlanOptions options;
  options.servers = servers;
  options.schedule.cut = scheduling::whole_tensors();
  options.update.optimizer.kind = tensor::OptimizerKind::kMean;
  options.update.verdict = true;
  return *job::Plan::make(job::testing::table_of({{3}, {3}, {3}}), options);
}

VerdictPart part_with(float value) {
  VerdictPart part(3);
  EXPECT_EQ(part.add(std::span(&value, 1)), std::isfinite(value));
  return part;
}

TEST(VerdictPart, IsTheSameAfterItsTravel) {
  VerdictPart part(70);
  const float three = 3;
  EXPECT_TRUE(part.add(std::span(&three, 1)));
  part.add_unused(3);
  part.add_unused(69);
  std::vector<std::byte> sent(part.bytes());
  EXPECT_EQ(sent.size(), 88U + 8 + 16);
  Verdict before, after;
  for (const bool broken : {false, true}) {
    if (broken) part.add_non_finite({.rank = Rank{5}, .tensor = 66});
    part.write(sent);
    VerdictPart read(70);
    read.add_unused(1);
    read.read(sent);
    part.tell(before);
    read.tell(after);
    EXPECT_EQ(after, before);
    EXPECT_EQ(after.square_sum, 9);
    EXPECT_EQ(after.non_finite.has_value(), broken);
    EXPECT_TRUE(after.unused_by_all(69));
    EXPECT_FALSE(after.unused_by_all(1));
  }
}

TEST(VerdictPart, NamesTheFirstTensorAndOfItTheLowestRankThatThereIs) {
  VerdictPart part(9);
  Verdict verdict;
  part.add_non_finite({.rank = Verdict::kNobody, .tensor = 4});
  part.add_non_finite({.rank = Rank{7}, .tensor = 4});
  part.add_non_finite({.rank = Rank{8}, .tensor = 4});
  part.add_non_finite({.rank = Rank{0}, .tensor = 5});
  part.tell(verdict);
  EXPECT_EQ(verdict.non_finite, (Verdict::NonFinite{.rank = Rank{7}, .tensor = 4}));
}

TEST(VerdictLedger, IsCompleteWhenEveryServerHasToldAndForgetsWhatNobodyCanAskFor) {
  const auto plan = plan_of(2);
  VerdictLedger ledger(*plan, plan->servers_with_units());
  EXPECT_EQ(ledger.missing(1), Rank{0});
  ASSERT_TRUE(ledger.on_part(Rank{0}, 1, part_with(3), 1).ok());
  EXPECT_EQ(ledger.of(1), nullptr);
  EXPECT_EQ(ledger.missing(1), Rank{1});
  // A server may be further on than another one.
  ASSERT_TRUE(ledger.on_part(Rank{0}, 2, part_with(1), 2).ok());
  ASSERT_TRUE(ledger.on_part(Rank{0}, 3, part_with(1), 3).ok());
  ASSERT_TRUE(ledger.on_part(Rank{1}, 1, part_with(4), 3).ok());
  EXPECT_EQ(ledger.of(1)->square_sum, 25);
  ASSERT_TRUE(ledger.on_part(Rank{1}, 2, part_with(1), 3).ok());
  EXPECT_EQ(ledger.of(2)->square_sum, 2);
  ASSERT_TRUE(ledger.on_part(Rank{1}, 3, part_with(2), 4).ok());
  ASSERT_TRUE(ledger.on_part(Rank{0}, 4, part_with(2), 4).ok());
  EXPECT_EQ(ledger.of(1), nullptr) << "its place serves another iteration";
  EXPECT_EQ(ledger.of(3)->square_sum, 5) << "which may still be asked for";
}

TEST(VerdictLedger, RefusesWhatNobodyAwaits) {
  const auto plan = plan_of(2);
  VerdictLedger ledger(*plan, {Rank{1}});
  const auto refused = [&](Rank server, Iteration iteration, Iteration current) {
    return ledger.on_part(server, iteration, part_with(1), current).message();
  };
  EXPECT_THAT(refused(Rank{0}, 1, 1), HasSubstr("server 0 told its verdict of iteration 1 in iteration 1"));
  EXPECT_THAT(refused(Rank{1}, 2, 2), HasSubstr("nobody awaits it"));
  EXPECT_THAT(refused(Rank{1}, 1, 0), HasSubstr("nobody awaits it"));
  ASSERT_TRUE(ledger.on_part(Rank{1}, 1, part_with(1), 1).ok());
  EXPECT_THAT(refused(Rank{1}, 1, 1), HasSubstr("nobody awaits it"));
}

TEST(Server, SendsMeansAtOnceAndItsVerdictWithTheLastOne) {
  paramserver::testing::Setting setting;
  setting.workers = 2;
  setting.update.optimizer.kind = tensor::OptimizerKind::kMean;
  setting.update.non_finite = job::NonFinitePolicy::kApply;
  setting.update.verdict = true;
  paramserver::testing::Bench bench(setting);
  bench.start();
  ASSERT_TRUE(bench.push(0, 1, 1, {2, 4, 6}).ok());
  ASSERT_TRUE(bench.push(1, 1, 1, {4, 4, 0}).ok());
  EXPECT_EQ(bench.value(1), (std::vector<float>{3, 4, 3}));
  EXPECT_EQ(bench.trace(), (paramserver::testing::Lines{"0<-1@1", "1<-1@1"}));
  bench.deliver();
  ASSERT_TRUE(bench.on(0, wire::Push{0, 1, 1}).ok());
  ASSERT_TRUE(bench.on(1, wire::Push{0, 1, 1}).ok());
  EXPECT_EQ(bench.trace(), (paramserver::testing::Lines{"complete@1", "0<-verdict@1", "1<-verdict@1", "0<-0@1", "1<-0@1"}));
  const auto told = [&] {
    VerdictPart part(2);
    part.read(bench.left[0].sent.payload);
    Verdict verdict;
    part.tell(verdict);
    return verdict;
  };
  EXPECT_EQ(told().square_sum, 9 + 16 + 9);
  EXPECT_EQ(told().non_finite, std::nullopt);
  EXPECT_TRUE(told().unused_by_all(0));
  EXPECT_FALSE(told().unused_by_all(1));
  EXPECT_EQ(bench.value(0), (std::vector<float>{0, 0})) << "what nobody used is left alone";
  const std::vector<paramserver::Leaving> on_the_way = bench.left;
  bench.forget();

  // The next iteration is judged by itself, while the verdict before is still on its way.
  const float nan = std::numeric_limits<float>::quiet_NaN(), most = std::numeric_limits<float>::max();
  ASSERT_TRUE(bench.push(0, 1, 2, {0, most, 0}).ok());
  ASSERT_TRUE(bench.push(1, 1, 2, {0, most, 0}).ok());
  bench.deliver();
  ASSERT_TRUE(bench.push(0, 0, 2, {1, 1}).ok());
  ASSERT_TRUE(bench.push(1, 0, 2, {1, nan}).ok());
  VerdictPart earlier(2);
  earlier.read(on_the_way[0].sent.payload);
  Verdict verdict;
  earlier.tell(verdict);
  EXPECT_EQ(verdict.square_sum, 34);
  EXPECT_TRUE(std::isnan(told().square_sum));
  EXPECT_EQ(told().non_finite, (Verdict::NonFinite{.rank = Rank{1}, .tensor = 0}));
  EXPECT_EQ(told().unused, (std::vector<std::uint64_t>{0}));
}

TEST(Plan, RefusesMeansThatWouldBeHeldOrBelongToNoIteration) {
  const auto refusal = [](auto change) {
    job::PlanOptions options;
    options.update.optimizer.kind = tensor::OptimizerKind::kMean;
    options.update.verdict = true;
    change(options);
    return job::Plan::make(job::testing::table_of({{2}}), options).status().message();
  };
  EXPECT_EQ(refusal([](job::PlanOptions&) {}), "");
  EXPECT_THAT(refusal([](job::PlanOptions& options) { options.sync.kind = sync::SyncKind::kAsp; }), HasSubstr("--sync bsp"));
  EXPECT_THAT(refusal([](job::PlanOptions& options) { options.update.clip_norm = 1; }), HasSubstr("without --clip-norm"));
  EXPECT_THAT(refusal([](job::PlanOptions& options) { options.update.non_finite = job::NonFinitePolicy::kSkip; }),
              HasSubstr("skip"));
  EXPECT_THAT(refusal([](job::PlanOptions& options) { options.update.optimizer.kind = {}; }), HasSubstr("for --optimizer mean"));
}

}  // namespace
}  // namespace paceline::exchange::testing

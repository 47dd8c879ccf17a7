#include "exchange/told_rates.h"

#include <algorithm>
#include <limits>

#include "paramserver/core/server_testing.h"

namespace paceline::exchange::testing {
namespace {

using ::testing::HasSubstr;
using Rates = std::vector<GroupRates>;

paramserver::testing::Setting told(sync::SyncKind sync = sync::SyncKind::kBsp) {
  paramserver::testing::Setting setting{.workers = 2, .update = {.told_rates = true}, .layers = {{2}, {1}}};
  setting.sync.kind = sync;
  return setting;
}

Status tell(paramserver::testing::Bench& bench, std::int32_t worker, Iteration iteration, const Rates& rates) {
  return bench.receive(worker, wire::Rates{iteration}, std::as_bytes(std::span(rates)));
}

TEST(ToldRates, AnIterationIsAppliedWithTheRatesThatAllWorkersTold) {
  paramserver::testing::Bench bench(told());
  bench.start();
  for (const auto& [iteration, rate] : {std::pair{1, 1.0}, std::pair{2, 0.5}, std::pair{3, -2.0}}) {
    for (const int worker : {0, 1}) ASSERT_TRUE(tell(bench, worker, iteration, {{rate, 0}}).ok());
    for (const int worker : {1, 0}) {
      for (const std::uint32_t unit : {0U, 1U})
        ASSERT_TRUE(bench.push(worker, unit, iteration, std::vector<float>(2 - unit, 1)).ok()) << iteration;
    }
    bench.deliver();
  }
  EXPECT_EQ(bench.value(0), (std::vector<float>{0.5F, 0.5F}));
  EXPECT_EQ(bench.value(1), (std::vector<float>{0.5F}));
}

TEST(ToldRates, WeightDecayIsToldToo) {
  paramserver::testing::Bench bench(told());
  for (const std::uint32_t unit : {0U, 1U}) ASSERT_TRUE(bench.initial(unit, 4).ok());
  bench.deliver();
  for (const int worker : {0, 1}) ASSERT_TRUE(tell(bench, worker, 1, {{0.5, 0.25}}).ok());
  for (const int worker : {0, 1}) ASSERT_TRUE(bench.push(worker, 0, 1, {1, 0}).ok());
  EXPECT_EQ(bench.value(0), (std::vector<float>{3, 3.5F}));
}

TEST(ToldRates, EachGroupHasItsOwn) {
  job::PlanOptions options;
  options.schedule.cut = scheduling::whole_tensors();
  options.update.told_rates = true;
  wire::TensorTable table = job::testing::table_of({{2}, {1}});
  table.tensors[1].group = 1;
  const auto plan = *job::Plan::make(table, options);
  EXPECT_EQ(plan->groups(), 2U);
  EXPECT_TRUE(check_rates(*plan, Rates{{1, 0}, {2, 0}}).ok());
  EXPECT_THAT(check_rates(*plan, Rates{{1, 0}}).message(), HasSubstr("rates of 1 parameter groups; the job has 2"));
  table.tensors[1].group = 7;
  EXPECT_THAT(job::Plan::make(table, options).status().message(), HasSubstr("is in parameter group 7; legal are 0 to 1"));
}

TEST(ToldRates, WhereWorkersAreApartEachGradientIsAppliedWithItsWorkersRates) {
  paramserver::testing::Bench bench(told(sync::SyncKind::kAsp));
  bench.start();
  ASSERT_TRUE(tell(bench, 0, 1, {{1, 0}}).ok());
  ASSERT_TRUE(tell(bench, 1, 1, {{3, 0}}).ok());
  ASSERT_TRUE(bench.push(1, 0, 1, {1, 2}).ok());
  EXPECT_EQ(bench.value(0), (std::vector<float>{-3, -6}));
  ASSERT_TRUE(bench.push(0, 0, 1, {1, 0}).ok());
  EXPECT_EQ(bench.value(0), (std::vector<float>{-4, -6}));
}

TEST(ToldRates, HeldUpdatesAreMadeWithTheRatesOfTheirIteration) {
  paramserver::testing::Setting setting = told();
  setting.update.clip_norm = 1e6;
  paramserver::testing::Bench bench(setting);
  bench.start();
  for (const int worker : {0, 1}) ASSERT_TRUE(tell(bench, worker, 1, {{2, 0}}).ok());
  for (const std::uint32_t unit : {0U, 1U}) {
    for (const int worker : {0, 1}) ASSERT_TRUE(bench.push(worker, unit, 1, std::vector<float>(2 - unit, 1)).ok());
  }
  EXPECT_EQ(bench.value(0), (std::vector<float>{-2, -2}));
}

TEST(ToldRates, RefusesWhatIsIllegalMissingOrOtherThanAnotherWorkers) {
  paramserver::testing::Bench bench(told());
  bench.start();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(tell(bench, 0, 1, {{kNan, 0}}).message(),
              HasSubstr("worker 0, iteration 1: parameter group 0 has the learning rate nan"));
  EXPECT_THAT(tell(bench, 0, 1, {{1, -1}}).message(), HasSubstr("the weight decay -1"));
  EXPECT_THAT(tell(bench, 0, 1, {{1, 0}, {1, 0}}).message(), HasSubstr("in 32 bytes; this job awaits 16"));
  EXPECT_THAT(tell(bench, 2, 1, {{1, 0}}).message(), HasSubstr("worker 2 told its rates"));
  EXPECT_THAT(bench.push(1, 0, 1, {1, 1}).message(),
              HasSubstr("worker 1 pushed a gradient of iteration 1 and had not told its rates"));
  ASSERT_TRUE(tell(bench, 0, 1, {{1, 0}}).ok());
  EXPECT_THAT(
      tell(bench, 1, 1, {{2, 0}}).message(),
      HasSubstr(
          "worker 1 has the learning rate 2 and the weight decay 0 for parameter group 0 in iteration 1, worker 0 has 1 and 0"));
  paramserver::testing::Bench even(paramserver::testing::Setting{});
  EXPECT_THAT(tell(even, 0, 1, {{1, 0}}).message(), HasSubstr("this job awaits 0"));
}

}  // namespace
}  // namespace paceline::exchange::testing

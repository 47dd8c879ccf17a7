// Rates that a worker tells with every iteration.
#include <gmock/gmock.h>

#include "library/one_worker_testing.h"

namespace paceline::library::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(TellRates, RatesAreToldOnceAndBeforeTheFirstGradientOfAnIteration) {
  OneWorker one("told-rates", "1");
  one.join();
  Error error;
  constexpr float kOne = 1;
  const double rates[] = {2, 2}, decays[] = {0, 0};
  EXPECT_EQ(PACELINE_BAD_REQUEST, paceline_gradient_ready(one.worker, 1, &kOne, error));
  EXPECT_THAT(said(error), HasSubstr("before worker 0 told at which rates it is applied"));
  EXPECT_EQ(PACELINE_BAD_REQUEST, paceline_tell_rates(one.worker, 1, rates, decays, 2, error));
  EXPECT_THAT(said(error), HasSubstr("rates of 2 parameter groups; the job has 1"));
  EXPECT_EQ(PACELINE_BAD_REQUEST, paceline_tell_rates(one.worker, 2, rates, decays, 1, error));
  EXPECT_REFUSED(paceline_tell_rates(one.worker, 1, nullptr, decays, 1, error), "null");
  ASSERT_DONE(paceline_tell_rates(one.worker, 1, rates, decays, 1, error));
  EXPECT_EQ(PACELINE_BAD_REQUEST, paceline_tell_rates(one.worker, 1, rates, decays, 1, error));
  EXPECT_THAT(said(error), HasSubstr("iteration 1 again"));
  ASSERT_DONE(paceline_gradient_ready(one.worker, 1, &kOne, error)) << "the refused call had done nothing";
  EXPECT_EQ(PACELINE_BAD_REQUEST, paceline_gradient_ready(one.worker, 1, &kOne, error));
  EXPECT_THAT(said(error), HasSubstr("came twice"));
}

TEST(TellRates, AnIterationIsAppliedWithTheRatesThatWereTold) {
  OneWorker one("told-rates", "1");
  one.join();
  Error error;
  for (const double rate : {2.0, 0.5}) {
    const double decay = 0;
    const std::int64_t iteration = rate == 2.0 ? 1 : 2;
    ASSERT_DONE(paceline_tell_rates(one.worker, iteration, &rate, &decay, 1, error));
    one.train(iteration, {1, 2, 3});
  }
  ASSERT_DONE(paceline_wait_all(one.worker, 2, INFINITY, error));
  EXPECT_THAT(one.values(), ElementsAre(7.5F, 15.0F, 22.5F));
}

TEST(TellRates, AGradientThatWasRefusedLeavesNothingBehindThatIsSentLater) {
  OneWorker one("told-rates", "1");
  Error error;
  ASSERT_DONE(paceline_job_set(one.job, "wire", "dropping:0.3", error));  // one of the three
  one.join();
  const double rate = 1, decay = 0;
  constexpr float kFirst[] = {4, 2, 1}, kNone[] = {0, 0, 0};
  EXPECT_EQ(PACELINE_BAD_REQUEST, paceline_gradient_ready(one.worker, 0, kFirst, error));
  for (const std::int64_t iteration : {1, 2}) {
    ASSERT_DONE(paceline_tell_rates(one.worker, iteration, &rate, &decay, 1, error));
    one.train(iteration, iteration == 1 ? kFirst : kNone);
  }
  ASSERT_DONE(paceline_wait_all(one.worker, 2, INFINITY, error));
  EXPECT_THAT(one.values(), ElementsAre(6.0F, 18.0F, 30.0F));
}

}  // namespace
}  // namespace paceline::library::testing

#include "cost/cost_fit.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace paceline::cost {
namespace {

std::vector<CostSample> operations(const LinkCost& link, std::mt19937& random, double noise) {
  std::uniform_real_distribution<double> around(1 - noise, 1 + noise);
  std::vector<CostSample> samples;
  for (const double bytes : {65'536.0, 1e6, 4e6}) {
    for (const double block : {8'192.0, 65'536.0}) {
      for (const double reduces : {0.0, 1.0}) {
        CostSample sample{.messages = 3 + bytes / block, .sent = 3 * block + bytes};
        sample.reduced = reduces * sample.sent;
        sample.seconds = predicted(link, sample) * around(random);
        samples.push_back(sample);
      }
    }
  }
  return samples;
}

TEST(CostFit, FindsTheConstantsThatTheTimesWereMadeFrom) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    const auto power = [&](double low, double high) {
      return std::pow(10, std::uniform_real_distribution<double>(low, high)(random));
    };
    const LinkCost link{power(-6, -3), power(-10, -7), power(-10, -8)};
    const auto fit = fit_cost(operations(link, random, 0));
    ASSERT_TRUE(fit.ok()) << fit.status().message();
    EXPECT_NEAR(fit->cost.alpha / link.alpha, 1, 1e-5) << "seed " << seed;
    EXPECT_NEAR(fit->cost.beta / link.beta, 1, 1e-5) << "seed " << seed;
    EXPECT_NEAR(fit->cost.gamma / link.gamma, 1, 1e-4) << "seed " << seed;
    EXPECT_LT(fit->residual, 1e-6);
  }
}

TEST(CostFit, NoConstantIsNegativeAndTheResidualSaysHowFarTheTimesAreOff) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    const LinkCost link{1e-7, 8e-9, 0};
    const auto fit = fit_cost(operations(link, random, 0.1));
    ASSERT_TRUE(fit.ok()) << fit.status().message();
    EXPECT_GE(fit->cost.alpha, 0) << "seed " << seed;
    EXPECT_GE(fit->cost.gamma, 0) << "seed " << seed;
    EXPECT_NEAR(fit->cost.beta / link.beta, 1, 0.2) << "seed " << seed;
    EXPECT_GT(fit->residual, 0.01);
    EXPECT_LT(fit->residual, 0.12);
  }
}

TEST(CostFit, WithoutReductionsThereIsNoGamma) {
  const auto fit = fit_cost(std::vector<CostSample>{{1, 100, 0, 2.0}, {10, 100, 0, 11.0}});
  ASSERT_TRUE(fit.ok()) << fit.status().message();
  EXPECT_NEAR(fit->cost.alpha, 1, 1e-9);
  EXPECT_NEAR(fit->cost.beta, 0.01, 1e-9);
  EXPECT_EQ(fit->cost.gamma, 0);
}

TEST(CostFit, TimesThatSayNothingAreRefused) {
  const std::vector<std::vector<CostSample>> cases = {
      {}, {{1, 1, 0, 1}}, {{1, 1, 0, 0}, {1, 2, 0, 1}}, {{-1, 1, 0, 1}, {1, 2, 0, 1}}, {{1, 0, 0, 1}, {2, 0, 0, 2}}};
  for (const auto& samples : cases) EXPECT_EQ(fit_cost(samples).status().kind(), ErrorKind::kBadRequest) << samples.size();
}

}  // namespace
}  // namespace paceline::cost

#include "collectives/exec/expectation.h"

#include <gtest/gtest.h>

namespace paceline::collectives {
namespace {

constexpr cost::LinkCost kLink{12e-6, 8.4e-9, 0.3e-9};
constexpr double kLatency = 100e-6;

double seconds(Operation operation, std::int64_t size, std::int64_t block, int ranks, double fill) {
  const CollectiveProblem problem{
      .operation = operation, .ranks = ranks, .size = Bytes{size}, .link = kLink, .latency = kLatency, .fill = fill};
  return cost_of(problem, Algorithm::kLinearPipeline, Bytes{block}).value().seconds;
}

std::vector<CalibrationSample> measured(int ranks, double fill) {
  std::vector<CalibrationSample> samples;
  const auto add = [&](Operation operation, std::int64_t size, std::int64_t block) {
    samples.push_back({operation, Bytes{size}, Bytes{block}, seconds(operation, size, block, ranks, fill)});
  };
  add(Operation::kBroadcast, 1 << 20, 32'768);
  add(Operation::kBroadcast, 1 << 23, 32'768);
  add(Operation::kBroadcast, 1 << 23, 131'072);
  add(Operation::kReduce, 1 << 23, 65'536);
  add(Operation::kBroadcast, 1 << 24, 65'536);
  return samples;
}

TEST(Expectation, TellsThePriceOfALinkFromWhatFillingAPipelineAdds) {
  for (const int ranks : {2, 4, 8, 17}) {
    for (const double fill : {0.0, 0.3, 1.0}) {
      const auto found = expectation(measured(ranks, fill), ranks, kLatency);
      ASSERT_TRUE(found.has_value());
      EXPECT_NEAR(found->fill, fill, 1e-9) << ranks << " ranks";
      EXPECT_NEAR(found->link.alpha, kLink.alpha, 1e-9);
      EXPECT_NEAR(found->link.beta, kLink.beta, 1e-14);
      EXPECT_NEAR(found->link.gamma, kLink.gamma, 1e-14);
    }
  }
}

TEST(Expectation, ATimeThatIsMostlyLatencyKeepsAQuarter) {
  const CalibrationSample sample{Operation::kBroadcast, Bytes{1000}, Bytes{100}, 1e-3};
  EXPECT_DOUBLE_EQ(in_model(sample, 4, {1, 0.5e-3}).seconds, 0.25e-3);
  EXPECT_DOUBLE_EQ(in_model(sample, 4, {0, 0.5e-3}).seconds, 1e-3);
}

TEST(Expectation, NothingIsSaidWhereThereIsNoRate) {
  const std::vector<CalibrationSample> one = {{Operation::kBroadcast, Bytes{1000}, Bytes{100}, 1e-3}};
  EXPECT_FALSE(expectation(one, 4, 0).has_value());
}

TEST(Expectation, AShareOfFillingShortensPipelinesOnly) {
  EXPECT_LT(seconds(Operation::kBroadcast, 1 << 20, 32'768, 8, 0), seconds(Operation::kBroadcast, 1 << 20, 32'768, 8, 1));
  CollectiveProblem problem{.operation = Operation::kAllreduce, .ranks = 8, .size = Bytes{1 << 20}, .link = kLink};
  const double all = cost_of(problem, Algorithm::kRing).value().seconds;
  problem.fill = 0;
  EXPECT_DOUBLE_EQ(cost_of(problem, Algorithm::kRing).value().seconds, all);
  // Filled for nothing, the message had best leave in one piece.
  EXPECT_EQ(best_block(problem), problem.size);
}

}  // namespace
}  // namespace paceline::collectives

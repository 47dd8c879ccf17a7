#include "scheduling/batch_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::scheduling {
namespace {

using ::testing::HasSubstr;

TEST(BatchPlan, TakesTheFinestBatchesThatAreAsGoodAsTheFewest) {
  const std::vector<double> transfer{0.01, 0.03, 0.4, 0.02, 0.05}, compute(5, 0.002);
  EXPECT_EQ(batches_of({1e-6, transfer, compute}, BatchingAlgorithm::kExact), (Bounds{1, 2, 3, 4, 5}));
  EXPECT_EQ(batches_of({1, transfer, compute}, BatchingAlgorithm::kExact), Bounds{5}) << "each costs a start-up";
  for (const double start_up : {1e-6, 1e-4, 1e-3, 3e-3, 1e-2, 1e-1}) {
    const BatchingProblem problem{start_up, transfer, compute};
    const Bounds fewest = exact_batching(problem), finest = batches_of(problem, BatchingAlgorithm::kExact);
    EXPECT_TRUE(validate(finest, problem).ok());
    EXPECT_GE(finest.size(), fewest.size());
    EXPECT_LE(makespan(problem, finest), makespan(problem, fewest) * (1 + kAsGoodBatches)) << start_up;
  }
}

TEST(BatchPlan, UsesTheAlgorithmThatWasAskedFor) {
  for (const char* name : {"exact", "forward-greedy", "backward-greedy", "ibatch"}) {
    const auto algorithm = parse_batching_algorithm(name);
    ASSERT_TRUE(algorithm.ok());
    EXPECT_STREQ(to_string(*algorithm), name);
    const BatchingProblem problem{0.001, {0.01, 0.03, 0.005, 0.02}, {0.012, 0.02, 0.01, 0.008}};
    EXPECT_TRUE(validate(batches_of(problem, *algorithm), problem).ok()) << name;
  }
  const BatchingProblem problem{0.001, {0.01, 0.03, 0.005, 0.02}, {0.012, 0.02, 0.01, 0.008}};
  EXPECT_EQ(batches_of(problem, BatchingAlgorithm::kForwardGreedy), forward_greedy(problem));
  EXPECT_THAT(parse_batching_algorithm("exakt").status().message(), HasSubstr("did you mean 'exact'"));
}

}  // namespace
}  // namespace paceline::scheduling

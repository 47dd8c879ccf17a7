#include "scheduling/live_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::scheduling {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kRate = 100'000'000;  // bytes/s
constexpr double kStartUp = 0.002;

// A worker with three layers, whose pulls run one after another on a link with kRate and kStartUp.
class Bench {
 public:
  explicit Bench(BatchingAlgorithm algorithm = BatchingAlgorithm::kExact, LiveProfile::Sides sides = LiveProfile::Sides::kPulls)
      : profile(sizes(), 1, algorithm, sides) {}
  static std::vector<Bytes> sizes() { return {Bytes{1'000'000}, Bytes{3'000'000}, Bytes{500'000}}; }

  void forward(const std::vector<double>& compute, double waiting = 0.01) {
    for (std::size_t layer = 0; layer < compute.size(); ++layer) {
      const TimePoint entered = now_;
      pass(waiting);
      profile.on_gate(Layer{static_cast<std::int32_t>(layer)}, entered, now_);
      pass(compute[layer]);
    }
    profile.on_forward_done(now_);
  }
  void backward(const std::vector<double>& compute) {
    profile.on_backward_begun(now_);
    for (std::size_t layer = compute.size(); layer-- > 0;) {
      pass(compute[layer]);
      profile.on_gradient(Layer{static_cast<std::int32_t>(layer)}, now_);
    }
    profile.on_backward_done(now_);
  }
  // The first waits for the servers' updates as well.
  void pull(const std::vector<Bytes>& batches, double updating = 0.5) {
    profile.on_asked();
    pass(updating);
    for (const Bytes batch : batches) {
      pass(kStartUp + static_cast<double>(batch.count) / static_cast<double>(kRate));
      profile.on_pulled(batch, now_);
    }
  }
  void pass(double s) { now_ += from_seconds(s); }

  LiveProfile profile;

 private:
  TimePoint now_{};
};

TEST(LiveProfile, FindsTheLayersTimesAndTheLinkWhateverWasWaitedFor) {
  Bench bench;
  std::optional<LiveProfile::Plan> plan;
  for (int pass = 0; pass < 3; ++pass) {
    EXPECT_FALSE(bench.profile.plan());  // too early
    bench.forward({0.01, 0.02, 0.03});
    bench.pull(Bench::sizes());
  }
  plan = bench.profile.plan();
  ASSERT_TRUE(plan);
  EXPECT_NEAR(plan->problem.start_up, kStartUp, 1e-5);
  EXPECT_NEAR(plan->problem.transfer[1], 0.03, 1e-4);
  EXPECT_NEAR(plan->problem.compute[0], 0.01, 1e-6);
  EXPECT_NEAR(plan->problem.compute[2], 0.03, 1e-6);
  EXPECT_LT(plan->link.residual, 0.01);
  EXPECT_EQ(plan->bounds, exact_batching(plan->problem));
  EXPECT_EQ(plan->makespan, makespan(plan->problem, plan->bounds));
}

TEST(LiveProfile, PlansAgainOnlyWhenSomethingHasMovedByMoreThanAFifth) {
  Bench bench;
  const auto train = [&](double factor) {
    for (std::size_t pass = 0; pass < LiveProfile::kHistory; ++pass) {
      bench.forward({0.01 * factor, 0.02 * factor, 0.03 * factor});
      bench.pull(Bench::sizes());
    }
    return bench.profile.plan();
  };
  ASSERT_TRUE(train(1));
  EXPECT_FALSE(train(1.15));
  EXPECT_FALSE(train(0.85));
  const auto again = train(1.3);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->number, 2);
  EXPECT_FALSE(train(1.3));
}

TEST(LiveProfile, PlansAgainWhenLayersChangePlacesThoughTheirSumStays) {
  Bench bench;
  const auto train = [&](const std::vector<double>& compute) {
    for (std::size_t pass = 0; pass < LiveProfile::kHistory; ++pass) {
      bench.forward(compute);
      bench.pull(Bench::sizes());
    }
    return bench.profile.plan();
  };
  ASSERT_TRUE(train({0.01, 0.02, 0.03}));
  EXPECT_FALSE(train({0.013, 0.017, 0.03}));       // 6 of 60 ms have moved
  const auto again = train({0.017, 0.013, 0.03});  // 14
  ASSERT_TRUE(again);
  EXPECT_EQ(again->number, 2);
  EXPECT_NEAR(again->problem.compute[0], 0.017, 1e-6);
}

TEST(LiveProfile, PlansPushesFromTheBackwardPassesAndThePullsLink) {
  Bench bench(BatchingAlgorithm::kExact, LiveProfile::Sides::kPullsAndPushes);
  for (int pass = 0; pass < 5; ++pass) {
    bench.forward({0.01, 0.02, 0.03});
    bench.backward({0.02, 0.001, 0.06});
    bench.pull(Bench::sizes());
  }
  const auto plan = bench.profile.plan();
  ASSERT_TRUE(plan && plan->push);
  EXPECT_NEAR(plan->push->problem.compute[0], 0.02, 1e-6);
  EXPECT_NEAR(plan->push->problem.compute[1], 0.001, 1e-6);
  EXPECT_NEAR(plan->push->problem.compute[2], 0.06, 1e-6);
  EXPECT_EQ(plan->push->problem.start_up, plan->problem.start_up);
  EXPECT_EQ(plan->push->problem.transfer, plan->problem.transfer);
  EXPECT_EQ(plan->push->bounds, exact_batching(plan->push->problem));
  EXPECT_EQ(plan->push->makespan, makespan(plan->push->problem, plan->push->bounds));
  EXPECT_NEAR(plan->problem.compute[2], 0.03, 1e-6) << "the forward pass ends where the backward pass begins";

  // The backward passes alone move.
  for (std::size_t pass = 0; pass < LiveProfile::kHistory; ++pass) {
    bench.forward({0.01, 0.02, 0.03});
    bench.backward({0.03, 0.011, 0.06});
    bench.pull(Bench::sizes());
  }
  const auto again = bench.profile.plan();
  ASSERT_TRUE(again && again->push);
  EXPECT_EQ(again->number, 2);
  EXPECT_FALSE(bench.profile.plan());
}

TEST(LiveProfile, PlansNoPushesThatNobodyAskedForOrThatNoBackwardPassWasSeenOf) {
  for (const auto sides : {LiveProfile::Sides::kPulls, LiveProfile::Sides::kPullsAndPushes}) {
    Bench bench(BatchingAlgorithm::kExact, sides);
    for (int pass = 0; pass < 5; ++pass) {
      bench.forward({0.01, 0.02, 0.03});
      if (sides == LiveProfile::Sides::kPulls) bench.backward({0.02, 0.001, 0.06});
      bench.pull(Bench::sizes());
    }
    const auto plan = bench.profile.plan();
    ASSERT_TRUE(plan);
    EXPECT_FALSE(plan->push);
  }
}

TEST(LiveProfile, OneSlowPassChangesNothing) {
  Bench bench;
  for (int pass = 0; pass < 5; ++pass) {
    bench.forward({0.01, 0.02, 0.03});
    bench.pull(Bench::sizes());
  }
  ASSERT_TRUE(bench.profile.plan());
  bench.forward({1, 1, 1});
  bench.pull(Bench::sizes());
  EXPECT_FALSE(bench.profile.plan());
}

TEST(LiveProfile, PlansNothingFromPullsOfOneSize) {
  Bench bench;
  for (int pass = 0; pass < 5; ++pass) {
    bench.forward({0.01, 0.02, 0.03});
    bench.pull({Bytes{1'000'000}, Bytes{1'000'000}});
  }
  EXPECT_FALSE(bench.profile.plan());
}

TEST(LiveProfile, UsesTheAlgorithmThatWasAskedFor) {
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

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduling/live_profile_testing.h"

namespace paceline::scheduling {
namespace {

using testing::ToldProfile;

constexpr std::int64_t kRate = 100'000'000;  // bytes/s
constexpr double kStartUp = 0.002;

// A worker with three layers, whose pulls run one after another on a link with kRate and kStartUp.
class Bench {
 public:
  explicit Bench(LiveProfile::Sides sides = LiveProfile::Sides::kPulls, double message_start_up = 0)
      : profile(sizes_, BatchingAlgorithm::kExact, sides, from_seconds(message_start_up)), message_start_up_(message_start_up) {
    profile.on_round_trip(from_seconds(kStartUp));
  }

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
  // As planned, or layer by layer. Of each batch every one of `servers` sends its part, all at once. Before, the servers may have
  // to finish their updates.
  void pull(std::uint32_t servers = 1, double updating = 0) {
    profile.on_iteration_done();
    pass(updating + kStartUp);
    const auto& plan = profile.current();
    std::size_t layer = 0;
    for (const int bound : plan ? plan->bounds : Bounds{1, 2, 3}) {
      pass(message_start_up_);
      Bytes batch;
      for (; layer < static_cast<std::size_t>(bound); ++layer) batch += sizes_[layer];
      for (std::uint32_t server = 0; server < servers; ++server) profile.on_pull_begun(server, now_);
      pass(static_cast<double>(batch.count) / static_cast<double>(kRate));
      for (std::uint32_t server = 0; server < servers; ++server) profile.on_pulled(server, Bytes{batch.count / servers}, now_);
    }
  }
  void pass(double s) { now_ += from_seconds(s); }

 private:
  const std::vector<Bytes> sizes_ = {Bytes{1'000'000}, Bytes{3'000'000}, Bytes{500'000}};

 public:
  ToldProfile profile;

 private:
  double message_start_up_;
  TimePoint now_{};
};

TEST(LiveProfile, FindsTheLayersTimesAndTheLinkWhateverWasWaitedFor) {
  Bench bench;
  std::optional<LiveProfile::Plan> plan;
  for (int pass = 0; pass < 3; ++pass) {
    EXPECT_FALSE(bench.profile.plan());  // too early
    bench.forward({0.01, 0.02, 0.03});
    bench.pull();
  }
  plan = bench.profile.plan();
  ASSERT_TRUE(plan);
  EXPECT_NEAR(plan->problem.start_up, kStartUp, 1e-5);
  EXPECT_NEAR(plan->problem.transfer[1], 0.03, 1e-4);
  EXPECT_NEAR(plan->problem.compute[0], 0.01, 1e-6);
  EXPECT_NEAR(plan->problem.compute[2], 0.03, 1e-6);
  EXPECT_LT(plan->link.residual, 0.01);
  EXPECT_EQ(plan->bounds, batches_of(plan->problem, BatchingAlgorithm::kExact));
  EXPECT_EQ(plan->makespan, makespan(plan->problem, plan->bounds));
}

TEST(LiveProfile, RepliesThatArriveTogetherShareTheLink) {
  Bench bench;
  for (int pass = 0; pass < 3; ++pass) {
    bench.forward({0.01, 0.02, 0.03});
    bench.pull(/*servers=*/4);
  }
  const auto plan = bench.profile.plan();
  ASSERT_TRUE(plan);
  EXPECT_NEAR(plan->problem.start_up, kStartUp, 1e-5);
  EXPECT_NEAR(plan->problem.transfer[1], 0.03, 1e-4) << "counted one by one, all but the first would have come in no time";
}

TEST(LiveProfile, AReplaysMessagesPayTheirStartUpOneAfterAnother) {
  Bench bench(LiveProfile::Sides::kPulls, 0.02);
  for (int pass = 0; pass < 3; ++pass) {
    bench.forward({0.01, 0.02, 0.03});
    bench.pull();
  }
  const auto plan = bench.profile.plan();
  ASSERT_TRUE(plan);
  EXPECT_NEAR(plan->problem.start_up, kStartUp + 0.02, 1e-9);
  EXPECT_NEAR(plan->link.bandwidth.value, kRate, 1);
}

TEST(LiveProfile, WaitingForUpdatesIsNoStartUp) {
  Bench bench;
  for (int pass = 0; pass < 3; ++pass) {
    bench.forward({0.01, 0.02, 0.03});
    bench.pull(/*servers=*/1, /*updating=*/0.5);
  }
  const auto plan = bench.profile.plan();
  ASSERT_TRUE(plan);
  EXPECT_NEAR(plan->problem.start_up, kStartUp, 1e-5);
}

TEST(LiveProfile, PlansAgainOnlyWhenSomethingHasMovedByMoreThanAFifth) {
  Bench bench;
  const auto train = [&](double factor) {
    for (std::size_t pass = 0; pass < LiveProfile::kHistory; ++pass) {
      bench.forward({0.01 * factor, 0.02 * factor, 0.03 * factor});
      bench.pull();
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
      bench.pull();
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
  Bench bench(LiveProfile::Sides::kPullsAndPushes);
  for (int pass = 0; pass < 5; ++pass) {
    bench.forward({0.01, 0.02, 0.03});
    bench.backward({0.02, 0.001, 0.06});
    bench.pull();
  }
  const auto plan = bench.profile.plan();
  ASSERT_TRUE(plan && plan->push);
  EXPECT_NEAR(plan->push->problem.compute[0], 0.02, 1e-6);
  EXPECT_NEAR(plan->push->problem.compute[1], 0.001, 1e-6);
  EXPECT_NEAR(plan->push->problem.compute[2], 0.06, 1e-6);
  EXPECT_EQ(plan->push->problem.start_up, plan->problem.start_up);
  EXPECT_EQ(plan->push->problem.transfer, plan->problem.transfer);
  EXPECT_EQ(plan->push->bounds, batches_of(plan->push->problem, BatchingAlgorithm::kExact));
  EXPECT_EQ(plan->push->makespan, makespan(plan->push->problem, plan->push->bounds));
  EXPECT_NEAR(plan->problem.compute[2], 0.03, 1e-6) << "the forward pass ends where the backward pass begins";

  // The backward passes alone move.
  for (std::size_t pass = 0; pass < LiveProfile::kHistory; ++pass) {
    bench.forward({0.01, 0.02, 0.03});
    bench.backward({0.03, 0.011, 0.06});
    bench.pull();
  }
  const auto again = bench.profile.plan();
  ASSERT_TRUE(again && again->push);
  EXPECT_EQ(again->number, 2);
  EXPECT_FALSE(bench.profile.plan());
}

TEST(LiveProfile, PlansNoPushesThatNobodyAskedForOrThatNoBackwardPassWasSeenOf) {
  for (const auto sides : {LiveProfile::Sides::kPulls, LiveProfile::Sides::kPullsAndPushes}) {
    Bench bench(sides);
    for (int pass = 0; pass < 5; ++pass) {
      bench.forward({0.01, 0.02, 0.03});
      if (sides == LiveProfile::Sides::kPulls) bench.backward({0.02, 0.001, 0.06});
      bench.pull();
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
    bench.pull();
  }
  ASSERT_TRUE(bench.profile.plan());
  bench.forward({1, 1, 1});
  bench.pull();
  EXPECT_FALSE(bench.profile.plan());
}

TEST(LiveProfile, BytesThatASocketHeldBeforeTheyWereSeenDoNotDeceive) {
  ToldProfile profile(std::vector<Bytes>(3, Bytes{1'000'000}), BatchingAlgorithm::kExact);
  profile.on_round_trip(from_seconds(kStartUp));
  TimePoint now{};
  for (int pass = 0; pass < 3; ++pass) {
    for (std::int32_t layer = 0; layer < 3; ++layer) profile.on_gate(Layer{layer}, now, now);
    profile.on_forward_done(now += from_seconds(0.01));
    profile.on_iteration_done();
    for (std::uint32_t reply = 0; reply < 100; ++reply) {  // each is seen when it is there
      profile.on_pull_begun(reply, now += from_seconds(30'000.0 / kRate));
      profile.on_pulled(reply, Bytes{30'000}, now);
    }
  }
  const auto plan = profile.plan();
  ASSERT_TRUE(plan);
  EXPECT_NEAR(plan->link.bandwidth.value, kRate, 0.03 * kRate);
}

TEST(LiveProfile, RepliesThatBeganUnderBackwardSayNothingOfTheLink) {
  ToldProfile profile(std::vector<Bytes>(2, Bytes{1'000'000}), BatchingAlgorithm::kExact);
  profile.on_round_trip(from_seconds(kStartUp));
  TimePoint now{};
  for (int pass = 0; pass < 3; ++pass) {
    for (std::int32_t layer = 0; layer < 2; ++layer) profile.on_gate(Layer{layer}, now, now);
    profile.on_forward_done(now += from_seconds(0.01));
    profile.on_pull_begun(1, now);
    now += from_seconds(0.5);
    profile.on_iteration_done();
    profile.on_pull_begun(0, now);
    profile.on_pulled(1, Bytes{1'000'000}, now);
    profile.on_pulled(0, Bytes{1'000'000}, now += from_seconds(0.01));
  }
  const auto plan = profile.plan();
  ASSERT_TRUE(plan);
  EXPECT_NEAR(plan->link.bandwidth.value, kRate, 1);
}

TEST(LiveProfile, PlansNothingBeforeAReplyAndARoundTripWereSeen) {
  ToldProfile profile(std::vector<Bytes>(1, Bytes{1'000'000}), BatchingAlgorithm::kExact);
  TimePoint now{};
  const auto train = [&](bool replies) {
    for (int pass = 0; pass < 3; ++pass) {
      profile.on_gate(Layer{0}, now, now);
      profile.on_forward_done(now += from_seconds(0.01));
      profile.on_iteration_done();
      if (!replies) continue;
      profile.on_pull_begun(0, now);
      profile.on_pulled(0, Bytes{1'000'000}, now += from_seconds(0.01));
    }
    return profile.plan();
  };
  EXPECT_FALSE(train(false));
  EXPECT_FALSE(train(true));
  profile.on_round_trip(from_seconds(kStartUp));
  profile.on_iteration_done();
  const auto plan = profile.plan();
  ASSERT_TRUE(plan) << "replies of one size are enough";
  EXPECT_NEAR(plan->problem.start_up, kStartUp, 1e-9);
  EXPECT_NEAR(plan->link.bandwidth.value, kRate, 1);
}

TEST(LiveProfile, ValuesOfTheServerInTheSameProcessSayNothingOfTheLink) {
  ToldProfile profile(std::vector<Bytes>(1, Bytes{1'000'000}), BatchingAlgorithm::kExact, LiveProfile::Sides::kPulls, Duration{},
                      std::optional(Rank{1}));
  profile.on_round_trip(from_seconds(kStartUp));
  TimePoint now{};
  for (int pass = 0; pass < 4; ++pass) {
    profile.on_gate(Layer{0}, now, now);
    profile.on_forward_done(now += from_seconds(0.01));
    profile.on_iteration_done();
    profile.on_pull_begun(0, now);
    profile.on_pull_begun(1, now, /*server=*/1);
    profile.on_pulled(1, Bytes{9'000'000}, now, /*server=*/1);
    profile.on_pulled(0, Bytes{1'000'000}, now += from_seconds(0.01));
  }
  const auto plan = profile.plan();
  ASSERT_TRUE(plan);
  EXPECT_NEAR(plan->link.bandwidth.value, kRate, 1);
}

}  // namespace
}  // namespace paceline::scheduling

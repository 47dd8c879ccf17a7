// The optimizer's state through the C interface: given with the job, gathered from its servers.
#include <array>
#include <utility>

#include <gmock/gmock.h>

#include "library/one_worker_testing.h"

namespace paceline::library::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// SGD with momentum 0.9 and rate 1.
class WithMomentum : public OneWorker {
 public:
  WithMomentum() : OneWorker("optimizer", "momentum") {
    Error error;
    EXPECT_DONE(paceline_job_set(job, "learning-rate", "1", error));
  }

  void give(std::array<float, 3> velocity, std::int64_t updates) {
    Error error;
    const float* arrays[] = {velocity.data()};
    EXPECT_DONE(paceline_job_set_state(job, 0, arrays, 1, updates, error));
  }
  // Velocity of the first tensor and how often it was updated.
  std::pair<std::vector<float>, std::int64_t> gathered() {
    Error error;
    const float* array = nullptr;
    std::int64_t count = 0, updates = 0;
    EXPECT_DONE(paceline_gather_state(worker, INFINITY, error));
    EXPECT_DONE(paceline_tensor_state(worker, 0, 0, &array, &count, &updates, error));
    EXPECT_EQ(kElements, count);
    return {{array, array + count}, updates};
  }
};

constexpr float kGradient[3] = {1, 2, 4};

TEST(State, IsGatheredWithEveryUpdate) {
  WithMomentum one;
  one.join();
  EXPECT_EQ(std::pair(std::vector<float>(3, 0.0F), std::int64_t{0}), one.gathered());
  one.train(1, kGradient);
  EXPECT_EQ(std::pair(std::vector<float>({1, 2, 4}), std::int64_t{1}), one.gathered());
  one.train(2, kGradient);
  EXPECT_EQ(std::pair(std::vector<float>({1 * 0.9F + 1, 2 * 0.9F + 2, 4 * 0.9F + 4}), std::int64_t{2}), one.gathered());
}

TEST(State, OfRankZeroIsWhatTheServersBeginWith) {
  WithMomentum one;
  one.give({10, 20, 30}, 7);
  one.join();
  EXPECT_THAT(one.values(), ElementsAre(10, 20, 30)) << "the values are the job's";
  EXPECT_EQ(std::pair(std::vector<float>({10, 20, 30}), std::int64_t{7}), one.gathered());
  one.train(1, kGradient);
  EXPECT_EQ(std::pair(std::vector<float>({10, 20, 31}), std::int64_t{8}), one.gathered());
  Error error;
  const float* other = nullptr;
  std::int64_t updates = 0;
  EXPECT_DONE(paceline_tensor_state(one.worker, 1, 0, &other, nullptr, &updates, error));
  EXPECT_EQ(1, *other) << "what nothing was given of began with zeros";
  EXPECT_EQ(1, updates);
}

TEST(State, IsNotReadWhileItIsGatheredAgain) {
  WithMomentum one;
  one.join();
  one.train(1, kGradient);
  const auto first = one.gathered();
  Error error;
  const float* array = nullptr;
  for (int look = 0; look < 50; ++look) {
    const std::int32_t over = paceline_gather_state(one.worker, 0, error);
    if (over == PACELINE_AGAIN) {
      EXPECT_REFUSED(paceline_tensor_state(one.worker, 0, 0, &array, nullptr, nullptr, error), "order");
    } else {
      EXPECT_DONE(over);
      EXPECT_DONE(paceline_tensor_state(one.worker, 0, 0, &array, nullptr, nullptr, error));
    }
  }
  EXPECT_EQ(first, one.gathered());
}

TEST(State, GoesOnAsIfTheJobHadNotEnded) {
  std::vector<float> velocity, values, straight;
  {
    WithMomentum one;
    one.join();
    for (std::int64_t iteration = 1; iteration <= 4; ++iteration) one.train(iteration, kGradient);
    straight = one.gathered().first;
  }
  {
    WithMomentum one;
    one.join();
    one.train(1, kGradient);
    one.train(2, kGradient);
    velocity = one.gathered().first;
  }
  WithMomentum one;
  one.give({velocity[0], velocity[1], velocity[2]}, 2);
  one.join();
  one.train(1, kGradient);
  one.train(2, kGradient);
  EXPECT_EQ(std::pair(straight, std::int64_t{4}), one.gathered());
}

TEST(State, WhatTheOptimizerHasNotIsRefusedWhenTheJobBegins) {
  OneWorker one;  // plain SGD
  Error error;
  const float array[3] = {1, 2, 3};
  const float* arrays[] = {array};
  ASSERT_DONE(paceline_job_set_state(one.job, 0, arrays, 1, 0, error));
  one.coordinate();
  one.begin();
  EXPECT_EQ(PACELINE_BAD_REQUEST, paceline_wait_joined(one.worker, INFINITY, error));
  EXPECT_THAT(said(error), HasSubstr("the optimizer's state of \"a.weight\" has 1 arrays; the job's optimizer has 0"));
}

TEST(State, CallsThatMakeNoSenseChangeNothing) {
  WithMomentum one;
  Error error;
  const float* none[] = {nullptr};
  EXPECT_REFUSED(paceline_job_set_state(one.job, 2, nullptr, 0, 0, error), "illegal");
  EXPECT_REFUSED(paceline_job_set_state(one.job, 0, nullptr, 0, -1, error), "illegal");
  EXPECT_REFUSED(paceline_job_set_state(one.job, 0, none, 9, 0, error), "illegal");
  Error broken_error;
  WithMomentum broken;
  auto tensor = sized<paceline_tensor>();
  const std::int64_t shape[] = {3, -1};
  tensor.name = "broken";
  tensor.layer = 1;
  tensor.shape = shape;
  tensor.dimensions = 2;
  std::uint32_t number = 0;
  ASSERT_DONE(paceline_job_add_tensor(broken.job, &tensor, &number, broken_error));
  EXPECT_REFUSED(paceline_job_set_state(broken.job, number, none, 1, 0, broken_error), "illegal");
  EXPECT_EQ(PACELINE_BAD_REQUEST, paceline_job_set_state(one.job, 0, nullptr, 1, 0, error));
  EXPECT_EQ(PACELINE_BAD_REQUEST, paceline_job_set_state(one.job, 0, none, 1, 0, error));
  one.coordinate();
  one.begin();
  EXPECT_DONE(paceline_wait_joined(one.worker, INFINITY, error));
  const float* array = nullptr;
  EXPECT_REFUSED(paceline_tensor_state(one.worker, 0, 0, &array, nullptr, nullptr, error), "order");
  ASSERT_DONE(paceline_wait_layer(one.worker, 0, 1, INFINITY, error));
  ASSERT_DONE(paceline_gradient_ready(one.worker, 0, kGradient, error));
  EXPECT_REFUSED(paceline_gather_state(one.worker, INFINITY, error), "order");
  const float gradient = 1;
  auto step = sized<paceline_step>();
  std::int32_t stopping = 0;
  ASSERT_DONE(paceline_wait_layer(one.worker, 1, 1, INFINITY, error));
  ASSERT_DONE(paceline_gradient_ready(one.worker, 1, &gradient, error));
  ASSERT_DONE(paceline_backward_done(one.worker, 1, nullptr, 0, error));
  EXPECT_EQ(std::pair(std::vector<float>({1, 2, 4}), std::int64_t{1}), one.gathered()) << "before step_done too";
  EXPECT_REFUSED(paceline_tensor_state(one.worker, 0, 1, &array, nullptr, nullptr, error), "illegal");
  EXPECT_REFUSED(paceline_tensor_state(one.worker, 9, 0, &array, nullptr, nullptr, error), "illegal");
  ASSERT_DONE(paceline_step_done(one.worker, &step, &stopping, error));
}

}  // namespace
}  // namespace paceline::library::testing

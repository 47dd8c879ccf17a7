// Calls that come when it is not their turn, from a fork, or while the handle is being closed: refused, and the job trains as if
// they had not been made.
#include <thread>
#include <utility>

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include "library/one_worker_testing.h"

namespace paceline::library::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<float> values(const OneWorker& one) {
  Error error;
  float* first = nullptr;
  std::int64_t count = 0;
  EXPECT_DONE(paceline_tensor_value(one.worker, 0, &first, &count, error));
  return {first, first + count};
}

void expect_training_refused(paceline_node* worker) {
  Error error;
  const auto step = sized<paceline_step>();
  std::int32_t stopping = 0;
  EXPECT_REFUSED(paceline_wait_layer(worker, 0, 1, 0, error), "order");
  EXPECT_REFUSED(paceline_wait_all(worker, 0, 0, error), "order");
  EXPECT_REFUSED(paceline_wait_free(worker, -1, 0, error), "order");
  EXPECT_REFUSED(paceline_gradient_ready(worker, 0, nullptr, error), "order");
  EXPECT_REFUSED(paceline_backward_done(worker, 1, nullptr, 0, error), "order");
  EXPECT_REFUSED(paceline_step_done(worker, &step, &stopping, error), "order");
}

TEST(Turns, AWorkerThatHasNotJoinedTrainsNothingAndAnswersWhatItKnows) {
  OneWorker one;
  one.coordinate(2);
  one.begin();
  Error error;
  paceline_text* text = nullptr;
  EXPECT_EQ(PACELINE_AGAIN, paceline_wait_joined(one.worker, 0, error)) << "one of two workers is missing";
  expect_training_refused(one.worker);
  float* first = nullptr;
  EXPECT_REFUSED(paceline_tensor_value(one.worker, 0, &first, nullptr, error), "order");
  EXPECT_REFUSED(paceline_tensor_gradient(one.worker, 0, &first, nullptr, error), "order");
  EXPECT_REFUSED(paceline_finish(one.worker, 0, error), "order");
  auto info = sized<paceline_info>();
  ASSERT_DONE(paceline_node_info(one.worker, &info, error));
  EXPECT_EQ(-1, info.rank);
  EXPECT_EQ(4, info.elements);
  EXPECT_REFUSED(paceline_node_report(one.coordinator, &text, error), "order");
  EXPECT_EQ(PACELINE_AGAIN, paceline_finish(one.coordinator, 0, error));

  // Interrupted while another thread waits.
  std::thread waiting([&] {
    Error ended;
    EXPECT_EQ(PACELINE_CANCELLED, paceline_wait_joined(one.worker, INFINITY, ended)) << ended.message;
  });
  EXPECT_DONE(paceline_interrupt(one.worker, error));
  waiting.join();
}

TEST(Turns, CallsThatAreNotInTurnChangeNothing) {
  OneWorker one;
  one.join();
  Error error;
  std::int32_t stopping = 7;
  auto step = sized<paceline_step>();
  const float gradient[3] = {1, 2, 3}, other[3] = {100, 100, 100}, bias = 5;
  const std::uint32_t unused[2] = {1, 1}, none[1] = {2};

  EXPECT_REFUSED(paceline_step_done(one.worker, &step, &stopping, error), "order");
  EXPECT_EQ(PACELINE_BAD_REQUEST, paceline_wait_layer(one.worker, 0, 2, 0, error));
  EXPECT_EQ(PACELINE_BAD_REQUEST, paceline_wait_layer(one.worker, 2, 1, 0, error));
  EXPECT_EQ(PACELINE_BAD_REQUEST, paceline_wait_layer(one.worker, -1, 1, 0, error));
  EXPECT_EQ(PACELINE_BAD_REQUEST, paceline_wait_free(one.worker, 2, 0, error));
  EXPECT_EQ(PACELINE_BAD_REQUEST, paceline_wait_free(one.worker, -2, 0, error));
  EXPECT_REFUSED(paceline_wait_all(one.worker, 1, 0, error), "order");
  EXPECT_REFUSED(paceline_gradient_ready(one.worker, 2, gradient, error), "illegal");
  EXPECT_EQ(PACELINE_BAD_REQUEST, paceline_backward_done(one.worker, 1, nullptr, 0, error)) << "no gradient has come";
  EXPECT_EQ(PACELINE_BAD_REQUEST, paceline_backward_done(one.worker, 2, nullptr, 0, error));
  EXPECT_REFUSED(paceline_backward_done(one.worker, 1, nullptr, 1, error), "null");

  ASSERT_DONE(paceline_gradient_ready(one.worker, 0, gradient, error));
  EXPECT_REFUSED(paceline_gradient_ready(one.worker, 0, other, error), "order");
  EXPECT_THAT(said(error), HasSubstr("\"a.weight\" came twice in iteration 1"));
  EXPECT_EQ(PACELINE_BAD_REQUEST, paceline_backward_done(one.worker, 1, unused, 2, error)) << "named twice";
  EXPECT_EQ(PACELINE_BAD_REQUEST, paceline_backward_done(one.worker, 1, none, 1, error));
  ASSERT_DONE(paceline_gradient_ready(one.worker, 1, &bias, error));
  ASSERT_DONE(paceline_backward_done(one.worker, 1, nullptr, 0, error));
  EXPECT_REFUSED(paceline_backward_done(one.worker, 2, unused, 1, error), "order");
  EXPECT_THAT(said(error), HasSubstr("paceline_step_done was not called"));
  EXPECT_REFUSED(paceline_gradient_ready(one.worker, 0, gradient, error), "order");
  EXPECT_THAT(said(error), HasSubstr("call paceline_wait_layer for its layer first"));
  step.samples = -1;
  EXPECT_REFUSED(paceline_step_done(one.worker, &step, &stopping, error), "illegal");
  step.samples = 0;
  step.phases = PACELINE_PHASES;
  EXPECT_REFUSED(paceline_step_done(one.worker, &step, &stopping, error), "null");
  const double phases[PACELINE_PHASES] = {0, 0, 0, 1, -1};
  step.phase_seconds = phases;
  EXPECT_REFUSED(paceline_step_done(one.worker, &step, &stopping, error), "illegal");
  EXPECT_EQ(7, stopping);
  step.phases = 0;
  ASSERT_DONE(paceline_step_done(one.worker, &step, &stopping, error));
  EXPECT_EQ(0, stopping);
  EXPECT_REFUSED(paceline_step_done(one.worker, &step, &stopping, error), "order");

  ASSERT_DONE(paceline_wait_layer(one.worker, 0, 2, INFINITY, error));
  EXPECT_THAT(values(one), ElementsAre(9, 18, 27));
  one.train(2, gradient);
  ASSERT_DONE(paceline_finish(one.worker, INFINITY, error));
  EXPECT_THAT(values(one), ElementsAre(8, 16, 24));
  expect_training_refused(one.worker);
  EXPECT_DONE(paceline_finish(one.worker, INFINITY, error)) << "any number of times";
  ASSERT_DONE(paceline_finish(one.coordinator, INFINITY, error));
  paceline_text* report = nullptr;
  ASSERT_DONE(paceline_node_report(one.coordinator, &report, error));
  EXPECT_THAT(take(report), HasSubstr(R"("iterations":2,)"));
}

TEST(Turns, AGradientMayStandInItsPlaceAlready) {
  OneWorker one;
  one.join();
  Error error;
  auto step = sized<paceline_step>();
  std::int32_t stopping = 0;
  float* gradient = nullptr;
  std::int64_t count = 0;
  const std::uint32_t unused[1] = {1};
  ASSERT_DONE(paceline_tensor_gradient(one.worker, 0, &gradient, &count, error));
  ASSERT_EQ(3, count);
  for (std::int64_t iteration = 1; iteration <= 3; ++iteration) {
    ASSERT_DONE(paceline_wait_all(one.worker, iteration - 1, INFINITY, error));
    ASSERT_DONE(paceline_wait_free(one.worker, 0, INFINITY, error));
    for (std::int64_t i = 0; i < count; ++i) gradient[i] = 1;
    ASSERT_DONE(paceline_gradient_ready(one.worker, 0, nullptr, error));
    ASSERT_DONE(paceline_backward_done(one.worker, iteration, unused, 1, error));
    ASSERT_DONE(paceline_step_done(one.worker, &step, &stopping, error));
  }
  ASSERT_DONE(paceline_finish(one.worker, INFINITY, error));
  EXPECT_THAT(values(one), ElementsAre(7, 17, 27));
}

TEST(Turns, WithMeansTheValuesAreMeanGradientsAndTheVerdictFollowsAndFrozenTensorsStayAsTheyAre) {
  OneWorker one("optimizer", "mean");
  Error error;
  ASSERT_DONE(paceline_job_set(one.job, "verdict", "1", error));
  auto tensor = sized<paceline_tensor>();
  const float kept = 7;
  tensor.name = "c.frozen";
  tensor.layer = 2;
  tensor.value = &kept;
  tensor.frozen = 1;
  ASSERT_DONE(paceline_job_add_tensor(one.job, &tensor, nullptr, error));
  tensor.name = "d.bias";
  tensor.layer = 3;
  tensor.frozen = 0;
  ASSERT_DONE(paceline_job_add_tensor(one.job, &tensor, nullptr, error));
  one.join();
  EXPECT_THAT(values(one), ElementsAre(10, 20, 30));

  const float gradient[3] = {1, 2, 3}, bias = 4;
  const std::uint32_t unused[1] = {1};
  auto step = sized<paceline_step>();
  std::int32_t stopping = 0;
  std::uint8_t nobody[4] = {9, 9, 9, 9};
  auto verdict = sized<paceline_verdict>();
  verdict.unused = nobody;
  verdict.tensors = 3;
  EXPECT_REFUSED(paceline_wait_verdict(one.worker, 1, 0, &verdict, error), "illegal");
  EXPECT_REFUSED(paceline_wait_verdict(one.worker, 1, 0, nullptr, error), "null");
  verdict.tensors = 4;
  EXPECT_EQ(PACELINE_BAD_REQUEST, paceline_wait_verdict(one.worker, 1, 0, &verdict, error)) << "the iteration is not over";
  EXPECT_REFUSED(paceline_gradient_ready(one.worker, 2, &bias, error), "order");
  EXPECT_THAT(said(error), HasSubstr("\"c.frozen\", which is frozen"));
  ASSERT_DONE(paceline_gradient_ready(one.worker, 0, gradient, error));
  ASSERT_DONE(paceline_gradient_ready(one.worker, 3, &bias, error));
  ASSERT_DONE(paceline_backward_done(one.worker, 1, unused, 1, error));
  ASSERT_DONE(paceline_step_done(one.worker, &step, &stopping, error));
  for (const std::int32_t layer : {0, 1, 2, 3}) EXPECT_DONE(paceline_wait_layer(one.worker, layer, 2, INFINITY, error));
  EXPECT_THAT(values(one), ElementsAre(1, 2, 3));
  ASSERT_DONE(paceline_wait_verdict(one.worker, 1, INFINITY, &verdict, error));
  EXPECT_EQ(1 + 4 + 9 + 16, verdict.square_sum);
  EXPECT_EQ(-1, verdict.non_finite_tensor);
  EXPECT_THAT(nobody, ElementsAre(0, 1, 0, 0));
  float* frozen = nullptr;
  ASSERT_DONE(paceline_tensor_value(one.worker, 2, &frozen, nullptr, error));
  EXPECT_EQ(7, *frozen);
  ASSERT_DONE(paceline_finish(one.worker, INFINITY, error));
  ASSERT_DONE(paceline_finish(one.coordinator, INFINITY, error));
}

TEST(Turns, WhatAWorkerFailsWithEverybodyHears) {
  OneWorker one;
  one.join();
  Error error;
  EXPECT_REFUSED(paceline_fail(one.worker, PACELINE_CANCELLED, "no", error), "illegal");
  EXPECT_REFUSED(paceline_fail(one.worker, PACELINE_AGAIN, "no", error), "illegal");
  EXPECT_REFUSED(paceline_fail(one.worker, PACELINE_DONE, "no", error), "illegal");
  EXPECT_DONE(paceline_fail(one.worker, PACELINE_PEER_LOST, "rank 0: ValueError: no data", error));
  EXPECT_EQ(PACELINE_PEER_LOST, paceline_finish(one.coordinator, INFINITY, error));
  EXPECT_THAT(said(error), HasSubstr("rank 0: ValueError: no data"));
  EXPECT_EQ(PACELINE_PEER_LOST, paceline_wait_all(one.worker, 0, INFINITY, error));
  EXPECT_THAT(said(error), HasSubstr("rank 0: ValueError: no data"));
  EXPECT_EQ(PACELINE_PEER_LOST, paceline_finish(one.worker, INFINITY, error));
}

TEST(Turns, AnInterruptOfTheCoordinatorEndsTheJobAfterTheIteration) {
  OneWorker one;
  one.join();
  Error error;
  const float gradient[3] = {0, 0, 0};
  auto step = sized<paceline_step>();
  std::int32_t stopping = 0;
  std::int64_t iteration = 1;
  one.train(iteration, gradient);
  EXPECT_DONE(paceline_interrupt(one.coordinator, error));
  while (stopping == 0) {
    ++iteration;
    ASSERT_DONE(paceline_wait_all(one.worker, iteration - 1, INFINITY, error));
    ASSERT_DONE(paceline_gradient_ready(one.worker, 0, gradient, error));
    ASSERT_DONE(paceline_gradient_ready(one.worker, 1, gradient, error));
    ASSERT_DONE(paceline_backward_done(one.worker, iteration, nullptr, 0, error));
    ASSERT_DONE(paceline_step_done(one.worker, &step, &stopping, error));
  }
  EXPECT_EQ(PACELINE_CANCELLED, paceline_finish(one.worker, INFINITY, error));
  EXPECT_EQ(PACELINE_CANCELLED, paceline_finish(one.coordinator, INFINITY, error));
}

TEST(Turns, WhoeverWaitsWhileTheHandleIsClosedIsTold) {
  OneWorker one;
  one.coordinate();
  paceline_node* const coordinator = std::exchange(one.coordinator, nullptr);
  std::thread waiting([coordinator] {
    Error error;
    const auto kind = paceline_finish(coordinator, INFINITY, error);
    // Closed before this thread came, or while it was inside.
    EXPECT_TRUE(kind == PACELINE_CANCELLED || kind == PACELINE_BAD_REQUEST) << error.message;
  });
  Error error;
  EXPECT_DONE(paceline_close(coordinator, 1, error));
  waiting.join();
}

TEST(Turns, InAChildOfForkEverythingOfTheParentIsRefusedAndTheChildMayMakeItsOwn) {
  OneWorker one;
  one.join();
  Error error;
  const float gradient[3] = {1, 1, 1};
  one.train(1, gradient);
  const pid_t child = fork();
  ASSERT_NE(-1, child);
  if (child == 0) {
    Error mine;
    paceline_job* job = nullptr;
    const bool refused = paceline_wait_layer(one.worker, 0, 2, 0, mine) == PACELINE_BAD_REQUEST &&
                         std::string(mine.message).find("before fork()") != std::string::npos &&
                         paceline_close(one.worker, 1, mine) == PACELINE_BAD_REQUEST &&
                         paceline_close(one.coordinator, 1, mine) == PACELINE_BAD_REQUEST &&
                         paceline_interrupt(one.coordinator, mine) == PACELINE_BAD_REQUEST;
    const bool own = paceline_job_new(&job, mine) == PACELINE_DONE && paceline_job_set(job, "seed", "2", mine) == PACELINE_DONE &&
                     paceline_close(job, 0, mine) == PACELINE_DONE;
    paceline_after_fork();
    const bool inert = paceline_interrupt(one.worker, mine) == PACELINE_BAD_REQUEST;
    _exit(refused && own && inert ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(child, waitpid(child, &status, 0));
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  one.train(2, gradient);
  ASSERT_DONE(paceline_finish(one.worker, INFINITY, error));
  EXPECT_THAT(values(one), ElementsAre(8, 18, 28));
}

}  // namespace
}  // namespace paceline::library::testing

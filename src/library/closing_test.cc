// Handles that are closed, or waited for, by one thread while another one is in a call.
#include <atomic>
#include <cstdint>
#include <limits>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "library/one_worker_testing.h"

namespace paceline::library::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Closing, CallsOfOtherThreadsAreAnsweredOrRefused) {
  for (int round = 0; round < 20; ++round) {
    OneWorker one;
    one.join();
    std::atomic<int> begun = 0;
    std::vector<std::thread> callers;
    for (int thread = 0; thread < 4; ++thread) {
      callers.emplace_back([&] {
        Error error;
        auto info = sized<paceline_info>();
        std::int32_t kind = PACELINE_DONE;
        ++begun;
        while (kind == PACELINE_DONE) kind = paceline_node_info(one.worker, &info, error);
        EXPECT_EQ(PACELINE_BAD_REQUEST, kind);
        EXPECT_THAT(said(error), HasSubstr("is closed already"));
      });
    }
    while (begun < 4) std::this_thread::yield();
    Error error;
    EXPECT_DONE(paceline_close(one.worker, 0, error));
    for (std::thread& caller : callers) caller.join();
    one.worker = nullptr;
  }
}

TEST(Closing, WhoOnlyLooksDoesNotWaitForWhoWaits) {
  OneWorker one;
  one.coordinate(2);
  one.begin();
  Error error;
  std::thread waiting([&] {
    Error ended;
    EXPECT_EQ(PACELINE_CANCELLED, paceline_wait_joined(one.worker, INFINITY, ended)) << ended.message;
  });
  // Before and after the other one has begun to wait.
  for (int look = 0; look < 200; ++look) {
    EXPECT_EQ(PACELINE_AGAIN, paceline_wait_joined(one.worker, 0, error));
    EXPECT_REFUSED(paceline_finish(one.worker, 0, error), "order");
  }
  EXPECT_EQ(PACELINE_AGAIN, paceline_wait_joined(one.worker, 0.01, error));
  EXPECT_DONE(paceline_interrupt(one.worker, error));
  waiting.join();
}

TEST(Refused, CallsLeaveTheStateToBeGathered) {
  OneWorker one("optimizer", "momentum");
  one.join();
  Error error;
  EXPECT_EQ(PACELINE_BAD_REQUEST, paceline_backward_done(one.worker, 7, nullptr, 0, error));
  EXPECT_DONE(paceline_gather_state(one.worker, INFINITY, error));
  EXPECT_REFUSED(paceline_gradient_ready(one.worker, 7, nullptr, error), "illegal");
  EXPECT_DONE(paceline_gather_state(one.worker, INFINITY, error));
  constexpr float kOne = 1;
  ASSERT_DONE(paceline_gradient_ready(one.worker, 1, &kOne, error));
  EXPECT_REFUSED(paceline_gradient_ready(one.worker, 1, &kOne, error), "order");
  EXPECT_REFUSED(paceline_gather_state(one.worker, 0, error), "order");
}

TEST(Refused, SizesAreLookedAtBeforeWhatTheyAreOf) {
  OneWorker one("told-rates", "1");
  const std::int64_t shapes[] = {std::int64_t{1} << 62, (std::int64_t{1} << 61) + 5};
  const float* arrays[] = {nullptr};
  const float number = 0;
  arrays[0] = &number;
  Error error;
  paceline_job* job = nullptr;
  ASSERT_DONE(paceline_job_new(&job, error));
  for (const std::int64_t& shape : shapes) {
    auto tensor = sized<paceline_tensor>();
    const std::string name = std::to_string(shape);
    tensor.name = name.c_str();
    tensor.shape = &shape;
    tensor.dimensions = 1;
    std::uint32_t place = 0;
    ASSERT_DONE(paceline_job_add_tensor(job, &tensor, &place, error));
    EXPECT_REFUSED(paceline_job_set_state(job, place, arrays, 1, 0, error), "illegal");
  }
  EXPECT_DONE(paceline_close(job, 0, error));
  one.join();
  const double rate = 1, decay = 0;
  EXPECT_REFUSED(paceline_tell_rates(one.worker, 1, &rate, &decay, std::numeric_limits<std::size_t>::max() / 64, error), "illegal");
  EXPECT_THAT(said(error), HasSubstr("parameter groups; the job has 1"));
}

TEST(Refused, TheWordsOfAFailureAreText) {
  OneWorker one;
  one.join();
  Error error;
  EXPECT_REFUSED(paceline_fail(one.worker, PACELINE_IO, "", error), "illegal");
  EXPECT_REFUSED(paceline_fail(one.worker, PACELINE_IO, "\xff\xfe", error), "illegal");
  const std::string long_words(20'000'000, 'x');
  EXPECT_DONE(paceline_fail(one.worker, PACELINE_IO, long_words.c_str(), error));
  EXPECT_EQ(PACELINE_IO, paceline_finish(one.coordinator, INFINITY, error));
  EXPECT_THAT(said(error), HasSubstr("xxxxxxxx"));
}

TEST(Refused, OfALongFailureBeginningAndEndAreTold) {
  OneWorker one;
  one.join();
  Error error;
  const std::string words = "rank 1: RuntimeError: " + std::string(5000, '.') + " no memory";
  EXPECT_DONE(paceline_fail(one.worker, PACELINE_IO, words.c_str(), error));
  EXPECT_EQ(PACELINE_IO, paceline_finish(one.coordinator, INFINITY, error));
  EXPECT_THAT(said(error), AllOf(HasSubstr("rank 1: RuntimeError: ."), HasSubstr(". no memory")));
}

}  // namespace
}  // namespace paceline::library::testing

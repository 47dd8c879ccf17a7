// For tests of the C interface: a job of one worker, all of it in this process, and errors that need no care.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/paceline.h"

namespace paceline::library::testing {

struct Error : paceline_error {
  Error() : paceline_error{} { size = sizeof(paceline_error); }
  operator paceline_error*() { return this; }
};

inline std::string said(const paceline_error& error) { return error.message; }

#define EXPECT_DONE(call) EXPECT_EQ(PACELINE_DONE, (call)) << error.message
#define ASSERT_DONE(call) ASSERT_EQ(PACELINE_DONE, (call)) << error.message
// Refused, with this code.
#define EXPECT_REFUSED(call, word)                            \
  do {                                                        \
    EXPECT_EQ(PACELINE_BAD_REQUEST, (call)) << error.message; \
    EXPECT_STREQ(word, error.code) << #call << error.message; \
  } while (false)

inline std::string take(paceline_text* text) {
  const char* bytes = nullptr;
  EXPECT_EQ(PACELINE_DONE, paceline_text_bytes(text, &bytes, nullptr, nullptr));
  std::string taken = bytes;
  EXPECT_EQ(PACELINE_DONE, paceline_close(text, 0, nullptr));
  return taken;
}

template <typename Struct>
Struct sized() {
  Struct made{};
  made.size = sizeof made;
  return made;
}

inline paceline_place place(std::int32_t role, const char* coordinator) {
  auto place = sized<paceline_place>();
  place.role = role;
  place.rank = -1;
  place.workers = 1;
  place.servers = 1;
  place.coordinator = coordinator;
  return place;
}

// A job with two tensors: "a.weight" of three elements in layer 0 and "b.bias" of one in layer 1, plain SGD with rate 1, or
// with another option.
class OneWorker {
 public:
  OneWorker() : OneWorker("learning-rate", "1") {}
  OneWorker(const char* option, const char* value) {
    Error error;
    EXPECT_DONE(paceline_job_new(&job, error));
    EXPECT_DONE(paceline_job_set(job, option, value, error));
    auto tensor = sized<paceline_tensor>();
    tensor.name = "a.weight";
    tensor.shape = &kElements;
    tensor.dimensions = 1;
    tensor.value = kInitial;
    EXPECT_DONE(paceline_job_add_tensor(job, &tensor, nullptr, error));
    tensor = sized<paceline_tensor>();
    tensor.name = "b.bias";
    tensor.layer = 1;
    EXPECT_DONE(paceline_job_add_tensor(job, &tensor, nullptr, error));
  }
  ~OneWorker() {
    for (void* handle : {static_cast<void*>(worker), static_cast<void*>(coordinator), static_cast<void*>(job)}) {
      if (handle == nullptr) continue;
      EXPECT_EQ(PACELINE_DONE, paceline_close(handle, 1, nullptr));
    }
  }

  // For so many workers, of which this is one.
  void coordinate(std::int32_t of = 1) {
    workers = of;
    Error error;
    paceline_place where = place(0, nullptr);
    where.workers = workers;
    EXPECT_DONE(paceline_coordinate(job, &where, &coordinator, error));
    paceline_text* text = nullptr;
    EXPECT_DONE(paceline_node_address(coordinator, &text, error));
    address = take(text);
  }
  void begin() {
    Error error;
    paceline_place where = place(PACELINE_BOTH, address.c_str());
    where.workers = workers;
    EXPECT_DONE(paceline_join(job, &where, &worker, error));
  }
  void join() {
    coordinate();
    begin();
    Error error;
    EXPECT_DONE(paceline_wait_joined(worker, INFINITY, error));
  }
  void train(std::int64_t iteration, const float (&gradient)[3]) {
    Error error;
    constexpr float kOne = 1;
    auto step = sized<paceline_step>();
    std::int32_t stopping = 0;
    EXPECT_DONE(paceline_wait_layer(worker, 0, iteration, INFINITY, error));
    EXPECT_DONE(paceline_wait_layer(worker, 1, iteration, INFINITY, error));
    EXPECT_DONE(paceline_gradient_ready(worker, 1, &kOne, error));
    EXPECT_DONE(paceline_gradient_ready(worker, 0, gradient, error));
    EXPECT_DONE(paceline_backward_done(worker, iteration, nullptr, 0, error));
    EXPECT_DONE(paceline_step_done(worker, &step, &stopping, error));
  }

  // Those of the first tensor.
  std::vector<float> values() {
    Error error;
    float* first = nullptr;
    EXPECT_DONE(paceline_tensor_value(worker, 0, &first, nullptr, error));
    return {first, first + kElements};
  }

  static constexpr std::int64_t kElements = 3;
  static constexpr float kInitial[3] = {10, 20, 30};
  paceline_job* job = nullptr;
  paceline_node *coordinator = nullptr, *worker = nullptr;
  std::string address;
  std::int32_t workers = 1;
};

}  // namespace paceline::library::testing

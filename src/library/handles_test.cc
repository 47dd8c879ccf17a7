// What is no handle, no pointer and no struct is refused with a code, by every call.
#include <functional>
#include <vector>

#include <gmock/gmock.h>

#include "library/one_worker_testing.h"

namespace paceline::library::testing {
namespace {

using ::testing::HasSubstr;

struct Call {
  const char* name;
  const char* type;  // of the handle that it takes
  std::function<std::int32_t(void*, paceline_error*)> make;
};

template <typename Handle>
Handle* as(void* handle) {
  return static_cast<Handle*>(handle);
}

paceline_call barrier() {
  auto barrier = sized<paceline_call>();
  barrier.operation = PACELINE_BARRIER;
  return barrier;
}

paceline_tensor named_tensor() {
  auto tensor = sized<paceline_tensor>();
  tensor.name = "x";
  return tensor;
}

// Every function with a handle, called as it should be but for the handle.
std::vector<Call> calls() {
  static paceline_text* text;
  static paceline_communicator* group;
  static paceline_request* request;
  static paceline_node* made;
  static float* place_of_tensor;
  static std::int64_t count;
  static std::uint32_t number;
  static std::int32_t stopping;
  static const char* bytes;
  static const std::int32_t ranks[1] = {0};
  static const auto tensor = named_tensor();
  static const auto where = place(PACELINE_WORKER, "127.0.0.1:1");
  static auto info = sized<paceline_info>();
  static auto description = sized<paceline_communicator_info>();
  static const auto step = sized<paceline_step>();
  static auto verdict = sized<paceline_verdict>();
  static const auto call = barrier();
  return {
      {"text_bytes", "text", [](void* h, auto* e) { return paceline_text_bytes(as<paceline_text>(h), &bytes, nullptr, e); }},
      {"job_set", "job", [](void* h, auto* e) { return paceline_job_set(as<paceline_job>(h), "momentum", "0.5", e); }},
      {"job_get", "job", [](void* h, auto* e) { return paceline_job_get(as<paceline_job>(h), "momentum", &text, e); }},
      {"job_add_tensor", "job", [](void* h, auto* e) { return paceline_job_add_tensor(as<paceline_job>(h), &tensor, &number, e); }},
      {"join", "job", [](void* h, auto* e) { return paceline_join(as<paceline_job>(h), &where, &made, e); }},
      {"wait_joined", "worker", [](void* h, auto* e) { return paceline_wait_joined(as<paceline_node>(h), 0, e); }},
      {"node_info", "node", [](void* h, auto* e) { return paceline_node_info(as<paceline_node>(h), &info, e); }},
      {"node_address", "coordinator", [](void* h, auto* e) { return paceline_node_address(as<paceline_node>(h), &text, e); }},
      {"node_report", "coordinator", [](void* h, auto* e) { return paceline_node_report(as<paceline_node>(h), &text, e); }},
      {"finish", "node", [](void* h, auto* e) { return paceline_finish(as<paceline_node>(h), 0, e); }},
      {"fail", "node", [](void* h, auto* e) { return paceline_fail(as<paceline_node>(h), PACELINE_IO, "no", e); }},
      {"interrupt", "node", [](void* h, auto* e) { return paceline_interrupt(as<paceline_node>(h), e); }},
      {"tensor_value", "worker",
       [](void* h, auto* e) { return paceline_tensor_value(as<paceline_node>(h), 0, &place_of_tensor, &count, e); }},
      {"tensor_gradient", "worker",
       [](void* h, auto* e) { return paceline_tensor_gradient(as<paceline_node>(h), 0, &place_of_tensor, &count, e); }},
      {"wait_layer", "worker", [](void* h, auto* e) { return paceline_wait_layer(as<paceline_node>(h), 0, 1, 0, e); }},
      {"wait_all", "worker", [](void* h, auto* e) { return paceline_wait_all(as<paceline_node>(h), 1, 0, e); }},
      {"wait_free", "worker", [](void* h, auto* e) { return paceline_wait_free(as<paceline_node>(h), -1, 0, e); }},
      {"set_order", "worker", [](void* h, auto* e) { return paceline_set_order(as<paceline_node>(h), ranks, 1, e); }},
      {"tell_rates", "worker",
       [](void* h, auto* e) { return paceline_tell_rates(as<paceline_node>(h), 1, &step.loss, &step.loss, 1, e); }},
      {"tell_left_out", "worker", [](void* h, auto* e) { return paceline_tell_left_out(as<paceline_node>(h), 1, e); }},
      {"tell_alike", "worker",
       [](void* h, auto* e) { return paceline_tell_alike(as<paceline_node>(h), 1, nullptr, nullptr, 0, e); }},
      {"gradient_ready", "worker", [](void* h, auto* e) { return paceline_gradient_ready(as<paceline_node>(h), 0, nullptr, e); }},
      {"backward_done", "worker", [](void* h, auto* e) { return paceline_backward_done(as<paceline_node>(h), 1, nullptr, 0, e); }},
      {"wait_verdict", "worker", [](void* h, auto* e) { return paceline_wait_verdict(as<paceline_node>(h), 1, 0, &verdict, e); }},
      {"step_done", "worker", [](void* h, auto* e) { return paceline_step_done(as<paceline_node>(h), &step, &stopping, e); }},
      {"communicator_group", "communicator",
       [](void* h, auto* e) { return paceline_communicator_group(as<paceline_communicator>(h), 1, ranks, 1, &group, e); }},
      {"communicator_describe", "communicator",
       [](void* h, auto* e) { return paceline_communicator_describe(as<paceline_communicator>(h), &description, e); }},
      {"collective", "communicator",
       [](void* h, auto* e) { return paceline_collective(as<paceline_communicator>(h), &call, &request, e); }},
      {"wait", "request", [](void* h, auto* e) { return paceline_wait(as<paceline_request>(h), 0, e); }},
      {"request_choice", "request", [](void* h, auto* e) { return paceline_request_choice(as<paceline_request>(h), &text, e); }},
  };
}

TEST(Handles, EveryCallNamesWhatIsNoHandleOfItsType) {
  Error error;
  paceline_job* job = nullptr;
  paceline_job* closed = nullptr;
  paceline_text* text = nullptr;
  ASSERT_DONE(paceline_job_new(&job, error));
  ASSERT_DONE(paceline_job_new(&closed, error));
  ASSERT_DONE(paceline_close(closed, 0, error));
  ASSERT_DONE(paceline_ask("version", nullptr, &text, error));
  int memory = 0;
  for (const Call& call : calls()) {
    SCOPED_TRACE(call.name);
    EXPECT_REFUSED(call.make(nullptr, error), "null");
    EXPECT_THAT(said(error), HasSubstr(std::string("the ") + call.type + " is NULL"));
    for (void* none : {static_cast<void*>(&memory), reinterpret_cast<void*>(1), reinterpret_cast<void*>(-1)}) {
      EXPECT_REFUSED(call.make(none, error), "handle");
      EXPECT_THAT(said(error), HasSubstr("is no handle of this library"));
    }
    EXPECT_REFUSED(call.make(closed, error), "handle");
    EXPECT_THAT(said(error), HasSubstr("is closed already"));
    void* const other = std::string(call.type) == "job" ? static_cast<void*>(text) : static_cast<void*>(job);
    EXPECT_REFUSED(call.make(other, error), "handle");
    EXPECT_THAT(said(error), HasSubstr(std::string("give a ") + call.type));
    EXPECT_EQ(PACELINE_BAD_REQUEST, call.make(other, nullptr)) << "without an error";
  }
  EXPECT_REFUSED(paceline_close(closed, 0, error), "handle");
  EXPECT_REFUSED(paceline_close(nullptr, 0, error), "null");
  EXPECT_REFUSED(paceline_close(&memory, 0, error), "handle");
  EXPECT_REFUSED(paceline_close(job, -1, error), "illegal");
  EXPECT_REFUSED(paceline_close(job, NAN, error), "illegal");
  EXPECT_DONE(paceline_close(job, 0, error));
  EXPECT_DONE(paceline_close(text, 0, error));
}

TEST(Handles, AnErrorThatIsTooSmallIsNotTouchedAndTheCallNotMade) {
  paceline_error error{};
  error.size = sizeof error - 1;
  error.kind = 77;
  paceline_job* job = nullptr;
  EXPECT_EQ(PACELINE_BAD_REQUEST, paceline_job_new(&job, &error));
  EXPECT_EQ(nullptr, job);
  EXPECT_EQ(77, error.kind);
}

TEST(Handles, WhereAResultGoesMustNotBeNull) {
  Error error;
  OneWorker one;
  one.coordinate();
  const paceline_place where = place(PACELINE_WORKER, one.address.c_str());
  EXPECT_REFUSED(paceline_job_new(nullptr, error), "null");
  EXPECT_REFUSED(paceline_job_get(one.job, "seed", nullptr, error), "null");
  EXPECT_REFUSED(paceline_job_get(one.job, nullptr, nullptr, error), "null");
  EXPECT_REFUSED(paceline_job_set(one.job, nullptr, "1", error), "null");
  EXPECT_REFUSED(paceline_job_set(one.job, "seed", nullptr, error), "null");
  EXPECT_REFUSED(paceline_coordinate(nullptr, &where, nullptr, error), "null");
  EXPECT_REFUSED(paceline_serve(nullptr, &where, nullptr, error), "null");
  EXPECT_REFUSED(paceline_join(one.job, &where, nullptr, error), "null");
  EXPECT_REFUSED(paceline_node_info(one.coordinator, nullptr, error), "null");
  EXPECT_REFUSED(paceline_node_address(one.coordinator, nullptr, error), "null");
  EXPECT_REFUSED(paceline_node_report(one.coordinator, nullptr, error), "null");
  EXPECT_REFUSED(paceline_fail(one.coordinator, PACELINE_IO, nullptr, error), "null");
  EXPECT_REFUSED(paceline_ask(nullptr, nullptr, nullptr, error), "null");
  EXPECT_REFUSED(paceline_ask("version", nullptr, nullptr, error), "null");
  EXPECT_REFUSED(paceline_communicator_open(nullptr, nullptr, error), "null");
  const auto options = sized<paceline_communicator_options>();
  EXPECT_REFUSED(paceline_communicator_open(&options, nullptr, error), "null");
  std::int64_t first = 0;
  EXPECT_REFUSED(paceline_part(1, 1, 0, nullptr, &first, error), "null");
  EXPECT_REFUSED(paceline_part(1, 1, 0, &first, nullptr, error), "null");
  EXPECT_EQ(0U, paceline_struct_size(nullptr));
  EXPECT_EQ(0U, paceline_struct_size("paceline_job"));
}

TEST(Handles, AStructOfAnotherSizeIsNamed) {
  Error error;
  OneWorker one;
  for (const std::size_t change : {std::size_t{1}, static_cast<std::size_t>(-1), -sizeof(paceline_place)}) {
    paceline_node* node = nullptr;
    paceline_place where = place(PACELINE_WORKER, "127.0.0.1:1");
    where.size += change;
    EXPECT_REFUSED(paceline_coordinate(nullptr, &where, &node, error), "struct");
    EXPECT_REFUSED(paceline_serve(nullptr, &where, &node, error), "struct");
    EXPECT_REFUSED(paceline_join(one.job, &where, &node, error), "struct");
    EXPECT_EQ(nullptr, node);
    auto tensor = sized<paceline_tensor>();
    tensor.size += change;
    EXPECT_REFUSED(paceline_job_add_tensor(one.job, &tensor, nullptr, error), "struct");
    auto options = sized<paceline_communicator_options>();
    options.size += change;
    paceline_communicator* all = nullptr;
    EXPECT_REFUSED(paceline_communicator_open(&options, &all, error), "struct");
  }
}
}  // namespace
}  // namespace paceline::library::testing

// Values that make no sense are refused, named and with what is legal: options, tensors, places, calls, questions.
#include <cstddef>

#include <gmock/gmock.h>

#include "library/one_worker_testing.h"

namespace paceline::library::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Refusals, OptionsAreThoseOfTheCommandLineWithTheirWords) {
  Error error;
  OneWorker one;
  paceline_text* text = nullptr;
  EXPECT_DONE(paceline_job_set(one.job, "deadline", "5s", error));
  ASSERT_DONE(paceline_job_get(one.job, "deadline", &text, error));
  EXPECT_EQ("5s", take(text));
  EXPECT_REFUSED(paceline_job_set(one.job, "deadline", "5", error), "illegal");
  EXPECT_STREQ("--deadline", error.subject);
  EXPECT_REFUSED(paceline_job_set(one.job, "momentun", "0.5", error), "unknown");
  EXPECT_THAT(said(error), HasSubstr("did you mean 'momentum'?"));
  EXPECT_REFUSED(paceline_job_get(one.job, "momentun", &text, error), "unknown");
  EXPECT_REFUSED(paceline_job_set(one.job, "momentum", "1.5", error), "illegal");
  EXPECT_THAT(said(error), HasSubstr("--momentum is 1.5"));
  ASSERT_DONE(paceline_job_set(one.job, "clip-norm", "1", error));
  ASSERT_DONE(paceline_job_set(one.job, "sync", "asp", error));
  paceline_node* node = nullptr;
  const paceline_place where = place(PACELINE_WORKER, "127.0.0.1:1");
  EXPECT_REFUSED(paceline_join(one.job, &where, &node, error), "contradiction");
}

TEST(Refusals, ATensorThatCannotBeTrainedIsNamed) {
  Error error;
  OneWorker one;
  const std::int64_t shape[2] = {3, -1};
  const auto refused = [&](auto change) {
    auto tensor = sized<paceline_tensor>();
    tensor.name = "c";
    tensor.layer = 1;
    change(tensor);
    std::uint32_t number = 9;
    EXPECT_REFUSED(paceline_job_add_tensor(one.job, &tensor, &number, error), "illegal");
    EXPECT_EQ(9U, number);
    return std::string(error.message);
  };
  EXPECT_THAT(refused([](auto& t) { t.name = nullptr; }), HasSubstr("tensor 2: it has no name"));
  EXPECT_THAT(refused([](auto& t) { t.name = ""; }), HasSubstr("it has no name"));
  EXPECT_THAT(refused([](auto& t) { t.name = "\xff"; }), HasSubstr("UTF-8"));
  EXPECT_THAT(refused([](auto& t) { t.type = PACELINE_FLOAT64; }), HasSubstr("element type 1; legal: 0"));
  EXPECT_THAT(refused([](auto& t) { t.dimensions = 2; }), HasSubstr("2 dimensions and no shape"));
  EXPECT_THAT(refused([&](auto& t) { t.dimensions = 65, t.shape = shape; }), HasSubstr("65 dimensions"));
  EXPECT_THAT(refused([](auto& t) { t.layer = 0; }), HasSubstr("stands in layer 0; legal: 1 or 2"));
  EXPECT_THAT(refused([](auto& t) { t.layer = 3; }), HasSubstr("stands in layer 3; legal: 1 or 2"));
  EXPECT_THAT(refused([](auto& t) { t.layer = -1; }), HasSubstr("stands in layer -1"));

  auto tensor = sized<paceline_tensor>();
  tensor.name = "c";
  tensor.layer = 1;
  tensor.shape = shape;
  tensor.dimensions = 2;
  ASSERT_DONE(paceline_job_add_tensor(one.job, &tensor, nullptr, error));
  paceline_node* node = nullptr;
  const paceline_place where = place(PACELINE_WORKER, "127.0.0.1:1");
  EXPECT_EQ(PACELINE_BAD_REQUEST, paceline_join(one.job, &where, &node, error));
  EXPECT_THAT(said(error), HasSubstr("\"c\" has the illegal shape [3, -1]"));
}

TEST(Refusals, APlaceThatIsNoneIsNamedByItsField) {
  Error error;
  OneWorker one;
  paceline_node* node = nullptr;
  const auto refused = [&](auto call, auto change) {
    paceline_place where = place(PACELINE_WORKER, "127.0.0.1:1");
    change(where);
    EXPECT_EQ(PACELINE_BAD_REQUEST, call(&where, &node)) << error.message;
    EXPECT_EQ(nullptr, node);
    return std::string(error.subject);
  };
  const auto coordinate = [&](auto* where, auto** made) { return paceline_coordinate(nullptr, where, made, error); };
  const auto serve = [&](auto* where, auto** made) { return paceline_serve(nullptr, where, made, error); };
  const auto join = [&](auto* where, auto** made) { return paceline_join(one.job, where, made, error); };
  EXPECT_EQ("place.workers", refused(coordinate, [](auto& p) { p.workers = 0; }));
  EXPECT_EQ("place.servers", refused(coordinate, [](auto& p) { p.servers = -1; }));
  EXPECT_EQ("place.coordinator", refused(coordinate, [](auto& p) { p.coordinator = "nowhere"; }));
  EXPECT_EQ("place.coordinator", refused(serve, [](auto& p) { p.coordinator = nullptr; }));
  EXPECT_EQ("place.coordinator", refused(serve, [](auto& p) { p.coordinator = "127.0.0.1:0"; }));
  EXPECT_EQ("place.rank", refused(serve, [](auto& p) { p.rank = -2; }));
  EXPECT_EQ("place.role", refused(join, [](auto& p) { p.role = PACELINE_SERVER; }));
  EXPECT_EQ("place.role", refused(join, [](auto& p) { p.role = 5; }));
  EXPECT_EQ("place.workers", refused(join, [](auto& p) { p.workers = -1; }));
}

TEST(Refusals, APlaceOfAnEarlierHeaderIsKnownAndNoneEndsInsideAField) {
  Error error;
  paceline_node* node = nullptr;
  paceline_place where = place(0, nullptr);
  where.job_key_file = "/nowhere/job.key";
  EXPECT_EQ(PACELINE_BAD_REQUEST, paceline_coordinate(nullptr, &where, &node, error));
  EXPECT_STREQ("key", error.code);
  EXPECT_THAT(said(error), HasSubstr("/nowhere/job.key cannot be opened"));
  for (const std::size_t size : {offsetof(paceline_place, job_key_file) - 8, offsetof(paceline_place, job_key_file) + 4}) {
    where.size = size;
    EXPECT_REFUSED(paceline_coordinate(nullptr, &where, &node, error), "struct");
  }
  where.size = offsetof(paceline_place, job_key_file);  // what stands behind it is not looked at
  ASSERT_DONE(paceline_coordinate(nullptr, &where, &node, error));
  EXPECT_DONE(paceline_close(node, 0, error));
}

TEST(Refusals, ACollectiveCallThatMakesNoSenseHarmsNobody) {
  Error error;
  auto options = sized<paceline_communicator_options>();
  paceline_communicator* all = nullptr;
  const auto refused = [&](auto change) {
    auto wrong = options;
    change(wrong);
    EXPECT_EQ(PACELINE_BAD_REQUEST, paceline_communicator_open(&wrong, &all, error));
    EXPECT_EQ(nullptr, all);
    return std::string(error.message);
  };
  const char* own[2] = {"127.0.0.1:0", nullptr};
  EXPECT_THAT(refused([](auto&) {}), HasSubstr("not neither"));
  EXPECT_THAT(refused([](auto& o) { o.address_count = 1; }), HasSubstr("addresses is NULL"));
  EXPECT_THAT(refused([&](auto& o) { o.addresses = own, o.address_count = 2; }), HasSubstr("addresses is NULL"));
  EXPECT_THAT(refused([](auto& o) { o.coordinator = "127.0.0.1:0", o.ranks = 1; }), HasSubstr("port 0"));
  EXPECT_THAT(refused([&](auto& o) { o.addresses = own, o.address_count = 1, o.stall_seconds = -1; }), HasSubstr("stall_seconds"));
  options.addresses = own;
  options.address_count = 1;
  ASSERT_DONE(paceline_communicator_open(&options, &all, error));
  auto call = sized<paceline_call>();
  paceline_request* request = nullptr;
  for (const std::int32_t operation : {0, 10, -1}) {
    call.operation = operation;
    EXPECT_REFUSED(paceline_collective(all, &call, &request, error), "illegal");
  }
  for (const std::int32_t operation : {PACELINE_ALLTOALL, PACELINE_GATHER}) {  // parts are of one of them, and of no other
    const std::int64_t part = 0;
    call.operation = operation;
    call.takes = operation == PACELINE_GATHER ? &part : nullptr;
    EXPECT_REFUSED(paceline_collective(all, &call, &request, error), "illegal");
  }
  call.takes = nullptr;
  call.operation = PACELINE_BROADCAST;
  call.type = PACELINE_FLOAT8_E8M0FNU + 1;
  EXPECT_REFUSED(paceline_collective(all, &call, &request, error), "illegal");
  call.operation = PACELINE_ALLREDUCE;
  call.type = PACELINE_INT64;  // is only moved
  EXPECT_REFUSED(paceline_collective(all, &call, &request, error), "illegal");
  call.type = PACELINE_FLOAT32;
  call.count = 3;
  EXPECT_EQ(PACELINE_BAD_REQUEST, paceline_collective(all, &call, &request, error));
  EXPECT_THAT(said(error), HasSubstr("null"));
  float values[3] = {1, 2, 3};
  call.input = call.output = values;
  ASSERT_DONE(paceline_collective(all, &call, &request, error));
  EXPECT_DONE(paceline_close(all, 0, error)) << "its request keeps it";
  EXPECT_DONE(paceline_wait(request, INFINITY, error));
  EXPECT_DONE(paceline_wait(request, 0, error)) << "any number of times";
  EXPECT_EQ(3, values[2]);
  EXPECT_DONE(paceline_close(request, 0, error));
}

TEST(Refusals, AQuestionThatThereIsNotIsNamedWithTheNearest) {
  Error error;
  paceline_text* answer = nullptr;
  EXPECT_REFUSED(paceline_ask("option", nullptr, &answer, error), "unknown");
  EXPECT_THAT(said(error), HasSubstr("did you mean 'options'?"));
  EXPECT_EQ(PACELINE_BAD_REQUEST, paceline_ask("version", "[1]", &answer, error));
  EXPECT_EQ(PACELINE_BAD_REQUEST, paceline_ask("version", "{", &answer, error));
  EXPECT_REFUSED(paceline_ask("version", R"({"workers": 2})", &answer, error), "unknown");
  EXPECT_STREQ("workers", error.subject);
  ASSERT_DONE(paceline_ask("version", "{}", &answer, error));
  EXPECT_EQ(std::string(R"({"release":")") + paceline_version() + "\"}", take(answer));
  ASSERT_DONE(paceline_ask("questions", nullptr, &answer, error));
  EXPECT_THAT(take(answer), StartsWith(R"(["questions","options","schema","errors","version","plan","plan batches",)"));
}

TEST(Refusals, AnEndOfBackwardThatLacksATensorHasClippedNothing) {
  OneWorker one("wire", "dgc:1");
  Error error;
  ASSERT_DONE(paceline_job_set(one.job, "learning-rate", "1", error));
  ASSERT_DONE(paceline_job_set(one.job, "clip-norm", "1", error));
  one.join();
  constexpr float kThree[] = {3, 0, 0}, kFour = 4;
  ASSERT_DONE(paceline_gradient_ready(one.worker, 0, kThree, error));
  EXPECT_EQ(PACELINE_BAD_REQUEST, paceline_backward_done(one.worker, 1, nullptr, 0, error));
  EXPECT_THAT(said(error), HasSubstr("\"b.bias\" has neither a gradient"));
  ASSERT_DONE(paceline_gradient_ready(one.worker, 1, &kFour, error));
  ASSERT_DONE(paceline_backward_done(one.worker, 1, nullptr, 0, error));
  ASSERT_DONE(paceline_wait_all(one.worker, 1, INFINITY, error));
  EXPECT_THAT(one.values(), ElementsAre(FloatNear(9.4F, 1e-5F), 20.0F, 30.0F)) << "clipped by the norm of both, 5";
}

TEST(Refusals, AMessageThatIsTooLongIsCutAtALetter) {
  Error error;
  std::string option;
  while (option.size() < 2000) option += "\xc3\xa4";  // of two bytes
  paceline_job* job = nullptr;
  ASSERT_DONE(paceline_job_new(&job, error));
  EXPECT_EQ(PACELINE_BAD_REQUEST, paceline_job_set(job, option.c_str(), "1", error));
  for (const std::string& text : {std::string(error.message), std::string(error.subject)}) {
    EXPECT_EQ('\xa4', text.back());
    EXPECT_GE(text.size(), 62U);
  }
  EXPECT_DONE(paceline_close(job, 0, error));
}

}  // namespace
}  // namespace paceline::library::testing

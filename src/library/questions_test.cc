// The questions of `paceline plan` through the C interface.
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "library/one_worker_testing.h"

namespace paceline::library::testing {
namespace {

using ::testing::Contains;
using ::testing::StartsWith;
using Json = nlohmann::json;

Json asked(const char* question, const Json& settings) {
  Error error;
  paceline_text* answer = nullptr;
  EXPECT_DONE(paceline_ask(question, settings.dump().c_str(), &answer, error));
  return answer == nullptr ? Json() : Json::parse(take(answer));
}

const Json kSlice = {{"nodes", 4}, {"bytes", 100'000'000}, {"alpha", 1e-4}, {"bandwidth", 125e6}};

TEST(Questions, OneCaseIsAnsweredByAnObjectAndAnArrayByAnArray) {
  const Json one = asked("plan slice", kSlice);
  EXPECT_EQ(684'652, one["slice_bytes"]);
  EXPECT_EQ(Json::array({one, one}), asked("plan slice", Json::array({kSlice, kSlice})));
}

TEST(Questions, AChoiceOfAlgorithmsIsMadeByTheSolver) {
  const Json layers = Json::parse(
      R"([[{"time": 2, "memory": 1}, {"time": 1, "memory": 9}], [{"time": 1, "memory": 6}, {"time": 3, "memory": 0}]])");
  EXPECT_EQ(Json::array({0, 0}), asked("plan algorithms", {{"bound", 13}, {"layers", layers}})["choice"]);
}

TEST(Questions, ACaseThatIsWrongIsRefusedWithItsKeyAsTheSubject) {
  Error error;
  paceline_text* answer = nullptr;
  EXPECT_EQ(PACELINE_BAD_REQUEST, paceline_ask("plan slice", R"({"nodes": 4})", &answer, error));
  EXPECT_STREQ("bytes", error.subject);
  EXPECT_THAT(said(error), StartsWith("key 'bytes' is missing"));
  EXPECT_EQ(nullptr, answer);
  EXPECT_REFUSED(paceline_ask("plan slice", R"([{"node": 4}])", &answer, error), "unknown");
  EXPECT_STREQ("node", error.subject);
  EXPECT_REFUSED(paceline_ask("plan slize", "{}", &answer, error), "unknown");
  EXPECT_STREQ("plan slize", error.subject);
  EXPECT_THAT(said(error), ::testing::HasSubstr("did you mean 'plan slice'?"));
}

TEST(Questions, PlanDescribesThoseThatAreListed) {
  const Json listed = asked("questions", Json::object());
  for (const Json& question : asked("plan", Json::object()))
    EXPECT_THAT(listed, Contains("plan " + question["name"].get<std::string>()));
  EXPECT_EQ("questions", listed[0]);
}

}  // namespace
}  // namespace paceline::library::testing

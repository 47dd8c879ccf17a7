#include "planner/questions/ask.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::planner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

const Question& question(const char* name) { return *find_question(name); }

Json answer(const char* name, const Json& settings) { return ask(question(name), settings).value(); }

Status refusal(const char* name, const Json& settings) {
  const auto answered = ask(question(name), settings);
  EXPECT_FALSE(answered.ok()) << answered.value();
  return answered.status();
}

Json batches() { return {{"start_up", 0.001}, {"transfer", {0.002, 0.003, 0.004}}, {"forward", {0.003, 0.003, 0.003}}}; }

Json with(Json json, const char* key, Json value) {
  json[key] = std::move(value);
  return json;
}

TEST(Ask, AChoiceStandsAmongTheKeysAndItsFirstValueIsTheDefault) {
  EXPECT_EQ("ibatch", answer("batches", batches())["algorithm"]);
  const Json alone = answer("batches", with(batches(), "algorithm", "layer-wise"));
  EXPECT_EQ((Json{1, 2, 3}), alone["bounds"]);
}

TEST(Ask, AnArrayOfCasesIsAnsweredByAnArrayEachCaseWithItsOwnChoice) {
  const Json both = answer("batches", {batches(), with(batches(), "algorithm", "default")});
  ASSERT_EQ(2U, both.size());
  EXPECT_EQ(answer("batches", batches()), both[0]);
  EXPECT_EQ("default", both[1]["algorithm"]);
  EXPECT_EQ(Json::array(), answer("batches", Json::array()));
}

TEST(Ask, ARefusalNamesTheKeyAndOfAnArrayTheCase) {
  const Status missing = refusal("slice", {{"nodes", 4}, {"bytes", 1000}, {"alpha", 1e-4}});
  EXPECT_EQ(ErrorKind::kBadRequest, missing.kind());
  EXPECT_EQ("bandwidth", missing.subject());
  EXPECT_THAT(missing.message(), StartsWith("key 'bandwidth' is missing"));

  const Json good{{"nodes", 4}, {"bytes", 1000}, {"alpha", 1e-4}, {"bandwidth", 1e6}};
  const Status nodes = refusal("slice", {good, with(good, "nodes", 0)});
  EXPECT_EQ("nodes", nodes.subject());
  EXPECT_EQ("case 1: key 'nodes' is 0; at least 1 is needed", nodes.message());

  const Status unknown = refusal("slice", with(good, "node", 4));
  EXPECT_EQ("unknown", unknown.code());
  EXPECT_EQ("node", unknown.subject());
  EXPECT_THAT(unknown.message(), HasSubstr("did you mean 'nodes'?"));

  EXPECT_THAT(refusal("slice", 3).message(), HasSubstr("it must be an object"));
}

TEST(Ask, AChoiceThatThereIsNotIsRefusedWithWhatIsLegal) {
  const Status near = refusal("batches", with(batches(), "algorithm", "exat"));
  EXPECT_EQ("algorithm", near.subject());
  EXPECT_EQ("illegal", near.code());
  EXPECT_THAT(near.message(), HasSubstr("did you mean 'exact'?"));
  EXPECT_THAT(refusal("batches", with(batches(), "side", 3)).message(), HasSubstr("key 'side' is 3"));
}

TEST(Ask, AResultThatJsonCannotWriteIsRefused) {
  const Json huge{{"ranks", 4}, {"bytes", 1LL << 53}, {"alpha", 1e300}, {"beta", 1e300}, {"gamma", 1e300}};
  EXPECT_THAT(refusal("collective", huge).message(), HasSubstr("beyond what a double can hold"));
}

TEST(Ask, EveryQuestionIsDescribedWithItsKeysTypesAndChoices) {
  const Json all = described_questions();
  std::vector<std::string> names;
  for (const Json& one : all) {
    names.push_back(one["name"]);
    EXPECT_FALSE(one["purpose"].get<std::string>().empty());
    for (const Json& key : one["keys"]) EXPECT_FALSE(key["help"].get<std::string>().empty()) << key["name"];
  }
  EXPECT_THAT(names, ElementsAre("batches", "iteration", "speedup", "slice", "collective", "barrier", "gpus", "servers", "memory",
                                 "algorithms", "mini-batch", "fft-ratio", "job"));
  EXPECT_EQ((Json{{"name", "start_up"}, {"type", "seconds"}, {"required", true}, {"help", "start-up time of one pull or push"}}),
            all[0]["keys"][0]);
  EXPECT_EQ((Json{"pull", "push"}), all[0]["choices"][1]["values"]);
  EXPECT_EQ(nullptr, find_question("bathes"));
}

// ---- job

Json measured(std::int64_t mini_batch) {
  const auto samples = static_cast<double>(mini_batch);
  const auto layer = [samples](const char* name, const char* faster, std::int64_t workspace) {
    return Json{
        {"name", name},
        {"algorithms",
         {{{"algorithm", "default"}, {"forward_s", samples}, {"backward_s", samples}, {"workspace_bytes", 1000}},
          {{"algorithm", faster}, {"forward_s", samples / 2}, {"backward_s", samples / 2}, {"workspace_bytes", workspace}}}}};
  };
  return {{"model", "lenet"},
          {"mini_batch", mini_batch},
          {"step_s", 5 * samples},
          {"rest_s", samples},
          {"process_peak_bytes", 100'000'000},
          {"layers", {layer("conv1", "gemm", 20'000'000), layer("conv2", "fft", 30'000'000)}}};
}

Json job() {
  return {{"model", "lenet"},
          {"dataset_size", 4000},
          {"memory", 1'000'000'000},
          {"measurements", {{"measurements", {measured(8), measured(32)}}, {"steps", Json::array()}}}};
}

TEST(AskJob, FromMeasuredTimesTheAnswerIsWhatTrainPlanTakes) {
  const Json found = answer("job", job());
  EXPECT_EQ(true, found["feasible"]);
  EXPECT_EQ(32, found["mini_batch"]);
  EXPECT_EQ((Json{{"conv1", "gemm"}, {"conv2", "fft"}}), found["convolutions"]);
  EXPECT_EQ((Json{{"model", "lenet"}, {"mini-batch", 32}, {"convolutions", {{"conv1", "gemm"}, {"conv2", "fft"}}}, {"workers", 1}}),
            found["train"]);
}

TEST(AskJob, WhatIsOutOfRangeIsRefusedByItsKey) {
  const std::pair<const char*, Json> cases[] = {{"dataset_size", 0},      {"memory", 0},     {"workers", 0},
                                                {"speedup", 0},           {"efficiency", 2}, {"mini_batches", {0}},
                                                {"worker_bandwidth", 1e6}};
  for (const auto& [key, value] : cases) {
    const Status status = refusal("job", with(job(), key, value));
    EXPECT_EQ(key, status.subject());
    EXPECT_THAT(status.message(), StartsWith(fmt::format("key '{}'", key)));
  }
  const Status both = refusal("job", with(with(job(), "workers", 2), "speedup", 2));
  EXPECT_EQ("key 'workers' and key 'speedup' contradict each other; give one of them", both.message());
}

TEST(AskJob, WhatWasNotMeasuredIsSaidWithTheCommandThatMeasuresIt) {
  EXPECT_THAT(refusal("job", with(job(), "mini_batches", {64})).message(), HasSubstr("--mini-batches 64"));
  const Status overhead = refusal("job", with(job(), "speedup", 2));
  EXPECT_EQ("overhead", overhead.subject());
  EXPECT_THAT(overhead.message(), HasSubstr("paceline profile --steps --model lenet --mini-batch 32"));
  const Status damaged = refusal("job", with(job(), "measurements", {{"measurements", 3}}));
  EXPECT_THAT(damaged.message(), HasSubstr("key 'measurements'"));
}

}  // namespace
}  // namespace paceline::planner

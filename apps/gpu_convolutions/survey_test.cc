#include "gpu_convolutions/survey.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/questions/cases.h"
#include "planner/sizing/memory.h"

namespace paceline::gpu_convolutions {
namespace {

using planner::CudnnAlgorithm;
using planner::CudnnPass;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Options lenet_with(std::vector<std::int64_t> mini_batches) { return {.model = "lenet", .mini_batches = std::move(mini_batches)}; }

std::string refusal_of(const Options& options) {
  const auto work = work_for(options);
  if (work.ok()) return "";
  EXPECT_EQ(work.status().kind(), ErrorKind::kBadRequest);
  return work.status().message();
}

// A GPU that refuses at random, but for what everything falls back to.
MeasureLayer random_gpu(std::mt19937& random, std::int64_t most_workspace) {
  return [&random, most_workspace](const model::LayerDescription& layer, const std::vector<CudnnPass>& passes, std::int64_t size) {
    planner::MeasuredCudnnLayer measured{.name = layer.name, .passes = passes};
    for (const CudnnPass pass : passes) {
      for (const CudnnAlgorithm algorithm : algorithms_to_measure(pass)) {
        const bool sure = algorithm == CudnnAlgorithm::kImplicitGemm || algorithm == CudnnAlgorithm::kAlgo1;
        const bool refused = !sure && std::bernoulli_distribution(0.3)(random);
        measured.measured[{pass, algorithm}] = {
            .refusal = refused ? "not supported" : "",
            .seconds = static_cast<double>(size) * std::uniform_int_distribution<int>(1, 1000)(random) / 1024,
            .workspace_bytes = sure ? 0 : std::uniform_int_distribution<std::int64_t>(0, most_workspace)(random)};
      }
    }
    return Result<planner::MeasuredCudnnLayer>(measured);
  };
}

// Of all combinations of the layers' candidates within the bound, the least time.
double least_time(const std::vector<planner::CudnnLayerCandidates>& layers, std::size_t next, std::int64_t bound) {
  if (next == layers.size()) return 0;
  double least = std::numeric_limits<double>::infinity();
  for (const planner::CudnnCandidate& candidate : layers[next].candidates) {
    if (candidate.workspace_bytes > bound) continue;
    least = std::min(least, candidate.seconds + least_time(layers, next + 1, bound - candidate.workspace_bytes));
  }
  return least;
}

Result<Survey> surveyed(const Options& options, const MeasureLayer& gpu) {
  PACELINE_ASSIGN_OR_RETURN(const Work work, work_for(options));
  Survey result{.model = work.model.name, .fingerprint = {"a GPU", "9.0.0", "13.0"}, .samples = options.samples};
  PACELINE_ASSIGN_OR_RETURN(result.mini_batches, survey(work, gpu, [](std::int64_t) {}));
  return result;
}

// What `paceline plan mini-batch --input -` answers to the text.
Result<Json> planned(const std::string& text) {
  const planner::Question& question = *planner::find_question("mini-batch");
  PACELINE_ASSIGN_OR_RETURN(const planner::Cases cases, planner::read_cases(question, text, "standard input", Json::object()));
  return question.answer(cases.cases.at(0), Json::object());
}

TEST(Case, IsReadByPlanMiniBatchAndItsChoiceNamesAlgorithmsOfTheDocument) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    Options options = lenet_with({8, 32, 20});
    options.samples = 1000;
    options.memory = "8MB";
    options.as_case = true;
    const Survey survey = surveyed(options, random_gpu(random, 12'000'000)).value();
    const Json answer = planned(case_of(survey).dump()).value();
    ASSERT_TRUE(answer["feasible"]) << "seed " << seed;

    // The document alone says what is to be run, and what it says is as fast as the fastest of all combinations.
    const Json document = to_json(survey);
    EXPECT_EQ(document["case"], case_of(survey));
    ASSERT_THAT(answer["candidates"], SizeIs(survey.mini_batches.size()));
    for (std::size_t m = 0; m < survey.mini_batches.size(); ++m) {
      const Json& mini_batch = document["mini_batches"][m];
      ASSERT_EQ(answer["candidates"][m]["mini_batch"], mini_batch["mini_batch"]);
      double time = 0;
      std::int64_t workspaces = 0;
      for (std::size_t k = 0; k < mini_batch["layers"].size(); ++k) {
        const Json& chosen = mini_batch["layers"][k]["algorithms"].at(answer["candidates"][m]["choice"][k].get<std::size_t>());
        EXPECT_TRUE(chosen["algorithm"].get<std::string>().starts_with("cudnn-"));
        time += chosen["time_s"].get<double>();
        workspaces += chosen["workspace_bytes"].get<std::int64_t>();
      }
      EXPECT_LE(workspaces, mini_batch["bound_bytes"].get<std::int64_t>()) << "seed " << seed;
      EXPECT_DOUBLE_EQ(time, least_time(survey.mini_batches[m].layers, 0, mini_batch["bound_bytes"])) << "seed " << seed;
      const double iterations = answer["candidates"][m]["iterations"];
      EXPECT_DOUBLE_EQ(answer["candidates"][m]["time"], iterations * time) << "seed " << seed;
    }
  }
}

TEST(Case, TheBoundIsWhatTheMemoryFormulaLeaves) {
  Options options = lenet_with({8});
  options.samples = 1000;
  options.memory = "8MB";
  options.as_case = true;
  const Work work = work_for(options).value();
  ASSERT_THAT(work.mini_batches, SizeIs(1));
  EXPECT_EQ(work.mini_batches[0].bound->count, planner::memory_need(work.model, 8, Bytes{8'000'000})->bound_bits / 8);
}

TEST(Case, AMiniBatchThatDoesNotFitIsLeftOutAndNamed) {
  Options options = lenet_with({8, 100'000});
  options.samples = 1000;
  options.memory = "100MB";
  options.as_case = true;
  const Work work = work_for(options).value();
  ASSERT_THAT(work.mini_batches, SizeIs(1));
  EXPECT_EQ(work.mini_batches[0].size, 8);
  EXPECT_THAT(work.notices, ElementsAre(HasSubstr("mini-batch 100000 is left out")));
  options.memory = "1KB";
  EXPECT_THAT(refusal_of(options), HasSubstr("--memory 1.0 kB: no --mini-batch fits"));
}

TEST(Survey, OnlyTheFirstConvolutionHasNoGradientForItsInput) {
  std::vector<std::size_t> passes;
  std::mt19937 random(1);
  const MeasureLayer gpu = random_gpu(random, 10);
  std::int64_t last = 0;
  const Work work = work_for({.model = "alexnet", .mini_batches = {4, 2}}).value();
  const auto done = survey(
      work,
      [&](const auto& layer, const auto& wanted, std::int64_t size) {
        passes.push_back(wanted.size());
        return gpu(layer, wanted, size);
      },
      [&](std::int64_t layers) { last = layers; });
  ASSERT_TRUE(done.ok());
  EXPECT_THAT(passes, ElementsAre(2, 3, 3, 3, 3, 2, 3, 3, 3, 3));
  EXPECT_EQ(last, 10);
}

TEST(Survey, ALayerThatNothingComputesIsAnErrorThatNamesIt) {
  const auto failed = surveyed(lenet_with({8}), [](const auto& layer, const auto& passes, std::int64_t) {
    planner::MeasuredCudnnLayer measured{.name = layer.name, .passes = passes};
    for (const CudnnPass pass : passes) {
      for (const CudnnAlgorithm algorithm : algorithms_to_measure(pass)) measured.measured[{pass, algorithm}].refusal = "too large";
    }
    return Result<planner::MeasuredCudnnLayer>(measured);
  });
  ASSERT_FALSE(failed.ok());
  EXPECT_THAT(failed.status().message(), HasSubstr("layer 'conv1' with mini-batch 8: none of cuDNN's algorithms computes it"));
}

TEST(Survey, ItsTextAndDocumentSayWhatWasLeftOutAndWhy) {
  std::mt19937 random(1);
  const MeasureLayer gpu = random_gpu(random, 10);
  const Survey survey = surveyed(lenet_with({8}), [&](const auto& layer, const auto& passes, std::int64_t size) {
                          auto measured = gpu(layer, passes, size);
                          measured->measured[{CudnnPass::kForward, CudnnAlgorithm::kGemm}] = {.difference = 1e-3};
                          return measured;
                        }).value();
  EXPECT_THAT(to_text(survey), HasSubstr("its result is 1.0e-03 of the largest value away from cudnn-implicit-gemm's"));
  EXPECT_THAT(to_json(survey).dump(), HasSubstr(R"({"algorithm":"cudnn-gemm","reason":"its result is 1.0e-03 of)"));
  EXPECT_FALSE(to_json(survey).contains("case"));
}

TEST(Request, WhatIsWrongIsNamed) {
  EXPECT_EQ(refusal_of(lenet_with({8})), "");
  EXPECT_THAT(refusal_of({.model = "lenett", .mini_batches = {8}}), HasSubstr("did you mean 'lenet'"));
  EXPECT_THAT(refusal_of({.model = "mlp", .mini_batches = {8}}), HasSubstr("--model mlp: the network has no convolutions"));
  EXPECT_EQ(refusal_of(lenet_with({8, 0})), "--mini-batch has 0; legal: 1 to 1000000");
  EXPECT_EQ(refusal_of(lenet_with({8, 4, 8})), "--mini-batch has 8 twice");
  EXPECT_EQ(refusal_of({.model = "lenet", .mini_batches = {8}, .rounds = 0}), "--rounds is 0; legal: 1 to 1000");
  const auto with = [](std::optional<std::int64_t> samples, std::optional<std::string> memory, bool json, bool as_case) {
    return Options{
        .model = "lenet", .mini_batches = {8}, .samples = samples, .memory = std::move(memory), .json = json, .as_case = as_case};
  };
  EXPECT_EQ(refusal_of(with({}, {}, false, true)), "--case needs --samples and --memory");
  EXPECT_EQ(refusal_of(with(5, {}, true, false)), "--samples is given without --memory");
  EXPECT_EQ(refusal_of(with({}, "4GB", true, false)), "--memory is given without --samples");
  EXPECT_EQ(refusal_of(with(5, "4GB", false, false)), "--samples and --memory are for --case and --json");
  EXPECT_THAT(refusal_of(with(5, "4GB", true, true)), HasSubstr("exclude each other"));
  EXPECT_THAT(refusal_of(with(0, "4GB", false, true)), HasSubstr("--samples is 0"));
  EXPECT_THAT(refusal_of(with(5, "much", false, true)), HasSubstr("--memory: "));
}

TEST(Request, EveryNetworkWithConvolutionsHasWork) {
  int convolutional = 0;
  for (const std::string& name : model::names()) {
    const auto work = work_for({.model = name, .mini_batches = {1}});
    if (!work.ok()) continue;
    ++convolutional;
    for (const auto& layer : work->convolutions) EXPECT_TRUE(layer.convolution) << name;
    EXPECT_THAT(work->notices, IsEmpty());
  }
  EXPECT_GE(convolutional, 5);
}

}  // namespace
}  // namespace paceline::gpu_convolutions

#include "planner/sizing/cudnn_families.h"

#include <cmath>
#include <limits>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::planner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using enum CudnnAlgorithm;
using enum CudnnPass;

const CudnnFamily& family(const std::string& name) {
  for (const CudnnFamily& one : cudnn_families()) {
    if (one.name == name) return one;
  }
  PACELINE_CHECK(false, "no family '{}'", name);
}

// Everything works, exactly, in a second, without workspace.
MeasuredCudnnLayer flawless(std::vector<CudnnPass> passes) {
  MeasuredCudnnLayer layer{.name = "conv", .passes = std::move(passes)};
  for (const CudnnPass pass : layer.passes) {
    for (const CudnnAlgorithm algorithm : algorithms_to_measure(pass)) layer.measured[{pass, algorithm}] = {.seconds = 1};
  }
  return layer;
}

const CudnnCandidate* find(const CudnnLayerCandidates& layer, const std::string& name) {
  for (const CudnnCandidate& one : layer.candidates) {
    if (one.family == name) return &one;
  }
  return nullptr;
}

std::string why_left_out(const CudnnLayerCandidates& layer, const std::string& name) {
  for (const auto& one : layer.left_out) {
    if (one.family == name) return one.reason;
  }
  return "";
}

TEST(CudnnFamilies, EachForwardAlgorithmHasOneFamilyAndEachFamilyItsOwnName) {
  std::set<std::string> names;
  std::set<CudnnAlgorithm> forward;
  for (const CudnnFamily& one : cudnn_families()) {
    EXPECT_TRUE(one.name.starts_with("cudnn-")) << one.name;
    names.insert(one.name);
    forward.insert(one.forward);
  }
  EXPECT_EQ(names.size(), cudnn_families().size());
  EXPECT_EQ(forward.size(), 8U);
  EXPECT_EQ(algorithms_to_measure(kForward).front(), kImplicitGemm) << "the others are compared with it";
}

TEST(CudnnFamilies, AForwardPassHasNoSubstituteAndABackwardPassPrefersSumsInOrder) {
  EXPECT_THAT(members_to_try(family("cudnn-fft"), kForward), ElementsAre(kFft));
  EXPECT_THAT(members_to_try(family("cudnn-fft"), kBackwardData), ElementsAre(kFft, kAlgo1, kAlgo0));
  EXPECT_THAT(members_to_try(family("cudnn-winograd"), kBackwardFilter), ElementsAre(kAlgo1, kAlgo0));
  EXPECT_THAT(members_to_try(family("cudnn-precomp-gemm"), kBackwardData), ElementsAre(kAlgo1, kAlgo0));
  EXPECT_THAT(algorithms_to_measure(kBackwardFilter), ElementsAre(kAlgo1, kAlgo0, kFft, kFftTiling, kWinogradNonfused));
  EXPECT_THAT(algorithms_to_measure(kBackwardData), ElementsAre(kAlgo1, kAlgo0, kFft, kFftTiling, kWinograd, kWinogradNonfused));
}

TEST(CudnnFamilies, OnlyTheConvolutionThatReadsTheSamplesHasNoGradientForItsInput) {
  EXPECT_THAT(passes_of_convolution(0), ElementsAre(kForward, kBackwardFilter));
  EXPECT_THAT(passes_of_convolution(1), ElementsAre(kForward, kBackwardData, kBackwardFilter));
  for (const std::string& name : model::names()) {
    const auto model = model::describe(name).value();
    const bool convolutional = std::ranges::any_of(model.layers, [](const auto& layer) { return layer.convolution.has_value(); });
    if (!convolutional) continue;
    ASSERT_TRUE(model.layers.front().convolution) << name;
    const model::FeatureMap& input = model.layers.front().convolution->input;
    EXPECT_THAT(model.input, ElementsAre(input.channels, input.height, input.width)) << name;
  }
}

TEST(CudnnCandidates, ACandidateTakesTheSumOfItsTimesAndTheLargestOfItsWorkspaces) {
  MeasuredCudnnLayer layer = flawless({kForward, kBackwardData, kBackwardFilter});
  layer.measured[{kForward, kFft}] = {.seconds = 0.5, .workspace_bytes = 100, .difference = 1e-6};
  layer.measured[{kBackwardData, kFft}] = {.seconds = 0.25, .workspace_bytes = 300};
  layer.measured[{kBackwardFilter, kFft}] = {.seconds = 0.125, .workspace_bytes = 200};
  const CudnnLayerCandidates made = candidates_of(layer);
  EXPECT_EQ(made.candidates.size(), cudnn_families().size());
  EXPECT_THAT(made.left_out, IsEmpty());
  const CudnnCandidate* fft = find(made, "cudnn-fft");
  ASSERT_NE(fft, nullptr);
  EXPECT_EQ(fft->seconds, 0.875);
  EXPECT_EQ(fft->workspace_bytes, 300);
  EXPECT_EQ(fft->difference, 1e-6);
  ASSERT_EQ(fft->passes.size(), 3U);
  EXPECT_EQ(fft->passes[1].pass, kBackwardData);
  EXPECT_EQ(fft->passes[1].algorithm, kFft);
}

TEST(CudnnCandidates, WhatIsRefusedBackwardIsComputedByASubstituteAndWhatIsRefusedForwardIsNoCandidate) {
  MeasuredCudnnLayer layer = flawless({kForward, kBackwardFilter});
  layer.measured[{kForward, kWinograd}].refusal = "not supported";
  layer.measured[{kBackwardFilter, kFft}].refusal = "not supported";
  layer.measured[{kBackwardFilter, kAlgo1}] = {.seconds = 4, .workspace_bytes = 7};
  const CudnnLayerCandidates made = candidates_of(layer);
  EXPECT_EQ(find(made, "cudnn-winograd"), nullptr);
  EXPECT_EQ(why_left_out(made, "cudnn-winograd"), "forward by WINOGRAD: not supported");
  const CudnnCandidate* fft = find(made, "cudnn-fft");
  ASSERT_NE(fft, nullptr);
  EXPECT_EQ(fft->passes[1].algorithm, kAlgo1);
  EXPECT_EQ(fft->seconds, 5);
  EXPECT_EQ(fft->workspace_bytes, 7);
}

TEST(CudnnCandidates, AFamilyWhoseEverySubstituteIsRefusedSaysAllReasons) {
  MeasuredCudnnLayer layer = flawless({kForward, kBackwardFilter});
  for (const CudnnAlgorithm algorithm : {kFft, kAlgo1, kAlgo0}) layer.measured[{kBackwardFilter, algorithm}].refusal = "too large";
  const CudnnLayerCandidates made = candidates_of(layer);
  EXPECT_EQ(why_left_out(made, "cudnn-fft"),
            "backward_filter by FFT: too large; backward_filter by ALGO_1: too large; backward_filter by ALGO_0: too large");
  EXPECT_NE(find(made, "cudnn-fft-tiling"), nullptr) << "has a member of its own";
}

TEST(CudnnCandidates, ResultsThatAreTooFarOffAreNotOffered) {
  MeasuredCudnnLayer layer = flawless({kForward, kBackwardFilter});
  layer.measured[{kForward, kGemm}].difference = 1e-4;
  layer.measured[{kForward, kFft}].difference = std::numeric_limits<double>::quiet_NaN();
  layer.measured[{kForward, kWinograd}].difference = 1e-4;
  layer.measured[{kForward, kWinogradNonfused}].difference = 3e-4;
  const CudnnLayerCandidates made = candidates_of(layer);
  EXPECT_EQ(why_left_out(made, "cudnn-gemm"),
            "its result is 1.0e-04 of the largest value away from cudnn-implicit-gemm's; tolerated: 2e-05");
  EXPECT_THAT(why_left_out(made, "cudnn-fft"), HasSubstr("tolerated: 2e-05"));
  EXPECT_NE(find(made, "cudnn-winograd"), nullptr) << "Winograd's transforms cost digits";
  EXPECT_THAT(why_left_out(made, "cudnn-winograd-nonfused"), HasSubstr("tolerated: 2e-04"));
}

// The first combination of members, the forward pass's counting most, of which none is refused.
std::optional<CudnnCandidate> by_trying_all(const CudnnFamily& one, const MeasuredCudnnLayer& layer) {
  std::vector<CudnnCandidate> combinations = {{.family = one.name}};
  for (const CudnnPass pass : layer.passes) {
    std::vector<CudnnCandidate> longer;
    for (const CudnnCandidate& begun : combinations) {
      for (const CudnnAlgorithm algorithm : members_to_try(one, pass)) {
        const CudnnMeasurement& measured = layer.measured.at({pass, algorithm});
        if (!measured.refusal.empty()) continue;
        CudnnCandidate next = begun;
        next.passes.push_back({pass, algorithm, measured.seconds, measured.workspace_bytes});
        next.seconds += measured.seconds;
        next.workspace_bytes = std::max(next.workspace_bytes, measured.workspace_bytes);
        longer.push_back(next);
      }
    }
    combinations = longer;
  }
  if (combinations.empty() || layer.measured.at({kForward, one.forward}).difference > model::tolerance(one.like))
    return std::nullopt;
  return combinations.front();
}

TEST(CudnnCandidates, AreThoseThatTryingAllCombinationsFinds) {
  for (unsigned seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random); };
    MeasuredCudnnLayer layer = flawless(passes_of_convolution(static_cast<std::size_t>(below(2))));
    for (auto& [which, measured] : layer.measured) {
      measured = {.refusal = below(2) == 0 ? "refused" : "",
                  .seconds = below(100) / 64.0,
                  .workspace_bytes = below(1000),
                  .difference = below(4) * 1e-5};
    }
    const CudnnLayerCandidates made = candidates_of(layer);
    ASSERT_EQ(made.candidates.size() + made.left_out.size(), cudnn_families().size()) << "seed " << seed;
    const auto costs = costs_of({made});
    ASSERT_EQ(costs.front().size(), made.candidates.size()) << "seed " << seed;
    std::size_t next = 0;
    for (const CudnnFamily& one : cudnn_families()) {
      const auto wanted = by_trying_all(one, layer);
      const CudnnCandidate* found = find(made, one.name);
      ASSERT_EQ(wanted.has_value(), found != nullptr) << "seed " << seed << ", " << one.name;
      if (!wanted) continue;
      ASSERT_EQ(found->seconds, wanted->seconds) << "seed " << seed << ", " << one.name;
      ASSERT_EQ(found->workspace_bytes, wanted->workspace_bytes) << "seed " << seed << ", " << one.name;
      for (std::size_t p = 0; p < wanted->passes.size(); ++p)
        ASSERT_EQ(found->passes.at(p).algorithm, wanted->passes[p].algorithm) << "seed " << seed << ", " << one.name;
      ASSERT_EQ(costs.front()[next].time, wanted->seconds) << "seed " << seed << ", " << one.name;
      ASSERT_EQ(costs.front()[next].memory, static_cast<double>(wanted->workspace_bytes)) << "seed " << seed << ", " << one.name;
      ++next;
    }
  }
}

TEST(LargestDifference, IsRelativeToTheLargestValueOfAllParts) {
  LargestDifference difference;
  EXPECT_EQ(difference.relative(), 0);
  difference.add(std::vector<float>{1, -2}, std::vector<float>{1, -2.5});
  EXPECT_EQ(difference.relative(), 0.25);
  difference.add(std::vector<float>{-8}, std::vector<float>{-8});
  EXPECT_EQ(difference.relative(), 0.0625);
}

TEST(LargestDifference, WhatIsNoNumberIsInfinitelyFarOff) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float wrong : {std::nanf(""), infinity, -infinity}) {
    LargestDifference found, expected;
    found.add(std::vector<float>{1, 1, 1}, std::vector<float>{1, wrong, 1});
    expected.add(std::vector<float>{1, wrong, 1}, std::vector<float>{1, wrong, 1});
    EXPECT_TRUE(std::isinf(found.relative())) << wrong;
    EXPECT_TRUE(std::isinf(expected.relative())) << wrong;
  }
  LargestDifference from_zeros;
  from_zeros.add(std::vector<float>{0, 0}, std::vector<float>{0, 1e-20F});
  EXPECT_TRUE(std::isinf(from_zeros.relative()));
}

TEST(Repetitions, FillAMillisecondButNeverMoreThanAHundred) {
  EXPECT_EQ(repetitions(1), 1);
  EXPECT_EQ(repetitions(1e-3), 1);
  EXPECT_EQ(repetitions(4e-4), 3);
  EXPECT_EQ(repetitions(1e-6), 100);
  EXPECT_EQ(repetitions(0), 100);
}

}  // namespace
}  // namespace paceline::planner

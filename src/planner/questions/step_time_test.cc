#include "planner/questions/step_time.h"

#include <gtest/gtest.h>

namespace paceline::planner {
namespace {

using Algorithm = model::ConvolutionAlgorithm;

// Times that are straight lines in the mini-batch: what is between two measurements is then known.
MeasuredStep step(std::int64_t x) {
  const auto samples = static_cast<double>(x);
  MeasuredStep one{.model = "lenet", .mini_batch = x, .step_s = 3 + 6 * samples, .rest_s = 1 + samples};
  one.layers = {{"conv1", {{Algorithm::kDefault, 0.5, 2 * samples, 0}, {Algorithm::kFft, 8, 0.5 * samples, 0}}},
                {"conv2", {{Algorithm::kDefault, 1, 2 * samples, 0}, {Algorithm::kGemm, 2, 3 * samples, 0}}}};
  return one;
}

TEST(StepTime, ReadsStraightLinesBetweenAndBeyondTheMeasurements) {
  const std::vector<MeasuredStep> calibrations = {step(16), step(4), step(4)};
  for (const std::int64_t x : {1, 4, 7, 16, 40}) {
    const MeasuredStep predicted = predicted_step(calibrations, x);
    EXPECT_DOUBLE_EQ(predicted.step_s, step(x).step_s) << x;
    for (const model::ConvolutionChoice& choice :
         {model::ConvolutionChoice{}, model::ConvolutionChoice{{"conv1", Algorithm::kFft}, {"conv2", Algorithm::kGemm}}}) {
      EXPECT_NEAR(predicted_seconds(predicted, choice), predicted_seconds(step(x), choice), 1e-9) << x;
    }
  }
}

TEST(StepTime, SeveralMeasurementsOfAMiniBatchCountWithTheirMedian) {
  MeasuredStep slower = step(4), slowest = step(4);
  slower.step_s += 2;
  slowest.step_s += 200;
  EXPECT_DOUBLE_EQ(predicted_step({step(4), slower}, 4).step_s, step(4).step_s + 1);
  EXPECT_DOUBLE_EQ(predicted_step({slowest, step(4), slower}, 4).step_s, slower.step_s);
  EXPECT_DOUBLE_EQ(predicted_step({step(4)}, 9).step_s, step(4).step_s);  // one mini-batch says nothing of others
}

TEST(StepTime, AnAlgorithmThatNotEveryCalibrationMeasuredIsLeftOut) {
  MeasuredStep without = step(16);
  without.layers[0].algorithms.pop_back();
  const MeasuredStep predicted = predicted_step({step(4), without}, 8);
  EXPECT_EQ(predicted.layers[0].algorithms.size(), 1u);
  EXPECT_EQ(predicted.layers[1].algorithms.size(), 2u);
}

TEST(StepTime, TheFastestAlgorithmOfEachLayerIsChosen) {
  EXPECT_EQ(to_text(fastest_choice(step(2))), "");            // conv1: 4.5 against 9
  EXPECT_EQ(to_text(fastest_choice(step(32))), "conv1=fft");  // 64.5 against 24
}

std::vector<Algorithm> names(const MeasuredStep& step) {
  std::vector<Algorithm> found;
  for (const auto& measured : step.layers.front().algorithms) found.push_back(measured.algorithm);
  return found;
}

TEST(StepTime, AnAlgorithmThatIsHardlyFasterIsNotWorthLeavingTheDefault) {
  MeasuredStep one = step(4);
  one.rest_s = 1;
  one.layers = {{"conv1",
                 {{Algorithm::kDefault, 4, 6, 100},
                  {Algorithm::kOnednn, 4, 5.6, 100},
                  {Algorithm::kGemm, 4, 5.4, 100},
                  {Algorithm::kFft, 20, 30, 50}}}};
  EXPECT_EQ(names(worthwhile(one)), (std::vector{Algorithm::kDefault, Algorithm::kGemm, Algorithm::kFft}));
  EXPECT_EQ(to_text(fastest_choice(one)), "conv1=gemm");
  MeasuredStep without = one;
  without.layers = {{"conv1", {one.layers[0].algorithms[1], one.layers[0].algorithms[2]}}};
  EXPECT_EQ(names(worthwhile(without)), (std::vector{Algorithm::kOnednn, Algorithm::kGemm}));
}

TEST(StepTime, WhatMakesTheStepHardlyShorterIsNotWorthAChoice) {
  MeasuredStep one = step(4);
  one.rest_s = 30;
  one.layers = {{"conv1", {{Algorithm::kDefault, 4, 6, 100}, {Algorithm::kGemm, 4, 5.3, 100}, {Algorithm::kOnednn, 4, 5, 50}}}};
  const MeasuredStep kept = worthwhile(one);  // 39 of 40
  EXPECT_EQ(names(kept), (std::vector{Algorithm::kDefault, Algorithm::kGemm, Algorithm::kOnednn}));
  one.rest_s = 60;  // 69 of 70
  EXPECT_EQ(names(worthwhile(one)), (std::vector{Algorithm::kDefault, Algorithm::kOnednn}));
  EXPECT_EQ(worthwhile(one).layers[0].algorithms[1].seconds(), 10) << "its workspace may be wanted, its luck is not";
  EXPECT_EQ(to_text(fastest_choice(one)), "");
  one.layers.push_back(one.layers[0]);
  one.layers.back().name = "conv2";  // 78 of 80
  EXPECT_EQ(to_text(fastest_choice(one)), "conv1=onednn,conv2=onednn");
  one.whole_gain = 1.03;
  EXPECT_EQ(to_text(fastest_choice(one)), "conv1=onednn,conv2=onednn");
  one.whole_gain = 1.01;
  EXPECT_EQ(to_text(fastest_choice(one)), "") << "whole steps were hardly faster";
}

// Layers promise that 8.5 of 78 are saved (3.5 of conv1, 5 of conv2); whole steps took 80, and 76 with the fastest algorithms.
TEST(StepTime, WhatWholeStepsTookCountsMoreThanWhatLayersAddUpTo) {
  MeasuredStep one{.model = "lenet", .mini_batch = 4, .step_s = 80, .rest_s = 58};
  one.layers = {{"conv1", {{Algorithm::kDefault, 4, 6, 0}, {Algorithm::kGemm, 4, 2.5, 0}}},
                {"conv2", {{Algorithm::kDefault, 4, 6, 0}, {Algorithm::kFft, 4, 1, 0}}}};
  using By = StepTime::By;
  const auto expect = [&](const model::ConvolutionChoice& choice, double seconds, By by) {
    const StepTime time = step_time(worthwhile(one), choice);
    EXPECT_NEAR(time.seconds, seconds, 1e-12);
    EXPECT_EQ(time.by, by);
  };
  const model::ConvolutionChoice both = {{"conv1", Algorithm::kGemm}, {"conv2", Algorithm::kFft}};
  const model::ConvolutionChoice half = {{"conv1", Algorithm::kDefault}, {"conv2", Algorithm::kFft}};
  expect(both, 58 + 6.5 + 5, By::kLayers);
  one.whole_gain = 80.0 / 76;
  expect(both, 76, By::kWholeSteps);
  expect({{"conv1", Algorithm::kDefault}, {"conv2", Algorithm::kDefault}}, 80, By::kWholeSteps);
  expect(half, 80 - 5 * 4 / 8.5, By::kBoth);  // of 8.5 that all layers promise 4 were saved
  one.whole_gain = 1.01;                      // not worth a choice: the default stays
  expect({{"conv1", Algorithm::kDefault}, {"conv2", Algorithm::kDefault}}, 80, By::kWholeSteps);
  one.layers[0].algorithms.erase(one.layers[0].algorithms.begin());
  one.whole_gain = 80.0 / 76;
  expect(both, 58 + 6.5 + 5, By::kLayers);  // nobody knows what of the step the default of conv1 was
}

}  // namespace
}  // namespace paceline::planner

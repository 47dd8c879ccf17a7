#include "trainer/measured_layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::trainer {
namespace {

using ::testing::Each;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(MeasuredLayers, HaveTheTimeOfEachLayerInForwardOrder) {
  const auto seconds = measure_layers({.task = {.model = "lenet", .mini_batch = 4, .iterations = kWorthMeasuring}});
  ASSERT_TRUE(seconds.ok()) << seconds.status().message();
  EXPECT_THAT(seconds->forward, SizeIs(4));
  EXPECT_THAT(seconds->backward, SizeIs(4));
  EXPECT_THAT(seconds->forward, Each(Ge(0)));
  EXPECT_THAT(seconds->backward, Each(Ge(0)));
  EXPECT_GT(seconds->total(), 0);
}

TEST(MeasuredLayers, AreNotMeasuredWhereNobodyAsksOrTheJobIsShort) {
  const auto measures = [](const job::JobSpec& settings) { return !measure_layers(settings)->empty(); };
  EXPECT_TRUE(measures({.task = {.model = "lenet", .mini_batch = 1, .epochs = 1}}));
  EXPECT_FALSE(measures({.task = {.model = "lenet", .mini_batch = 1, .iterations = kWorthMeasuring - 1}}));
  EXPECT_FALSE(measures({.task = {.model = "lenet", .mini_batch = 1}, .schedule = {.name = "p3"}}));
  EXPECT_FALSE(measures({.task = {.model = "lenet", .mini_batch = 1}, .loop = {.loop = job::Loop::kThree}}));
}

TEST(MeasuredLayers, RefuseWhatTheJobWouldRefuse) {
  EXPECT_THAT(measure_layers({.task = {.model = "lenot"}}).status().message(), HasSubstr("lenot"));
  EXPECT_THAT(measure_layers({.task = {.model = "lenet", .convolutions = {{"conv9", model::ConvolutionAlgorithm::kFft}}}})
                  .status()
                  .message(),
              HasSubstr("conv9"));
}

}  // namespace
}  // namespace paceline::trainer

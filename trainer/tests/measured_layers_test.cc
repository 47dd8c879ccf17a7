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
  const auto seconds = measure_layers({.model = "lenet", .mini_batch = 4, .iterations = kWorthMeasuring});
  ASSERT_TRUE(seconds.ok()) << seconds.status().message();
  EXPECT_THAT(seconds->forward, SizeIs(4));
  EXPECT_THAT(seconds->backward, SizeIs(4));
  EXPECT_THAT(seconds->forward, Each(Ge(0)));
  EXPECT_THAT(seconds->backward, Each(Ge(0)));
  EXPECT_GT(seconds->total(), 0);
}

TEST(MeasuredLayers, AreNotMeasuredWhereNobodyAsksOrTheJobIsShort) {
  const auto measures = [](const runtime::JobSettings& settings) { return !measure_layers(settings)->empty(); };
  EXPECT_TRUE(measures({.model = "lenet", .mini_batch = 1, .epochs = 1}));
  EXPECT_FALSE(measures({.model = "lenet", .mini_batch = 1, .iterations = kWorthMeasuring - 1}));
  EXPECT_FALSE(measures({.model = "lenet", .mini_batch = 1, .schedule = "p3"}));
  EXPECT_FALSE(measures({.model = "lenet", .mini_batch = 1, .collective = "loop3"}));
}

TEST(MeasuredLayers, RefuseWhatTheJobWouldRefuse) {
  EXPECT_THAT(measure_layers({.model = "lenot"}).status().message(), HasSubstr("lenot"));
  EXPECT_THAT(measure_layers({.model = "lenet", .convolutions = "conv1=quick"}).status().message(), HasSubstr("quick"));
}

}  // namespace
}  // namespace paceline::trainer

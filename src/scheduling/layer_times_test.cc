#include "scheduling/layer_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::scheduling {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;

TimePoint at(int milliseconds) { return TimePoint{} + std::chrono::milliseconds(milliseconds); }

TEST(LayerTimes, WhatIsWaitedForAtGatesIsNobodysTime) {
  LayerTimes times(3);
  times.on_gate(Layer{0}, at(1'000), at(1'010));
  times.on_gate(Layer{1}, at(1'015), at(1'100));
  times.on_gate(Layer{2}, at(1'120), at(1'120));
  EXPECT_TRUE(times.on_forward_done(at(1'150)));
  EXPECT_FALSE(times.on_forward_done(at(9'000)));  // the pass is over; what comes later is nobody's
  EXPECT_THAT(times.forward(), ElementsAre(DoubleEq(0.005), DoubleEq(0.020), DoubleEq(0.030)));
}

TEST(LayerTimes, TheTimeBeforeAGradientIsItsLayersAndTheRestTheLastOnes) {
  LayerTimes times(3);
  times.on_backward_begun(at(100));
  times.on_gradient(Layer{2}, at(104));
  times.on_gradient(Layer{2}, at(105));  // its second tensor
  times.on_gradient(Layer{0}, at(107));  // a branch
  times.on_gradient(Layer{1}, at(117));
  EXPECT_TRUE(times.on_backward_done(at(120)));
  EXPECT_THAT(times.backward(), ElementsAre(DoubleEq(0.002), DoubleEq(0.013), DoubleEq(0.005)));
}

TEST(LayerTimes, ALayerThatAPassDoesNotUseHasNoTime) {
  LayerTimes times(2);
  times.on_gate(Layer{1}, at(0), at(0));
  EXPECT_TRUE(times.on_forward_done(at(8)));
  times.on_backward_begun(at(8));
  times.on_gradient(Layer{1}, at(20));
  EXPECT_TRUE(times.on_backward_done(at(20)));
  EXPECT_THAT(times.forward(), ElementsAre(0.0, DoubleEq(0.008)));
  EXPECT_THAT(times.backward(), ElementsAre(0.0, DoubleEq(0.012)));
}

TEST(LayerTimes, GradientsWithoutABackwardPassAndAPassWithoutGradientsSayNothing) {
  LayerTimes times(1);
  times.on_gradient(Layer{0}, at(5));
  EXPECT_FALSE(times.on_backward_done(at(9)));
  times.on_backward_begun(at(10));
  EXPECT_FALSE(times.on_backward_done(at(20)));
  EXPECT_THAT(times.backward(), ElementsAre(0.0));
}

TEST(LayerTimes, PassesAddUpUntilTheyAreCleared) {
  LayerTimes times(1);
  for (int pass = 0; pass < 2; ++pass) {
    times.on_gate(Layer{0}, at(100 * pass), at(100 * pass));
    EXPECT_TRUE(times.on_forward_done(at(100 * pass + 10)));
    times.on_backward_begun(at(100 * pass + 10));
    times.on_gradient(Layer{0}, at(100 * pass + 30));
    EXPECT_TRUE(times.on_backward_done(at(100 * pass + 30)));
  }
  EXPECT_THAT(times.forward(), ElementsAre(DoubleEq(0.020)));
  times.clear_forward();
  EXPECT_THAT(times.forward(), ElementsAre(0.0));
  EXPECT_THAT(times.backward(), ElementsAre(DoubleEq(0.040)));
  times.clear_backward();
  EXPECT_THAT(times.backward(), ElementsAre(0.0));
}

}  // namespace
}  // namespace paceline::scheduling

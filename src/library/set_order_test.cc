// The order in which a worker needs its layers.
#include <gmock/gmock.h>

#include "library/one_worker_testing.h"

namespace paceline::library::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(SetOrder, AnOrderNamesEveryLayerOnce) {
  OneWorker one;
  one.join();
  Error error;
  const auto told = [&](std::vector<std::int32_t> layers) {
    return paceline_set_order(one.worker, layers.data(), layers.size(), error);
  };
  EXPECT_DONE(told({1, 0}));
  EXPECT_REFUSED(told({1, 1}), "illegal");
  EXPECT_THAT(said(error), HasSubstr("layer 1 is in an order of layers twice"));
  EXPECT_STREQ("layers", error.subject);
  EXPECT_REFUSED(told({1}), "illegal");
  EXPECT_REFUSED(told({0, 2}), "illegal");
  EXPECT_REFUSED(paceline_set_order(one.worker, nullptr, 2, error), "null");
}

TEST(SetOrder, TrainingGoesOnWithTheSameValues) {
  OneWorker one;
  one.join();
  Error error;
  for (std::int64_t iteration = 1; iteration <= 4; ++iteration) {
    const std::int32_t order[] = {iteration % 2 == 0 ? 0 : 1, iteration % 2 == 0 ? 1 : 0};
    ASSERT_DONE(paceline_set_order(one.worker, order, 2, error));
    one.train(iteration, {1, 2, 3});
  }
  ASSERT_DONE(paceline_wait_all(one.worker, 4, INFINITY, error));
  EXPECT_THAT(one.values(), ElementsAre(6, 12, 18));
}

}  // namespace
}  // namespace paceline::library::testing

#include "scheduling/urgency.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::scheduling {
namespace {

using ::testing::HasSubstr;

Unit unit_of(std::int32_t first, std::int32_t last) { return {.layer = Layer{first}, .last_layer = Layer{last}}; }

TEST(Urgency, IsTheTablesOrderUntilAnotherIsTold) {
  Urgency urgency(4);
  for (std::int32_t layer = 0; layer < 4; ++layer) EXPECT_EQ(urgency.of(unit_of(layer, layer)), Layer{layer});
  ASSERT_TRUE(urgency.set(std::vector<std::int32_t>{3, 1, 0, 2}).ok());
  EXPECT_EQ(urgency.of(unit_of(3, 3)), Layer{0});
  EXPECT_EQ(urgency.of(unit_of(0, 0)), Layer{2});
  EXPECT_EQ(urgency.of(unit_of(0, 2)), Layer{1}) << "merged layers are as urgent as the one of them that is needed first";
}

TEST(Urgency, WhatIsNoOrderChangesNothing) {
  Urgency urgency(3);
  ASSERT_TRUE(urgency.set(std::vector<std::int32_t>{2, 0, 1}).ok());
  const auto refused = [&](std::vector<std::int32_t> order, const char* why) {
    const Status status = urgency.set(order);
    EXPECT_EQ(status.kind(), ErrorKind::kBadRequest);
    EXPECT_THAT(status.message(), HasSubstr(why));
    EXPECT_EQ(urgency.of(unit_of(2, 2)), Layer{0});
  };
  refused({0, 1}, "an order of 2 layers; the job has 3");
  refused({0, 1, 1}, "layer 1 is in an order of layers twice");
  refused({0, 1, 3}, "layer 3 in an order of layers does not exist");
  refused({0, 1, -1}, "layer -1 in an order of layers does not exist");
}

}  // namespace
}  // namespace paceline::scheduling

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exchange/gate_ledger.h"
#include "job/testing_jobs.h"

namespace paceline::exchange {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Complete = GateLedger::Complete;

TEST(GateLedger, WhatIsFrozenIsAwaitedOnceAndHasNoGradient) {
  wire::TensorTable table = job::testing::table_of({{2}, {3}});
  table.tensors[1].frozen = true;
  const auto plan = job::Plan::make(table, {}).value();
  GateLedger gates(plan, Rank{0}, GateLedger::Rule::kEverything);
  std::vector<Complete> complete;
  gates.on_value(0);
  EXPECT_FALSE(gates.open(Layer{1}, 1)) << "the initial value comes like all others";
  EXPECT_EQ(gates.missing(std::nullopt), 1U);
  gates.on_value(1);
  for (Iteration iteration = 1; iteration <= 3; ++iteration) {
    EXPECT_TRUE(gates.all_open(iteration));
    EXPECT_THAT(gates.on_gradient(1, complete).message(), HasSubstr("\"layer1.tensor0\""));
    EXPECT_THAT(gates.on_gradient(1, complete).message(), HasSubstr("which is frozen"));
    ASSERT_TRUE(gates.on_gradient(0, complete).ok());
    const std::vector<std::uint32_t> called = {1};
    const auto unused = std::span(called).first(iteration == 2 ? 1 : 0);
    ASSERT_TRUE(gates.on_backward_done(iteration, unused, complete).ok()) << "it may be called unused, or not";
    EXPECT_THAT(complete, ElementsAre(Complete{0, 0}));
    complete.clear();
    gates.next_iteration();
    EXPECT_TRUE(gates.open(Layer{1}, iteration)) << "of the iteration before";
    EXPECT_EQ(gates.missing(Layer{1}), 0U) << "nothing of it is missing";
    gates.on_value(0);
    gates.on_free(0);
  }
}

TEST(GateLedger, AnEndOfBackwardIsCheckedBeforeWhatIsHeldBackIsReady) {
  GateLedger gates(job::Plan::make(job::testing::table_of({{2}, {2}, {2}}), {}).value(), Rank{0}, GateLedger::Rule::kEverything);
  std::vector<Complete> complete;
  ASSERT_TRUE(gates.on_gradient(2, complete).ok());
  const std::vector<std::uint32_t> held_back = {0}, unused = {1}, none;
  EXPECT_TRUE(gates.check_backward(1, unused, held_back).ok());
  EXPECT_THAT(gates.check_backward(1, none, held_back).message(), HasSubstr("neither a gradient nor is it called unused"));
  EXPECT_THAT(gates.check_backward(2, unused, held_back).message(), HasSubstr("over in iteration 1"));
  EXPECT_THAT(gates.check_backward(1, held_back, held_back).message(), HasSubstr("has a gradient"));
  EXPECT_THAT(gates.check_backward(1, unused, std::vector<std::uint32_t>{0, 0}).message(), HasSubstr("came twice"));
  EXPECT_TRUE(gates.on_gradient(0, complete).ok()) << "looking changes nothing";
}

}  // namespace
}  // namespace paceline::exchange

#include "exchange/optimizer_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/testing_jobs.h"

namespace paceline::exchange::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Three tensors on two servers.
std::shared_ptr<const job::Plan> plan_with(tensor::OptimizerKind kind, scheduling::Cut cut) {
  job::PlanOptions options;
  options.workers = options.servers = 2;
  options.schedule.cut = cut;
  options.update.optimizer.kind = kind;
  return *job::Plan::make(job::testing::table_of({{10, 3}, {25}}), options);
}

OptimizerState numbered(int planes) {
  std::vector<OptimizerState::Known> all;
  float next = 1;
  for (const std::size_t elements : {10U, 3U, 25U}) {
    OptimizerState::Known& known = all.emplace_back();
    known.steps = static_cast<std::int64_t>(100 + all.size());
    for (int plane = 0; plane < planes; ++plane) {
      auto& numbers = known.planes.emplace_back(elements);
      for (float& number : numbers) number = next++;
    }
  }
  return OptimizerState(std::move(all));
}

void expect_same(const OptimizerState& expected, const OptimizerState& actual) {
  for (std::uint32_t tensor = 0; tensor < 3; ++tensor) {
    EXPECT_EQ(expected.of(tensor).steps, actual.of(tensor).steps) << "tensor " << tensor;
    EXPECT_EQ(expected.of(tensor).planes, actual.of(tensor).planes) << "tensor " << tensor;
  }
}

TEST(OptimizerState, ComesBackFromTheServersAsItWasGivenHoweverTensorsAreCut) {
  using Kind = tensor::OptimizerKind;
  using scheduling::Cut;
  for (const auto& [kind, planes] : {std::pair(Kind::kSgd, 0), std::pair(Kind::kMomentum, 1), std::pair(Kind::kAdam, 2)}) {
    for (const Cut& cut : {Cut{Cut::Kind::kSlices, 7, 0}, Cut{Cut::Kind::kTensors, 0, 1000}, scheduling::whole_tensors()}) {
      const auto plan = plan_with(kind, cut);
      const OptimizerState given = numbered(planes);
      ASSERT_TRUE(given.check(*plan).ok());
      OptimizerState back;
      back.clear(*plan);
      for (const Rank server : plan->servers_with_units()) {
        Shard shard(plan, plan->units().moving_of(server));
        for (const std::uint32_t unit : plan->units().moving_of(server)) {
          std::vector<std::byte> bytes(state_bytes(*plan, unit));
          given.write(*plan, unit, bytes);
          ASSERT_TRUE(read_state(*plan, unit, bytes, shard).ok());
          std::vector<std::byte> sent(bytes.size());
          write_state(*plan, unit, shard, sent);
          EXPECT_EQ(bytes, sent);
          back.read(*plan, unit, sent);
        }
      }
      expect_same(given, back);
    }
  }
}

TEST(OptimizerState, OfWhatNothingIsKnownIsSentAsZeros) {
  const auto plan = plan_with(tensor::OptimizerKind::kAdam, scheduling::whole_tensors());
  const OptimizerState nothing(std::vector<OptimizerState::Known>(3));
  EXPECT_TRUE(nothing.empty());
  std::vector<std::byte> bytes(state_bytes(*plan, 1), std::byte{7});
  nothing.write(*plan, 1, bytes);
  EXPECT_EQ(std::vector<std::byte>(sizeof(std::int64_t) + 2 * 3 * sizeof(float)), bytes);
}

TEST(OptimizerState, PartsThatHaveMadeDifferentStepsGiveTheLargest) {
  const auto plan = plan_with(tensor::OptimizerKind::kSgd, {scheduling::Cut::Kind::kSlices, 7, 0});
  OptimizerState heard;
  heard.clear(*plan);
  std::int64_t steps = 3;
  for (const auto& part : plan->units().parts) {
    if (part.tensor == 2) heard.read(*plan, part.unit, std::as_bytes(std::span(&steps, 1)));
    if (part.tensor == 2) steps = steps == 3 ? 5 : 4;
  }
  EXPECT_EQ(heard.of(2).steps, 5);
}

TEST(OptimizerState, ThatIsNoneIsRefusedAndChangesNothing) {
  const auto plan = plan_with(tensor::OptimizerKind::kMomentum, {scheduling::Cut::Kind::kTensors, 0, 1000});
  Shard shard(plan, plan->units().moving_of(Rank{0}));
  OptimizerState state = numbered(1);
  state.of(1).steps = -2;
  std::vector<std::byte> bytes(state_bytes(*plan, 0));
  state.write(*plan, 0, bytes);
  const Status status = read_state(*plan, 0, bytes, shard);
  EXPECT_EQ(status.kind(), ErrorKind::kBadRequest);
  EXPECT_THAT(status.message(), HasSubstr("\"layer0.tensor1\""));
  EXPECT_THAT(status.message(), HasSubstr("is of -2 steps"));
  EXPECT_EQ(shard.save(0).steps, 0);

  EXPECT_THAT(numbered(2).check(*plan).message(), HasSubstr("\"layer0.tensor0\" has 2 arrays; the job's optimizer has 1"));
}

}  // namespace
}  // namespace paceline::exchange::testing

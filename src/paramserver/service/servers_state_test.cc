// A worker that asks for the optimizer's state, and the servers played by the test.
#include "paramserver/service/servers_state.h"

#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/testing_jobs.h"
#include "paramserver/service/testing.h"

namespace paceline::paramserver {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

struct Asked final : session::Sender {
  void send(Rank to, const wire::MessageHead& head, std::span<const std::byte>, std::uint64_t) override {
    EXPECT_EQ(head.kind, wire::MessageKind::kStateAsked);
    servers.push_back(to.value);
  }
  std::vector<std::int32_t> servers;
};

// Two tensors, one on each of two servers, with a momentum.
class AskedState : public ::testing::Test {
 protected:
  AskedState() {
    job::PlanOptions options;
    options.servers = 2;
    options.schedule.cut = scheduling::whole_tensors();
    options.update.optimizer.kind = tensor::OptimizerKind::kMomentum;
    plan_ = *job::Plan::make(job::testing::table_of({{3}, {2}}), options);
    house_ = std::make_unique<exchange::Gatehouse>(plan_, Rank{0}, exchange::GateLedger::Rule::kOwnUnits, loop_,
                                                   exchange::GatehouseOptions{.stall_deadline = 60s, .on_failed = {}});
    asked_ = std::make_unique<ServersState>(*house_, sender_, exchange::TensorMemory(plan_, parameters_, gradients_, &state_));
  }
  Rank home(std::uint32_t unit) const { return plan_->units().units[unit].server; }
  Result<std::span<std::byte>> begin(Rank from, std::uint32_t unit, std::size_t missing = 0) {
    const std::size_t bytes = unit < plan_->units().units.size() ? exchange::state_bytes(*plan_, unit) : 8;
    return asked_->place(from, wire::State{.unit = unit}, bytes - missing);
  }
  Status end(std::uint32_t unit) { return asked_->on_state(home(unit), wire::State{.unit = unit}); }
  void answer(std::uint32_t unit, float number) {
    const auto place = begin(home(unit), unit);
    ASSERT_TRUE(place.ok()) << place.status().message();
    exchange::OptimizerState sent;
    sent.clear(*plan_);
    sent.of(unit).steps = 4;
    std::ranges::fill(sent.of(unit).planes[0], number);
    sent.write(*plan_, unit, *place);
    ASSERT_TRUE(end(unit).ok());
  }
  void next_iteration() {
    const auto lock = house_->lock();
    for (const std::uint32_t unit : {0U, 1U}) house_->gates().on_value(unit);
    house_->gates().next_iteration();
  }

  testing::HandLoop loop_;
  Asked sender_;
  std::shared_ptr<const job::Plan> plan_;
  std::array<float, 5> parameters_{}, gradients_{};
  exchange::OptimizerState state_;
  std::unique_ptr<exchange::Gatehouse> house_;
  std::unique_ptr<ServersState> asked_;
};

TEST_F(AskedState, IsThereWhenEveryServerHasSentIt) {
  for (int again = 0; again < 3; ++again) EXPECT_FALSE(*asked_->gather(0s));
  EXPECT_EQ(sender_.servers, (std::vector<std::int32_t>{0, 1})) << "each server is asked once";
  answer(1, 5);
  EXPECT_FALSE(*asked_->gather(0s));
  answer(0, 6);
  EXPECT_TRUE(*asked_->gather(0s));
  EXPECT_EQ(state_.of(0).planes[0], std::vector<float>(3, 6));
  EXPECT_EQ(state_.of(1).planes[0], std::vector<float>(2, 5));
  EXPECT_EQ(state_.of(1).steps, 4);
}

TEST_F(AskedState, IsAskedForAgainEachTime) {
  for (const float number : {1.0F, 2.0F}) {
    EXPECT_FALSE(*asked_->gather(0s));
    answer(0, number);
    answer(1, number);
    EXPECT_TRUE(*asked_->gather(0s));
    EXPECT_EQ(state_.of(0).planes[0], std::vector<float>(3, number));
  }
  EXPECT_EQ(sender_.servers.size(), 4U);
}

TEST_F(AskedState, OfAnIterationThatIsOverIsNotTakenForThisOne) {
  EXPECT_FALSE(*asked_->gather(0s));
  next_iteration();  // and nobody has waited for the end
  EXPECT_FALSE(*asked_->gather(0s));
  EXPECT_EQ(sender_.servers.size(), 2U) << "what was asked for comes first";
  answer(0, 1);
  answer(1, 1);
  EXPECT_FALSE(*asked_->gather(0s));
  EXPECT_EQ(sender_.servers.size(), 4U);
  answer(0, 2);
  answer(1, 2);
  EXPECT_TRUE(*asked_->gather(0s));
  EXPECT_EQ(state_.of(0).planes[0], std::vector<float>(3, 2));
}

TEST_F(AskedState, ThatNobodyAwaitsIsRefused) {
  const auto refused = [&](Rank server, std::uint32_t unit, std::size_t missing = 0) {
    return begin(server, unit, missing).status().kind() == ErrorKind::kBadRequest;
  };
  EXPECT_TRUE(refused(home(0), 0)) << "not asked for";
  EXPECT_FALSE(*asked_->gather(0s));
  EXPECT_TRUE(refused(home(1), 0)) << "of another server";
  EXPECT_TRUE(refused(home(0), 0, 4)) << "too short";
  EXPECT_TRUE(refused(home(0), 2)) << "there is no such unit";
  EXPECT_EQ(end(0).kind(), ErrorKind::kBadRequest) << "it has not begun";
  ASSERT_TRUE(begin(home(0), 0).ok());
  EXPECT_TRUE(refused(home(0), 0)) << "twice";
  ASSERT_TRUE(end(0).ok());
  EXPECT_TRUE(refused(home(0), 0)) << "again";
}

TEST_F(AskedState, ThatDoesNotComeSaysWhoIsAwaited) {
  EXPECT_FALSE(*asked_->gather(0s));
  answer(0, 1);
  loop_.advance(61s);
  const auto over = asked_->gather(exchange::Gatehouse::kNoLimit);
  EXPECT_EQ(over.status().kind(), ErrorKind::kDeadline);
  EXPECT_THAT(over.status().message(), HasSubstr("server 1 to send the optimizer's state of layer 1 \"layer1\""));
}

}  // namespace
}  // namespace paceline::paramserver

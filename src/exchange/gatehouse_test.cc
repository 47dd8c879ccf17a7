// Who is late is found out while a wait goes on.
#include "exchange/gatehouse.h"

#include <array>
#include <functional>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include "base/log.h"
#include "exchange/exchange_testing.h"

namespace paceline::exchange {
namespace {

using namespace std::chrono_literals;
using namespace testing;
using ::testing::HasSubstr;
using ::testing::Not;

// What is posted runs when the test says so: a loop's thread does not run within a wait's lock.
class PostingLoop final : public paramserver::testing::HandLoop {
 public:
  void post(std::function<void()> work) override { posted_.push_back(std::move(work)); }
  void run_posted() {
    for (const auto& work : std::exchange(posted_, {})) work();
  }

 private:
  std::vector<std::function<void()>> posted_;
};

// Worker 0 of a job with three workers and one server, which has told the gradients of iteration 1 and waits for their sum. Each
// wait takes a second.
class GatehouseLate : public ::testing::Test {
 protected:
  GatehouseLate() : before_(log::logger()) {
    log::set_logger(std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(logged_)));
    job::PlanOptions options;
    options.workers = 3;
    options.schedule = scheduling::layer_wise();
    const auto plan = *job::Plan::make(job::testing::table_of({{8}}), options);
    auto house = std::make_unique<Gatehouse>(plan, Rank{0}, paramserver::gate_rule(options.schedule), loop_,
                                             GatehouseOptions{.stall_deadline = 60s,
                                                              .on_failed = [this](const Status& reason) { failed_ = reason; },
                                                              .ask_reached = [this] { ++asked_; }});
    house_ = house.get();
    auto carrier = std::make_unique<paramserver::ServerCarrier>(*house, server_, TensorMemory(plan, parameters_, gradients_));
    exchange_ = std::make_unique<GradientExchange>(std::move(house), std::move(carrier));
    EXPECT_FALSE(*exchange_->start(0s));
    server_.answer(*exchange_);
    EXPECT_TRUE(*exchange_->start(0s));
    iterate(1);
    loop_.tick = 10ms;
  }
  ~GatehouseLate() override { log::set_logger(before_); }

  void iterate(Iteration iteration) {
    EXPECT_TRUE(*exchange_->wait_layer(Layer{0}, iteration, 0s));
    loop_.advance(2s);
    EXPECT_TRUE(exchange_->gradient_ready(0).ok());
    EXPECT_TRUE(exchange_->backward_done(iteration).ok());
  }
  Result<bool> wait() {
    const auto over = exchange_->wait_layer(Layer{0}, 2, 1s);
    loop_.run_posted();
    return over;
  }
  // Until the workers are asked.
  void wait_until_asked() {
    const int before = asked_;
    for (int slice = 0; asked_ == before; ++slice) {
      const auto over = wait();
      ASSERT_TRUE(over.ok()) << over.status().message();
      ASSERT_FALSE(*over);
      ASSERT_LT(slice, 100);
    }
  }
  void answer(std::int32_t rank, Iteration reached) { house_->on_reached(Rank{rank}, reached); }

  std::shared_ptr<spdlog::logger> before_;
  std::ostringstream logged_;
  PostingLoop loop_;
  HandServer server_;
  std::array<float, 8> parameters_{}, gradients_{};
  int asked_ = 0;
  Status failed_;
  std::unique_ptr<GradientExchange> exchange_;
  Gatehouse* house_ = nullptr;  // its
};

TEST_F(GatehouseLate, IsNamedInTheWarningAndInTheError) {
  wait_until_asked();
  for (const std::int32_t rank : {2, 0}) answer(rank, 2);
  EXPECT_EQ(logged_.str(), "");
  answer(1, 1);
  EXPECT_THAT(logged_.str(),
              HasSubstr("after iteration 1, which waits for rank 1: its gradients of iteration 1 are missing; an iteration"));
  wait_until_asked();
  EXPECT_TRUE(failed_.ok());
  for (const std::int32_t rank : {0, 2}) answer(rank, 2);
  answer(1, 1);
  EXPECT_EQ(failed_.kind(), ErrorKind::kDeadline);
  EXPECT_THAT(failed_.message(),
              HasSubstr("which waits for rank 1: its gradients of iteration 1 are missing; --stall-deadline is 60"));
  EXPECT_EQ(wait().status().message(), failed_.message());
}

TEST_F(GatehouseLate, IsSilentWhereTheOthersAnswered) {
  wait_until_asked();
  for (const std::int32_t rank : {0, 1}) answer(rank, 2);
  loop_.fire_timers();
  EXPECT_THAT(logged_.str(), HasSubstr("after iteration 1; rank 2 does not answer; an iteration takes"));
}

TEST_F(GatehouseLate, AWaitThatIsOverMeanwhileGoesOn) {
  for (int i = 0; i < 2; ++i) {  // the warning, the stall
    wait_until_asked();
    if (i == 0) loop_.fire_timers();
  }
  server_.answer(*exchange_);
  EXPECT_TRUE(*wait());
  for (const std::int32_t rank : {0, 1, 2}) answer(rank, 2);
  EXPECT_TRUE(failed_.ok()) << failed_.message();
  iterate(2);
}

TEST_F(GatehouseLate, IsNobodyWhenNobodyCanBeAsked) {
  wait_until_asked();
  loop_.fire_timers();
  EXPECT_THAT(logged_.str(), HasSubstr("after iteration 1; an iteration takes"));
  wait_until_asked();
  loop_.fire_timers();
  EXPECT_THAT(failed_.message(), HasSubstr("after iteration 1; --stall-deadline is 60"));
}

}  // namespace
}  // namespace paceline::exchange

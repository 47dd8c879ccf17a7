// Waits that a limit cuts short, and what the child of a fork may do.
#include <array>

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exchange/exchange_testing.h"

namespace paceline::exchange {
namespace {

using namespace std::chrono_literals;
using namespace testing;
using ::testing::HasSubstr;

// Worker 0 of a job with one server and two layers.
class ExchangeWait : public ::testing::Test {
 protected:
  ExchangeWait() {
    job::PlanOptions options;
    options.schedule = scheduling::layer_wise();
    plan_ = *job::Plan::make(job::testing::table_of({{8}, {16}}), options);
    exchange_ = exchange_by(server_, plan_, loop_, parameters_, gradients_);
  }

  void start() {
    ASSERT_FALSE(*exchange_->start(0s));
    server_.answer(*exchange_);
    ASSERT_TRUE(*exchange_->start(0s));
  }
  void iterate(Iteration iteration) {
    for (Layer layer{0}; layer.index < 2; ++layer.index) ASSERT_TRUE(*exchange_->wait_layer(layer, iteration, 0s));
    loop_.advance(2s);
    for (std::uint32_t tensor : {1U, 0U}) ASSERT_TRUE(exchange_->gradient_ready(tensor).ok());
    ASSERT_TRUE(exchange_->backward_done(iteration).ok());
  }

  paramserver::testing::HandLoop loop_;
  HandServer server_;
  std::shared_ptr<const job::Plan> plan_;
  std::array<float, 24> parameters_{}, gradients_{};
  std::unique_ptr<GradientExchange> exchange_;
};

TEST_F(ExchangeWait, OnlyTheFirstStartSendsTheInitialValues) {
  EXPECT_FALSE(*exchange_->start(0s));
  EXPECT_EQ(server_.sent().size(), 2U);
  EXPECT_FALSE(*exchange_->start(0s));
  EXPECT_EQ(server_.sent().size(), 2U);
  server_.answer(*exchange_);
  EXPECT_TRUE(*exchange_->start(0s));
}

TEST_F(ExchangeWait, EveryWaitMayBeAskedAgainUntilItIsOver) {
  start();
  iterate(1);
  for (int again = 0; again < 3; ++again) {
    EXPECT_FALSE(*exchange_->wait_layer(Layer{1}, 2, 0s));
    EXPECT_FALSE(*exchange_->wait_all(1, 0s));
    EXPECT_FALSE(*exchange_->finish(1, 0s));
    EXPECT_FALSE(*exchange_->wait_free(Layer{0}, 0s));
    EXPECT_FALSE(*exchange_->wait_free(std::nullopt, 0s));
    EXPECT_EQ(*exchange_->next_mini_batch(0s), std::nullopt);
  }
  server_.answer(*exchange_);
  EXPECT_TRUE(*exchange_->wait_layer(Layer{1}, 2, 0s));
  EXPECT_TRUE(*exchange_->wait_all(1, 0s));
  EXPECT_TRUE(*exchange_->wait_free(Layer{0}, 0s));
  EXPECT_TRUE(*exchange_->wait_free(std::nullopt, 0s));
  EXPECT_TRUE(*exchange_->finish(1, 0s));
}

TEST_F(ExchangeWait, CountsInTheAccountFromWhereItBegan) {
  start();
  iterate(1);
  for (int slice = 0; slice < 4; ++slice) {
    EXPECT_FALSE(*exchange_->wait_layer(Layer{0}, 2, 0s));
    loop_.advance(1s);
  }
  server_.answer(*exchange_);
  EXPECT_TRUE(*exchange_->wait_layer(Layer{0}, 2, 0s));
  EXPECT_TRUE(*exchange_->wait_layer(Layer{1}, 2, 0s));
  const exchange::Account account = exchange_->take_account();
  EXPECT_EQ(account.push + account.update + account.wait + account.pull, 4s);
}

TEST_F(ExchangeWait, ForATensorsGradientIsNotOneForItsLayers) {
  plan_ = *job::Plan::make(job::testing::table_of({{8, 16}}), plan_->options());
  exchange_ = exchange_by(server_, plan_, loop_, parameters_, gradients_);
  start();
  ASSERT_TRUE(*exchange_->wait_layer(Layer{0}, 1, 0s));
  ASSERT_TRUE(exchange_->gradient_ready(0).ok());
  EXPECT_FALSE(*exchange_->wait_free(Layer{0}, 0s)) << "the other tensor's gradient is on its way";
  EXPECT_TRUE(exchange_->wait_gradient_free(1).ok());
  loop_.tick = 10ms;
  EXPECT_THAT(exchange_->wait_gradient_free(0).message(), HasSubstr("server 0 to receive the gradient of layer 0"));
}

TEST_F(ExchangeWait, ReachesTheStallDeadlineAlsoInSlices) {
  start();
  iterate(1);
  loop_.tick = 10ms;
  int slices = 0;
  Result<bool> over = false;
  while (over = exchange_->wait_layer(Layer{1}, 2, 1s), over.ok()) {
    ASSERT_FALSE(*over);
    ASSERT_LT(++slices, 60);
  }
  EXPECT_GT(slices, 50);
  EXPECT_THAT(over.status().message(), HasSubstr("worker 0 waited 60"));
  EXPECT_THAT(over.status().message(), HasSubstr("server 0 to send the value of layer 1 \"layer1\" after iteration 1"));
}

TEST_F(ExchangeWait, IsForgottenWhenItsSecondCallFindsItOver) {
  start();
  iterate(1);
  EXPECT_FALSE(*exchange_->wait_free(std::nullopt, 0s));
  loop_.advance(50s);
  server_.deliver(*exchange_);
  EXPECT_TRUE(*exchange_->wait_free(std::nullopt, 0s));
  const TimePoint begin = loop_.now();
  loop_.tick = 10ms;
  EXPECT_THAT(exchange_->wait_layer(Layer{0}, 2).message(), HasSubstr("worker 0 waited 60"));
  EXPECT_GE(loop_.now() - begin, 60s);
}

TEST_F(ExchangeWait, OfOneGateIsNotThatOfAnother) {
  start();
  iterate(1);
  EXPECT_FALSE(*exchange_->wait_free(std::nullopt, 0s));
  loop_.advance(120s);  // an evaluation
  const TimePoint begin = loop_.now();
  loop_.tick = 10ms;
  EXPECT_FALSE(*exchange_->wait_layer(Layer{1}, 2, 20s));
  EXPECT_THAT(exchange_->wait_layer(Layer{0}, 2).message(), HasSubstr("worker 0 waited 60"));
  EXPECT_GE(loop_.now() - begin, 80s);
}

TEST_F(ExchangeWait, TheChildOfAForkIsRefusedEverythingAndTouchesNothing) {
  start();
  iterate(1);
  const std::size_t sent = server_.sent().size();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto refused = [](const Status& status) {
      return status.kind() == ErrorKind::kCancelled && status.message().find("forked from that of worker 0") != std::string::npos;
    };
    exchange::Verdict verdict;
    bool inert = refused(exchange_->wait_layer(Layer{0}, 2)) && refused(exchange_->wait_all(1)) && refused(exchange_->start()) &&
                 refused(exchange_->finish(1)) && refused(exchange_->gradient_ready(0)) && refused(exchange_->backward_done(2)) &&
                 refused(exchange_->wait_gradients_free()) && refused(exchange_->wait_gradient_free(0)) &&
                 refused(exchange_->next_mini_batch().status()) && refused(exchange_->wait_verdict(1, verdict));
    exchange_->cancel(error(ErrorKind::kCancelled, "the child's"));
    exchange_->forward_done();
    exchange_->read_ahead({});
    inert = inert && !exchange_->gradients_free(Layer{0}) && exchange_->take_account().bytes_pushed == 0 && !exchange_->batches();
    exchange_.reset();
    ::_exit(inert && server_.sent().size() == sent ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  server_.answer(*exchange_);
  EXPECT_TRUE(*exchange_->wait_all(1, 0s)) << "the parent goes on";
}

}  // namespace
}  // namespace paceline::exchange

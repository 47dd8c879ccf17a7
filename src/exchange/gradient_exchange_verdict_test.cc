// Waits for verdicts.
#include <array>

#include <gmock/gmock.h>

#include "exchange/exchange_testing.h"

namespace paceline::exchange {
namespace {

using namespace std::chrono_literals;
using namespace testing;
using ::testing::HasSubstr;

// Worker 0 of a job with one server and two tensors.
class ExchangeVerdict : public ::testing::Test {
 protected:
  explicit ExchangeVerdict(bool verdict = true) {
    job::PlanOptions options;
    options.schedule = scheduling::layer_wise();
    options.update.optimizer.kind = tensor::OptimizerKind::kMean;
    options.update.verdict = verdict;
    plan_ = *job::Plan::make(job::testing::table_of({{8}, {16}}), options);
    exchange_ = exchange_by(server_, plan_, loop_, parameters_, gradients_);
  }
  void begin() {
    ASSERT_FALSE(*exchange_->start(0s));
    server_.answer(*exchange_);
    ASSERT_TRUE(*exchange_->start(0s));
  }
  void iterate(Iteration iteration) {
    ASSERT_TRUE(*exchange_->wait_all(iteration - 1, 0s));
    for (std::uint32_t tensor : {1U, 0U}) ASSERT_TRUE(exchange_->gradient_ready(tensor).ok());
    ASSERT_TRUE(exchange_->backward_done(iteration).ok());
  }
  exchange::VerdictPart part_with(float value) const {
    exchange::VerdictPart part(2);
    EXPECT_TRUE(part.add(std::span(&value, 1)));
    return part;
  }

  paramserver::testing::HandLoop loop_;
  HandServer server_;
  std::shared_ptr<const job::Plan> plan_;
  std::array<float, 24> parameters_{}, gradients_{};
  std::unique_ptr<GradientExchange> exchange_;
  exchange::Verdict verdict_;
};

TEST_F(ExchangeVerdict, ComesAfterTheMeansAndHoldsNoneBack) {
  begin();
  iterate(1);
  server_.answer(*exchange_);
  EXPECT_TRUE(*exchange_->wait_layer(Layer{0}, 2, 0s)) << "means do not wait for the verdict";
  for (int again = 0; again < 3; ++again) EXPECT_FALSE(*exchange_->wait_verdict(1, 0s, verdict_));
  server_.tell(*exchange_, 1, part_with(3));
  EXPECT_TRUE(*exchange_->wait_verdict(1, 0s, verdict_));
  EXPECT_EQ(verdict_.square_sum, 9);
  EXPECT_TRUE(exchange_->wait_verdict(1, verdict_).ok()) << "it may be asked for again";

  // Who does not ask goes on; and a verdict may come before backward is over.
  iterate(2);
  server_.answer(*exchange_);
  server_.tell(*exchange_, 2, part_with(4));
  ASSERT_TRUE(*exchange_->wait_all(2, 0s));
  for (std::uint32_t tensor : {1U, 0U}) ASSERT_TRUE(exchange_->gradient_ready(tensor).ok());
  server_.tell(*exchange_, 3, part_with(5));
  ASSERT_TRUE(exchange_->backward_done(3).ok());
  EXPECT_TRUE(*exchange_->wait_verdict(3, 0s, verdict_));
  EXPECT_EQ(verdict_.square_sum, 25);
}

TEST_F(ExchangeVerdict, IsRefusedForAnotherIterationThanTheLast) {
  begin();
  EXPECT_THAT(exchange_->wait_verdict(1, verdict_).message(), HasSubstr("waits for the verdict of iteration 1 in iteration 1"));
  iterate(1);
  EXPECT_EQ(exchange_->wait_verdict(0, verdict_).kind(), ErrorKind::kBadRequest);
  EXPECT_EQ(exchange_->wait_verdict(2, verdict_).kind(), ErrorKind::kBadRequest);
}

TEST_F(ExchangeVerdict, ReachesTheStallDeadlineAndNamesTheServer) {
  begin();
  iterate(1);
  loop_.tick = 10ms;
  const Status late = exchange_->wait_verdict(1, verdict_);
  EXPECT_EQ(late.kind(), ErrorKind::kDeadline);
  EXPECT_THAT(late.message(), HasSubstr("server 0 to tell its verdict of iteration 1; --stall-deadline is"));
}

TEST_F(ExchangeVerdict, EndsWithTheReasonOfACancel) {
  begin();
  iterate(1);
  exchange_->cancel(error(ErrorKind::kPeerLost, "gone"));
  EXPECT_EQ(exchange_->wait_verdict(1, verdict_).message(), "gone");
}

TEST_F(ExchangeVerdict, OfAServerThatTellsTwiceEndsTheJob) {
  begin();
  iterate(1);
  server_.tell(*exchange_, 1, part_with(3));
  server_.tell(*exchange_, 1, part_with(3));
  EXPECT_THAT(exchange_->wait_all(1).message(), HasSubstr("server 0 told its verdict of iteration 1"));
}

class ExchangeWithoutVerdict : public ExchangeVerdict {
 protected:
  ExchangeWithoutVerdict() : ExchangeVerdict(false) {}
};

TEST_F(ExchangeWithoutVerdict, RefusesToWaitForOneAndToTakeOne) {
  begin();
  iterate(1);
  EXPECT_THAT(exchange_->wait_verdict(1, verdict_).message(), HasSubstr("tells no verdicts"));
  const wire::MessageHead head{.kind = wire::MessageKind::kVerdict, .iteration = 1, .payload_bytes = part_with(1).bytes()};
  EXPECT_FALSE(exchange_->carrier().on_message_begin(Rank{0}, head).ok());
}

}  // namespace
}  // namespace paceline::exchange

#include "exchange/gradient_exchange.h"

#include <cstring>
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

class ExchangeStall : public ::testing::Test {
 protected:
  ExchangeStall() : before_(log::logger()) {
    log::set_logger(std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(logged_)));
    job::PlanOptions options;
    options.schedule = *scheduling::parse_schedule_name("layer-wise");
    plan_ = *job::Plan::make(job::testing::table_of({{8}, {16}}), options);
    parameters_.resize(24);
    gradients_.resize(24);
    client_ = exchange_by(server_, plan_, loop_, parameters_, gradients_);
  }
  ~ExchangeStall() override { log::set_logger(before_); }

  // Up to the end of its backward.
  void iterate(Iteration iteration, Duration computing) {
    for (std::int32_t layer = 0; layer < 2; ++layer) ASSERT_TRUE(client_->wait_layer(Layer{layer}, iteration).ok());
    loop_.advance(computing);
    for (std::uint32_t tensor : {1U, 0U}) ASSERT_TRUE(client_->gradient_ready(tensor).ok());
    ASSERT_TRUE(client_->backward_done(iteration).ok());
  }
  void start_and_train(Iteration iterations, Duration computing) {
    // Nobody but this thread is there to answer, so start() is in vain; what it sent is answered afterwards.
    loop_.tick = 1h;
    EXPECT_EQ(client_->start().kind(), ErrorKind::kDeadline);
    loop_.tick = {};
    server_.answer(*client_);
    for (Iteration i = 1; i <= iterations; ++i) {
      iterate(i, computing);
      server_.answer(*client_);
    }
    ASSERT_EQ(logged_.str(), "");
  }
  std::size_t lines() const { return static_cast<std::size_t>(std::ranges::count(logged_.str(), '\n')); }

  std::shared_ptr<spdlog::logger> before_;
  std::ostringstream logged_;
  paramserver::testing::HandLoop loop_;
  HandServer server_;
  std::shared_ptr<const job::Plan> plan_;
  std::vector<float> parameters_, gradients_;
  std::unique_ptr<GradientExchange> client_;
};

TEST_F(ExchangeStall, IsWarnedOfOnceAtTenMediansAndFailsAtTheDeadlineWithServerLayerAndIteration) {
  start_and_train(12, 2s);
  iterate(13, 2s);  // not answered
  loop_.tick = 10ms;
  const Status failure = client_->wait_layer(Layer{1}, 14);
  EXPECT_EQ(failure.kind(), ErrorKind::kDeadline);
  EXPECT_THAT(failure.message(), HasSubstr("worker 0 waited 60"));
  EXPECT_THAT(failure.message(),
              HasSubstr(" ms for server 0 to send the value of layer 1 \"layer1\" after iteration 13; --stall-deadline is 60"));
  EXPECT_EQ(lines(), 1U) << logged_.str();
  EXPECT_THAT(logged_.str(), HasSubstr("worker 0 has been waiting 20.0 s for server 0 to send the value of layer 1 \"layer1\" "
                                       "after iteration 13; an iteration takes 2.0 s"));
}

TEST_F(ExchangeStall, AtTheGradientsNamesTheServerThatDoesNotReceive) {
  start_and_train(3, 2s);
  iterate(4, 2s);
  loop_.tick = 10ms;
  EXPECT_THAT(client_->wait_gradients_free().message(),
              HasSubstr("server 0 to receive the gradient of layer 0 \"layer0\" of iteration 4"));
  EXPECT_THAT(logged_.str(), HasSubstr("server 0 to receive the gradient of layer 0 \"layer0\" of iteration 4"));
}

TEST_F(ExchangeStall, TimeSpentOutsideWaitsIsNotAStall) {
  start_and_train(12, 2s);
  iterate(13, 2s);
  server_.answer(*client_);
  loop_.advance(50s);  // an evaluation, longer than ten medians
  iterate(14, 2s);
  server_.deliver(*client_);
  loop_.tick = 10ms;
  ASSERT_TRUE(client_->wait_gradients_free().ok());
  EXPECT_EQ(lines(), 0U) << logged_.str();
  EXPECT_THAT(client_->wait_all(14).message(), HasSubstr("waited 60"));  // from the beginning of the wait
  EXPECT_EQ(lines(), 1U) << logged_.str();
}

// Servers that answer pulls one after the other over a link with kStartUp and kRate; keeps what the worker sent.
class HandServers final : public session::Sender {
 public:
  static constexpr double kStartUp = 0.01, kRate = 1e6;
  struct Sent {
    std::int32_t server = 0;
    wire::MessageHead head;
    std::uint64_t ticket = 0;
    std::vector<float> payload;
  };

  HandServers(paramserver::testing::HandLoop& loop, const job::Plan& plan) : loop_(loop), plan_(plan) {}
  void send(Rank to, const wire::MessageHead& head, std::span<const std::byte> payload, std::uint64_t ticket) override {
    ASSERT_EQ(channel_of(head.kind), wire::Channel::kGradients) << "a worker sends to servers only";
    Sent& message = sent.emplace_back(Sent{to.value, head, ticket, std::vector<float>(payload.size() / sizeof(float))});
    if (!payload.empty()) std::memcpy(message.payload.data(), payload.data(), payload.size());  // a pull has none
  }

  std::optional<Duration> round_trip() const override { return from_seconds(kStartUp); }

  // What was sent; all of it is delivered and answered.
  std::vector<Sent> answer(GradientExchange& worker) {
    const std::vector<Sent> messages = std::exchange(sent, {});
    for (const Sent& message : messages) {
      if (message.ticket != 0) worker.carrier().on_delivered(Rank{message.server}, wire::Channel::kGradients, message.ticket);
    }
    loop_.advance(from_seconds(kStartUp));
    for (const Sent& message : messages) {
      if (message.head.kind == wire::MessageKind::kPull) send_values(worker, message);
    }
    return messages;
  }

  std::vector<Sent> sent;

 private:
  void send_values(GradientExchange& worker, const Sent& pull) {
    wire::MessageHead values = pull.head;
    values.kind = pull.head.unit == pull.head.detail ? wire::MessageKind::kValue : wire::MessageKind::kValues;
    if (values.kind == wire::MessageKind::kValue) values.detail = 0;
    for (std::uint32_t unit = pull.head.unit; unit <= pull.head.detail; ++unit) {
      if (plan_.units().units[unit].server == Rank{pull.server})
        values.payload_bytes += static_cast<std::uint64_t>(plan_.units().units[unit].elements) * sizeof(float);
    }
    const auto place = worker.carrier().on_message_begin(Rank{pull.server}, values);
    ASSERT_TRUE(place.ok()) << place.status().message();
    loop_.advance(from_seconds(static_cast<double>(values.payload_bytes) / kRate));
    worker.carrier().on_message(Rank{pull.server}, values, *place);
  }

  paramserver::testing::HandLoop& loop_;
  const job::Plan& plan_;
};

class ExchangeBatches : public ::testing::Test {
 protected:
  explicit ExchangeBatches(scheduling::PushWhen push = scheduling::PushWhen::kInBatches) {
    job::PlanOptions options;
    options.servers = 2;
    options.schedule = scheduling::ibatch_schedule();
    options.schedule.push = push;
    options.schedule.cut = scheduling::slices_of(100);
    plan_ = *job::Plan::make(job::testing::table_of({{300, 200}, {900}, {400, 600}}), options);
    const auto elements = static_cast<std::size_t>(plan_->units().elements);
    parameters_.resize(elements);
    gradients_.resize(elements);
    for (std::size_t i = 0; i < elements; ++i) gradients_[i] = static_cast<float>(i);
    servers_ = std::make_unique<HandServers>(loop_, *plan_);
    client_ = exchange_by(*servers_, plan_, loop_, parameters_, gradients_);
    loop_.tick = 1h;  // nobody is there to answer while it waits
    EXPECT_EQ(client_->start().kind(), ErrorKind::kDeadline);
    loop_.tick = {};
    servers_->answer(*client_);
  }

  // Computing takes next to nothing. What left, in order.
  std::vector<HandServers::Sent> iterate(Iteration iteration) {
    for (std::int32_t layer = 0; layer < 3; ++layer) {
      EXPECT_TRUE(client_->wait_layer(Layer{layer}, iteration).ok());
      loop_.advance(1us);
    }
    EXPECT_TRUE(client_->wait_gradients_free().ok());
    for (std::uint32_t tensor = 5; tensor-- > 0;) {
      loop_.advance(1us);
      EXPECT_TRUE(client_->gradient_ready(tensor).ok());
    }
    EXPECT_TRUE(client_->backward_done(iteration).ok());
    return servers_->answer(*client_);
  }

  // The units of a server that a batch of layers, the last one `bound`, begins or ends with.
  std::vector<std::uint32_t> units_of(std::int32_t server, std::int32_t first, std::int32_t bound) const {
    std::vector<std::uint32_t> units;
    for (const scheduling::Unit& unit : plan_->units().units) {
      if (unit.server.value == server && unit.layer.index >= first && unit.layer.index < bound) units.push_back(unit.id);
    }
    return units;
  }

  // One message of the kind for each batch and server, of exactly the units there, gradients in their order.
  void expect_messages(const std::vector<HandServers::Sent>& sent, wire::MessageKind kind,
                       const std::vector<std::int32_t>& bounds) {
    std::vector<HandServers::Sent> found;
    std::ranges::copy_if(sent, std::back_inserter(found), [&](const auto& message) { return message.head.kind == kind; });
    EXPECT_EQ(found.size(), 2 * bounds.size());
    for (std::int32_t server = 0; server < 2; ++server) {
      std::int32_t first = 0;
      for (const std::int32_t bound : bounds) {
        const auto units = units_of(server, first, bound);
        first = bound;
        const auto message = std::ranges::find_if(found, [&](const auto& m) {
          return m.server == server && m.head.unit == units.front() && m.head.detail == units.back();
        });
        ASSERT_NE(message, found.end()) << "server " << server << ", layers up to " << bound;
        if (kind != wire::MessageKind::kPushes) continue;
        std::vector<float> expected;
        for (const std::uint32_t unit : units) {
          const scheduling::Unit& planned = plan_->units().units[unit];
          for (std::int64_t i = 0; i < planned.elements; ++i) expected.push_back(static_cast<float>(planned.offset + i));
        }
        EXPECT_EQ(message->payload, expected);
      }
    }
  }

  paramserver::testing::HandLoop loop_;
  std::shared_ptr<const job::Plan> plan_;
  std::unique_ptr<HandServers> servers_;
  std::vector<float> parameters_, gradients_;
  std::unique_ptr<GradientExchange> client_;
};

TEST_F(ExchangeBatches, EachIsOnePushOneRequestAndOneReplyPerServer) {
  for (Iteration iteration = 1; iteration <= 2; ++iteration) {  // nothing is planned yet: each layer is a batch
    const auto sent = iterate(iteration);
    ASSERT_EQ(sent.size(), 12U);
    expect_messages(sent, wire::MessageKind::kPushes, {1, 2, 3});
    expect_messages(sent, wire::MessageKind::kPull, {1, 2, 3});
  }
  // A start-up costs more than everything else, so one batch is best. It was planned when the third backward was over, so what
  // left before was still by layer.
  const auto third = iterate(3);
  ASSERT_EQ(third.size(), 12U);
  expect_messages(third, wire::MessageKind::kPushes, {1, 2, 3});
  expect_messages(third, wire::MessageKind::kPull, {1, 2, 3});
  ASSERT_TRUE(client_->batches());
  EXPECT_EQ(client_->batches()->bounds, scheduling::Bounds{3});
  ASSERT_TRUE(client_->batches()->push);
  EXPECT_EQ(client_->batches()->push->bounds, scheduling::Bounds{3});
  EXPECT_NEAR(client_->batches()->link.start_up, HandServers::kStartUp, 1e-6);
  EXPECT_NEAR(client_->batches()->push->problem.compute[0], 2e-6, 1e-9);
  const auto fourth = iterate(4);
  ASSERT_EQ(fourth.size(), 4U) << "two servers, a push and a request each";
  expect_messages(fourth, wire::MessageKind::kPushes, {3});
  expect_messages(fourth, wire::MessageKind::kPull, {3});
  EXPECT_TRUE(client_->wait_all(4).ok());
}

class ExchangeAtEnd : public ExchangeBatches {
 protected:
  ExchangeAtEnd() : ExchangeBatches(scheduling::PushWhen::kAtEnd) {}
};

TEST_F(ExchangeAtEnd, AsksForBatchesInForwardOrderWhenAllServersHaveTheGradients) {
  for (Iteration iteration = 1; iteration <= 2; ++iteration) {
    const auto pushed = iterate(iteration);
    EXPECT_EQ(pushed.size(), plan_->units().units.size());
    EXPECT_TRUE(std::ranges::all_of(pushed, [](const auto& one) { return one.head.kind == wire::MessageKind::kPush; }));
    const auto asked = servers_->answer(*client_);
    EXPECT_EQ(asked.size(), 6U);
    expect_messages(asked, wire::MessageKind::kPull, {1, 2, 3});
    EXPECT_TRUE(std::ranges::is_sorted(asked, {}, [](const auto& one) { return one.head.unit; }));
    EXPECT_TRUE(client_->wait_all(iteration).ok());
  }
}

}  // namespace
}  // namespace paceline::exchange

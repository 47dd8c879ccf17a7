// Gradients leave, are worked off and come back as values in the order in which their worker has told that it needs its layers.
#include "paramserver/service/told_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exchange/exchange_testing.h"
#include "paramserver/service/server_testing.h"

namespace paceline::paramserver {
namespace {

using ::testing::ElementsAre;
using testing::HandLoop;
using ::testing::HasSubstr;
using wire::MessageKind;

std::shared_ptr<const job::Plan> two_layers(std::int32_t workers) {
  job::PlanOptions options;
  options.workers = workers;
  options.schedule = *scheduling::parse_schedule_name("p3");
  return *job::Plan::make(job::testing::table_of({{2}, {3}}), options);
}

TEST(ToldOrder, AGradientIsAsUrgentAsItsWorkerNeedsItsLayer) {
  const auto plan = two_layers(1);
  HandLoop loop;
  exchange::testing::HandServer server;
  std::vector<float> parameters(5), gradients(5);
  const auto worker = exchange::testing::exchange_by(server, plan, loop, parameters, gradients);
  loop.tick = std::chrono::hours(1);
  EXPECT_EQ(worker->start().kind(), ErrorKind::kDeadline) << "nobody answers but this thread";
  loop.tick = {};
  server.answer(*worker);

  const auto pushed = [&](Iteration iteration) {
    std::vector<std::pair<std::uint32_t, std::int32_t>> unit_and_urgency;
    for (const std::int32_t layer : {0, 1}) EXPECT_TRUE(worker->wait_layer(Layer{layer}, iteration).ok());
    for (const std::uint32_t tensor : {1U, 0U}) EXPECT_TRUE(worker->gradient_ready(tensor).ok());
    EXPECT_TRUE(worker->backward_done(iteration).ok());
    for (const auto& [head, ticket] : server.sent()) {
      if (head.kind == MessageKind::kPush) unit_and_urgency.emplace_back(head.unit, head.layer.index);
    }
    server.answer(*worker);
    return unit_and_urgency;
  };
  EXPECT_THAT(pushed(1), ElementsAre(std::pair(1U, 1), std::pair(0U, 0)));

  const std::vector<std::int32_t> order = {1, 0}, none = {1, 1};
  EXPECT_THAT(worker->set_order(none).message(), HasSubstr("layer 1 is in an order of layers twice"));
  EXPECT_TRUE(server.sent().empty());
  ASSERT_TRUE(worker->set_order(order).ok());
  ASSERT_EQ(server.sent().size(), 1U);
  EXPECT_EQ(server.sent()[0].head.kind, MessageKind::kOrder);
  EXPECT_EQ(server.sent()[0].head.layer, wire::kControlLayer) << "before the gradients that it is about";
  server.answer(*worker);
  EXPECT_THAT(pushed(2), ElementsAre(std::pair(1U, 0), std::pair(0U, 1)));
}

class HeardOrder : public ::testing::Test {
 protected:
  HeardOrder() {
    ServerCallbacks callbacks;
    callbacks.on_failed = [this](const Status& reason) { failed_ = reason.message(); };
    callbacks.on_iteration_complete = [](Iteration) {};
    service_ = *ServerService::make(plan_, Rank{0}, loop_, sent_, std::move(callbacks));
    testing::begin_with_zeros(*service_, sent_);
  }
  void push(std::int32_t worker, std::uint32_t unit) { testing::send_zeros(*service_, worker, MessageKind::kPush, unit, 1); }
  Status tell(std::int32_t worker, const std::vector<std::int32_t>& order) {
    const Rank from{worker};
    const auto bytes = std::as_bytes(std::span(order));
    const wire::MessageHead head{.kind = MessageKind::kOrder, .layer = wire::kControlLayer, .payload_bytes = bytes.size()};
    if (bytes.empty()) {
      service_->on_message(from, head, {});
      return {};
    }
    PACELINE_ASSIGN_OR_RETURN(const auto place, service_->on_message_begin(from, head));
    std::ranges::copy(bytes, place.begin());
    service_->on_message(from, head, place);
    return {};
  }

  HandLoop loop_;
  testing::HandWorkers sent_;
  std::string failed_;
  std::shared_ptr<const job::Plan> plan_ = two_layers(2);
  std::unique_ptr<ServerService> service_;
};

TEST_F(HeardOrder, AValueIsAsUrgentAsItsReceiverNeedsItsLayer) {
  ASSERT_TRUE(tell(1, {1, 0}).ok());
  for (const std::int32_t worker : {0, 1}) push(worker, 1);
  ASSERT_EQ(sent_.values.size(), 2U);
  for (const auto& value : sent_.values) EXPECT_EQ(value.head.layer.index, value.worker == Rank{1} ? 0 : 1) << value.worker.value;
}

TEST_F(HeardOrder, GradientsThatWaitAreWorkedOffInItsOrder) {
  ASSERT_TRUE(tell(0, {1, 0}).ok());
  ASSERT_TRUE(tell(1, {1, 0}).ok());
  service_->hold_updates();
  for (const std::int32_t worker : {0, 1}) {
    for (const std::uint32_t unit : {0U, 1U}) push(worker, unit);
  }
  service_->release_updates();
  ASSERT_EQ(sent_.values.size(), 4U);
  EXPECT_EQ(sent_.values.front().head.unit, 1U) << "the one that came last";
}

TEST_F(HeardOrder, WhatIsNoOrderIsRefused) {
  EXPECT_THAT(tell(0, {1}).message(), HasSubstr("worker 0 tells an order of layers in 4 bytes; those of 2 layers are 8"));
  EXPECT_EQ(failed_, "");
  EXPECT_TRUE(tell(1, {0, 2}).ok());
  EXPECT_THAT(failed_, HasSubstr("worker 1: layer 2 in an order of layers does not exist; the job has 2"));
}

TEST_F(HeardOrder, AnOrderOfNothingIsRefused) {
  EXPECT_TRUE(tell(1, {}).ok());
  EXPECT_THAT(failed_, HasSubstr("worker 1 tells an order of no layers"));
}

}  // namespace
}  // namespace paceline::paramserver

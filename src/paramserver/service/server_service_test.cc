// A server on a loop that the test drives: what a lost worker means for those who are left.
#include "paramserver/service/server_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/testing_jobs.h"
#include "paramserver/service/server_testing.h"
#include "paramserver/service/testing.h"

namespace paceline::paramserver {
namespace {

using testing::HandLoop;

// Two workers, two units of one tensor each.
class LostWorker : public ::testing::Test {
 protected:
  LostWorker() {
    job::PlanOptions options;
    options.workers = 2;
    options.schedule.cut = scheduling::whole_tensors();
    plan_ = *job::Plan::make(job::testing::table_of({{2}, {3}}), options);
    ServerCallbacks callbacks;
    callbacks.on_failed = [](const Status& reason) { FAIL() << reason.message(); };
    callbacks.on_iteration_complete = [this](Iteration iteration) { complete_.push_back(iteration); };
    service_ = *ServerService::make(plan_, Rank{0}, loop_, sent_, std::move(callbacks));
    testing::begin_with_zeros(*service_, sent_);
  }
  void push(std::int32_t worker, std::uint32_t unit, Iteration iteration) {
    testing::send_zeros(*service_, worker, wire::MessageKind::kPush, unit, iteration);
  }
  void deliver() { sent_.deliver(*service_); }
  void lose(std::int32_t worker) {
    service_->on_peer_lost(Rank{worker}, wire::Channel::kGradients,
                           error(ErrorKind::kPeerLost, "worker {} sent nothing for 1.0 s", worker));
  }

  HandLoop loop_;
  testing::HandWorkers sent_;
  std::shared_ptr<const job::Plan> plan_;
  std::unique_ptr<ServerService> service_;
  std::vector<Iteration> complete_;
};

TEST_F(LostWorker, LeavesTheStateAsItWasWithEverybody) {
  push(0, 0, 1);
  push(0, 1, 1);
  push(1, 0, 1);
  deliver();
  const std::int64_t updates = service_->core().counters().updates;
  lose(1);  // its gradient of unit 1 is on the way
  EXPECT_EQ(service_->core().counters().updates, updates) << "an update with the gradients of those who are left";
  EXPECT_TRUE(sent_.values.empty()) << "a value was sent to worker " << sent_.values.front().worker.value;
  EXPECT_TRUE(complete_.empty()) << "iteration " << complete_.front() << " would be saved";
}

TEST_F(LostWorker, WhatStillComesFromTheOthersChangesNothing) {
  push(1, 0, 1);
  push(1, 1, 1);
  deliver();
  const std::int64_t updates = service_->core().counters().updates;
  lose(1);
  push(0, 0, 1);
  push(0, 1, 1);
  EXPECT_EQ(service_->core().counters().updates, updates);
  EXPECT_TRUE(sent_.values.empty());
  EXPECT_TRUE(complete_.empty());
}

TEST_F(LostWorker, WhatWaitedWhileAStateWasSavedIsNotWorkedOffAfterwards) {
  service_->hold_updates();
  for (std::uint32_t unit = 0; unit < 2; ++unit) push(0, unit, 1);
  push(1, 0, 1);
  lose(1);
  service_->release_updates();
  EXPECT_EQ(service_->core().counters().updates, 0);
  EXPECT_TRUE(sent_.values.empty());
}

}  // namespace
}  // namespace paceline::paramserver

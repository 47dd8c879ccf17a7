// The first worker's end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exchange/gate_ledger.h"
#include "job/testing_jobs.h"

namespace paceline::exchange {
namespace {

using ::testing::HasSubstr;
using Complete = GateLedger::Complete;

std::shared_ptr<const job::Plan> three_workers(Iteration first) {
  job::PlanOptions options;
  options.workers = 3;
  options.schedule = scheduling::p3();
  options.first = first;
  return job::Plan::make(job::testing::table_of({{2}, {2}}), options).value();
}

void values(GateLedger& gates) {
  for (const scheduling::Unit& unit : gates.plan().units().units) gates.on_value(unit.id);
}

TEST(GateLedgerEnd, NobodyGoesOnAloneAfterTheFirstWorkersEnd) {
  GateLedger gates(three_workers(1), Rank{2}, GateLedger::Rule::kOwnUnits);
  values(gates);
  std::vector<Complete> complete;
  ASSERT_TRUE(gates.on_gradient(0, complete).ok());
  gates.on_worker_done(Rank{1}, 1);
  EXPECT_TRUE(gates.check_together().ok()) << "this one may do iteration 1 too";
  ASSERT_TRUE(gates.on_gradient(1, complete).ok());
  ASSERT_TRUE(gates.on_backward_done(1, {}, complete).ok());
  gates.next_iteration();
  values(gates);
  gates.on_worker_done(Rank{0}, 1);  // only the first one counts
  EXPECT_TRUE(gates.check_together().ok()) << "nothing of iteration 2 has been told";
  ASSERT_TRUE(gates.on_gradient(1, complete).ok());
  const Status beyond = gates.check_together();
  EXPECT_EQ(beyond.kind(), ErrorKind::kBadRequest);
  EXPECT_THAT(beyond.message(), HasSubstr("worker 2 goes on with iteration 2, but worker 1 has ended after iteration 1"));
}

TEST(GateLedgerEnd, AWorkersEndIsHeardOfAfterAnIterationThatItDidNotDo) {
  GateLedger gates(three_workers(5), Rank{0}, GateLedger::Rule::kOwnUnits);
  values(gates);
  std::vector<Complete> complete;
  for (const std::uint32_t tensor : {0U, 1U}) ASSERT_TRUE(gates.on_gradient(tensor, complete).ok());
  ASSERT_TRUE(gates.on_backward_done(5, {}, complete).ok());
  gates.next_iteration();
  gates.on_worker_done(Rank{1}, 4);
  EXPECT_THAT(gates.check_together().message(),
              HasSubstr("worker 0 goes on with iteration 5, but worker 1 has ended after iteration 4"));
}

}  // namespace
}  // namespace paceline::exchange

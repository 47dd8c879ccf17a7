#include "job/costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/testing_jobs.h"

namespace paceline::job {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> costs(std::int64_t elements, std::int64_t slice, std::int32_t workers, std::int32_t servers) {
  PlanOptions options;
  options.workers = workers;
  options.servers = servers;
  options.schedule.cut = scheduling::slices_of(slice);
  return costs_of(**Plan::make(testing::table_of({{elements}}), options));
}

TEST(Costs, AreToldOfUnitsThatAreSmallerThanTheirHeads) {
  EXPECT_THAT(costs(200'000, 1, 2, 2),
              ElementsAre(HasSubstr("200000 units, and each is a message of 4 bytes behind a head of 96: a worker sends 20.0 MB an "
                                    "iteration for 800.0 kB of gradients")));
  EXPECT_THAT(costs(200'000, 50, 2, 2), IsEmpty());
  EXPECT_THAT(costs(1'000, 1, 2, 2), IsEmpty()) << "which costs little";
}

TEST(Costs, AreToldOfServersThatHaveLessThanTheHeadOfAMessage) {
  EXPECT_THAT(costs(1'000, 500, 2, 100),
              ElementsAre(HasSubstr("100 servers share 4.0 kB of gradients: each is a process that gets 40 "
                                    "bytes of a worker in an iteration, behind at least one head of 96, "
                                    "over 200 connections in all; one server is enough")));
  EXPECT_THAT(costs(10, 500, 4, 4), IsEmpty()) << "a server in every worker's process costs nothing";
  EXPECT_THAT(costs(1'000, 500, 2, 10), IsEmpty());
}

}  // namespace
}  // namespace paceline::job

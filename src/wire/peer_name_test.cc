#include "wire/peer_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::wire {
namespace {

const PeerName kWorker2{Role::kWorker, {2}};
const PeerName kServer1{Role::kServer, {1}};

TEST(PeerName, TheCoordinatorHasNoRankAndARankMayBeLeftOpen) {
  EXPECT_TRUE(matches({Role::kCoordinator, {0}}, {Role::kCoordinator, {-1}}));
  EXPECT_TRUE(matches({Role::kServer, {-1}}, kServer1));
  EXPECT_FALSE(matches(kServer1, {Role::kServer, {-1}}));
  EXPECT_FALSE(matches(kServer1, {Role::kWorker, {1}}));
  EXPECT_TRUE(same_process(kServer1, kServer1));
  EXPECT_FALSE(same_process({Role::kWorker, {-1}}, {Role::kWorker, {-1}})) << "two that are joining";
}

TEST(PeerName, WhoWasReplacedIsNotWhoIsMeant) {
  const PeerName now{Role::kServer, {1}, 8}, before{Role::kServer, {1}, 7};
  EXPECT_TRUE(matches(kServer1, now)) << "any";
  EXPECT_TRUE(matches(now, now));
  EXPECT_FALSE(matches(before, now));
  EXPECT_TRUE(same_process(before, now)) << "of two that live at the same time one is refused";
}

TEST(PeerName, AProcessThatIsWorkerAndServerIsMetAsEitherAndIsBoth) {
  const PeerName both{Role::kBoth, {1}};
  EXPECT_TRUE(matches(kServer1, both));
  EXPECT_TRUE(matches({Role::kWorker, {1}}, both));
  EXPECT_FALSE(matches(kWorker2, both));
  EXPECT_FALSE(matches(both, kServer1)) << "a server alone is not both";
  EXPECT_TRUE(same_process(both, kServer1));
  EXPECT_TRUE(same_process({Role::kWorker, {1}}, both));
  EXPECT_FALSE(same_process(both, kWorker2));
  EXPECT_FALSE(same_process({Role::kBoth, {-1}}, {Role::kServer, {-1}}));
  EXPECT_EQ(both.text(), "worker 1 with server 1");
}

TEST(PeerName, IsReadable) {
  EXPECT_EQ(kWorker2.text(), "worker 2");
  EXPECT_EQ((PeerName{Role::kCoordinator, {0}}.text()), "coordinator");
  EXPECT_EQ((PeerName{Role::kServer, {-1}}.text()), "server without a rank yet");
}

TEST(PeerName, OneThatIsJoiningMayBecomeWhoHasItsRole) {
  EXPECT_TRUE(may_become({Role::kServer, {-1}}, kServer1));
  EXPECT_TRUE(may_become({Role::kBoth, {-1}}, kServer1));
  EXPECT_FALSE(may_become({Role::kWorker, {-1}}, kServer1));
  EXPECT_FALSE(may_become({Role::kServer, {2}}, kServer1)) << "it has a rank";
  EXPECT_FALSE(may_become({Role::kServer, {-1}}, {Role::kServer, {-1}}));
}

TEST(PeerName, ThatNobodyCanHaveIsRefused) {
  EXPECT_TRUE(check(kServer1).ok());
  EXPECT_THAT(check({Role::kServer, {-2}}).message(), ::testing::HasSubstr("the rank is -2"));
  EXPECT_THAT(check({static_cast<Role>(4), {0}}).message(), ::testing::HasSubstr("the role is 4"));
}

}  // namespace
}  // namespace paceline::wire

#include "wire/seat.h"

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
  const PeerName both{Role::kWorker | Role::kServer, {1}};
  EXPECT_TRUE(matches(kServer1, both));
  EXPECT_TRUE(matches({Role::kWorker, {1}}, both));
  EXPECT_FALSE(matches(kWorker2, both));
  EXPECT_FALSE(matches(both, kServer1)) << "a server alone is not both";
  EXPECT_TRUE(same_process(both, kServer1));
  EXPECT_TRUE(same_process({Role::kWorker, {1}}, both));
  EXPECT_FALSE(same_process(both, kWorker2));
  EXPECT_FALSE(same_process({Role::kWorker | Role::kServer, {-1}}, {Role::kServer, {-1}}));
  EXPECT_EQ(both.text(), "worker 1 with server 1");
}

TEST(PeerName, IsReadable) {
  EXPECT_EQ(kWorker2.text(), "worker 2");
  EXPECT_EQ((PeerName{Role::kCoordinator, {0}}.text()), "coordinator");
  EXPECT_EQ((PeerName{Role::kServer, {-1}}.text()), "server without a rank yet");
}

TEST(PeerName, OneThatIsJoiningMayBecomeWhoHasItsRole) {
  EXPECT_TRUE(may_become({Role::kServer, {-1}}, kServer1));
  EXPECT_TRUE(may_become({Role::kWorker | Role::kServer, {-1}}, kServer1));
  EXPECT_FALSE(may_become({Role::kWorker, {-1}}, kServer1));
  EXPECT_FALSE(may_become({Role::kServer, {2}}, kServer1)) << "it has a rank";
  EXPECT_FALSE(may_become({Role::kServer, {-1}}, {Role::kServer, {-1}}));
}

TEST(PeerName, ThatNobodyCanHaveIsRefused) {
  EXPECT_TRUE(check(kServer1).ok());
  EXPECT_THAT(check({Role::kServer, {-2}}).message(), ::testing::HasSubstr("the rank is -2"));
  EXPECT_THAT(check({Roles(4), {0}}).message(), ::testing::HasSubstr("the role is 4"));
}

TEST(Seat, AreListedInOrderAndSayWhatTheyAre) {
  const PeerName both{Role::kWorker | Role::kServer, {1}, 5};
  EXPECT_THAT(both.seats(), ::testing::ElementsAre(Seat{Role::kWorker, {1}, 5}, Seat{Role::kServer, {1}, 5}));
  EXPECT_EQ(both.seats().back().text(), "server 1");
  EXPECT_THAT(kTheCoordinator.seats(), ::testing::ElementsAre(Seat{Role::kCoordinator, {0}, 0}));
  EXPECT_EQ(both.roles.byte(), 3) << "the byte of a hello";
  EXPECT_FALSE(both.takes_data() == kTheCoordinator.takes_data());
  EXPECT_FALSE(both.roles.hold(Role::kCoordinator));
  EXPECT_EQ((PeerName{Roles(4), {1}}.text()), "unknown role 1") << "another version knows it";
}

TEST(Seat, AChannelHasTheEndsThatItsJobHas) {
  using enum Channel;
  EXPECT_THAT(channels_of(hub_of(2)), ::testing::ElementsAre(kGradients, kValues, kPace, kServers));
  EXPECT_THAT(channels_between(Role::kWorker, Role::kServer, Role::kServer), ::testing::ElementsAre(kGradients));
  EXPECT_THAT(channels_between(Role::kWorker | Role::kServer, Role::kWorker | Role::kServer, Role::kServer),
              ::testing::ElementsAre(kGradients, kValues, kPace, kServers));
  EXPECT_THAT(channels_between(Role::kWorker, Role::kWorker, Role::kServer), ::testing::IsEmpty());
  EXPECT_THAT(channels_between(Role::kWorker, Role::kWorker, hub_of(0)), ::testing::ElementsAre(kCollective));
}

}  // namespace
}  // namespace paceline::wire

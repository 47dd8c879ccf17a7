#include "runtime/peers.h"

#include <gtest/gtest.h>

namespace paceline::runtime {
namespace {

using session::PeerName;
using session::Role;
using wire::Channel;

Peers welcomed() {
  wire::Welcome welcome;
  welcome.workers = 3;
  welcome.servers = {"a:1", "b:2"};
  welcome.worker_incarnations = {11, 12, 13};
  welcome.server_incarnations = {21, 22};
  Peers peers;
  peers.on_welcome(welcome);
  return peers;
}

TEST(Peers, OnlyTheProcessesThatWereWelcomedTakePart) {
  const Peers peers = welcomed();
  EXPECT_TRUE(peers.takes_part({Role::kWorker, Rank{2}, 13}));
  EXPECT_FALSE(peers.takes_part({Role::kWorker, Rank{2}, 12})) << "a former or later process of that rank";
  EXPECT_FALSE(peers.takes_part({Role::kWorker, Rank{3}, 0}));
  EXPECT_FALSE(peers.takes_part({Role::kServer, Rank{-1}, 0}));
  EXPECT_FALSE(peers.takes_part({Role::kBoth, Rank{2}, 13})) << "there is no server 2";
}

TEST(Peers, WhatIsForOneThatHasNotComeWaitsInOrderAndForOneThatIsLostGoes) {
  Peers peers = welcomed();
  EXPECT_FALSE(peers.find({Role::kServer, Rank{1}}));
  for (const std::uint64_t ticket : {7, 8}) peers.hold({Role::kServer, Rank{1}}, {.head = {}, .payload = {}, .ticket = ticket});
  peers.hold({Role::kWorker, Rank{1}}, {.head = {}, .payload = {}, .ticket = 9});
  const auto waited = peers.add(5, {Role::kServer, Rank{1}, 22});
  ASSERT_EQ(waited.size(), 2U);
  EXPECT_EQ(waited[0].ticket, 7U);
  EXPECT_EQ(waited[1].ticket, 8U);
  EXPECT_EQ(peers.find({Role::kServer, Rank{1}}), 5U);
  EXPECT_EQ(peers.connected(Role::kServer), 1U);

  peers.remove(5, {Role::kServer, Rank{1}, 22});
  EXPECT_FALSE(peers.find({Role::kServer, Rank{1}}));
  EXPECT_FALSE(peers.name_of(5));
  peers.hold({Role::kServer, Rank{1}}, {.head = {}, .payload = {}, .ticket = 10});
  EXPECT_TRUE(peers.add(6, {Role::kServer, Rank{1}, 22}).empty());
}

TEST(Peers, OneThatIsBothHasTwoNamesAndTheChannelSaysWhich) {
  Peers peers = welcomed();
  peers.hold({Role::kWorker, Rank{1}}, {.head = {}, .payload = {}, .ticket = 1});
  peers.hold({Role::kServer, Rank{1}}, {.head = {}, .payload = {}, .ticket = 2});
  EXPECT_EQ(peers.add(4, {Role::kBoth, Rank{1}}).size(), 2U);
  const PeerName worker{Role::kWorker, Rank{1}}, server{Role::kServer, Rank{1}};
  EXPECT_EQ(peers.find(worker), peers.find(server));
  EXPECT_EQ(peers.sender(4, Channel::kGradients), worker);
  EXPECT_EQ(peers.receiver(4, Channel::kGradients), server);
  EXPECT_EQ(peers.sender(4, Channel::kValues), server);
  EXPECT_EQ(peers.receiver(4, Channel::kPace), worker);
  EXPECT_EQ(peers.sender(4, Channel::kServers), server);
  EXPECT_EQ(peers.receiver(4, Channel::kCollective), worker);
  peers.add(9, {Role::kServer, Rank{0}});
  EXPECT_EQ(peers.sender(9, Channel::kValues), (PeerName{Role::kServer, Rank{0}}));
}

}  // namespace
}  // namespace paceline::runtime

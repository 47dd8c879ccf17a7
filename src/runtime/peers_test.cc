#include "runtime/peers.h"

#include <gtest/gtest.h>

namespace paceline::runtime {
namespace {

using wire::Role;

constexpr wire::Roles kBoth = Role::kWorker | Role::kServer;

Peers welcomed() {
  wire::Welcome welcome;
  welcome.workers = 3;
  welcome.servers = {"a:1", "b:2"};
  welcome.worker_incarnations = {11, 12, 13};
  welcome.server_incarnations = {21, 12};
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
  EXPECT_FALSE(peers.takes_part(wire::kTheCoordinator));
  EXPECT_FALSE(peers.takes_part({kBoth, Rank{2}, 13})) << "there is no server 2";
  EXPECT_FALSE(peers.takes_part({kBoth, Rank{0}, 11})) << "server 0 is another process";
  EXPECT_TRUE(peers.takes_part({kBoth, Rank{1}, 12}));
}

TEST(Peers, ASeatIsNamedAsTheWelcomeSays) {
  const Peers peers = welcomed();
  EXPECT_EQ(peers.named(Role::kServer, Rank{0}), (wire::PeerName{Role::kServer, Rank{0}, 21}));
  EXPECT_EQ(peers.named(kBoth, Rank{1}), (wire::PeerName{kBoth, Rank{1}, 12}));
  EXPECT_EQ(peers.named(kBoth, Rank{2}), std::nullopt) << "there is no server 2";
  EXPECT_EQ(peers.text(), "3 workers and 2 servers");
}

TEST(Peers, OneThatIsBothCountsAsBoth) {
  Peers peers = welcomed();
  EXPECT_FALSE(peers.all_connected(Role::kServer));
  peers.add({kBoth, Rank{1}});
  peers.add({Role::kServer, Rank{0}});
  EXPECT_TRUE(peers.all_connected(Role::kServer));
  EXPECT_FALSE(peers.all_connected(Role::kWorker));
  peers.add({Role::kWorker, Rank{0}});
  peers.add({Role::kWorker, Rank{2}});
  EXPECT_TRUE(peers.all_connected(Role::kWorker));
  peers.remove({kBoth, Rank{1}});
  EXPECT_FALSE(peers.all_connected(Role::kServer));
  EXPECT_FALSE(peers.all_connected(Role::kWorker));
}

}  // namespace
}  // namespace paceline::runtime

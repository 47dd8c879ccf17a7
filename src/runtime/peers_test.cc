#include "runtime/peers.h"

#include <gtest/gtest.h>

namespace paceline::runtime {
namespace {

using wire::Role;

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

TEST(Peers, OneThatIsBothCountsAsBoth) {
  Peers peers = welcomed();
  peers.add({Role::kBoth, Rank{1}});
  peers.add({Role::kServer, Rank{0}});
  EXPECT_EQ(peers.connected(Role::kServer), 2U);
  EXPECT_EQ(peers.connected(Role::kWorker), 1U);
  peers.remove({Role::kBoth, Rank{1}});
  EXPECT_EQ(peers.connected(Role::kServer), 1U);
  EXPECT_EQ(peers.connected(Role::kWorker), 0U);
}

}  // namespace
}  // namespace paceline::runtime

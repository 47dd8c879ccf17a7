#include "membership/seat_table.h"

#include <gtest/gtest.h>

namespace paceline::membership {
namespace {

using wire::Role;

constexpr wire::Roles kBoth = Role::kWorker | Role::kServer;

TEST(SeatTable, GivesTheLowestRankThatIsFreeInAllRolesOfAProcess) {
  SeatTable seats(3, 2);
  seats.take({Role::kWorker, Rank{0}}, 10);
  EXPECT_EQ(seats.free_rank(Role::kWorker), Rank{1});
  EXPECT_EQ(seats.free_rank(Role::kServer), Rank{0});
  EXPECT_EQ(seats.free_rank(kBoth), Rank{1});
  seats.take({kBoth, Rank{1}}, 11);
  EXPECT_EQ(seats.holder(Role::kServer, Rank{1}), 11U);
  EXPECT_EQ(seats.free_rank(kBoth), std::nullopt) << "server 0 has no worker 0 beside it";
  EXPECT_EQ(seats.free_places(), 2);
  seats.take({Role::kServer, Rank{0}}, 12);
  EXPECT_TRUE(seats.is_full(Role::kServer));
  EXPECT_FALSE(seats.is_full(Role::kWorker));
  seats.free({kBoth, Rank{1}});
  EXPECT_EQ(seats.holder(Role::kServer, Rank{1}), std::nullopt);
  EXPECT_EQ(seats.free_rank(kBoth), Rank{1});
}

TEST(SeatTable, SaysWhatThereIsAndWhoIsMissing) {
  SeatTable seats(3, 2);
  EXPECT_EQ(seats.places(kBoth), 2);
  EXPECT_EQ(SeatTable(2, 5).places(Role::kServer), 5);
  EXPECT_EQ(seats.text(kBoth), "3 workers and 2 servers");
  EXPECT_EQ(seats.text(Role::kServer), "2 servers");
  seats.take({kBoth, Rank{1}}, 11);
  EXPECT_EQ(seats.missing(), "1 of 3 workers and 1 of 2 servers have joined");
  EXPECT_EQ(seats.absent(), "worker 0, worker 2, server 0");
  const SeatTable alone(2, 0);
  EXPECT_EQ(alone.missing(), "0 of 2 workers have joined");
  EXPECT_EQ(alone.places(kBoth), 0) << "there are no servers";
}

}  // namespace
}  // namespace paceline::membership

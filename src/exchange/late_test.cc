#include "exchange/late.h"

#include <gtest/gtest.h>

namespace paceline::exchange {
namespace {

using Reached = std::map<Rank, Iteration>;

std::string late(Rank worker, std::int32_t workers, Iteration current, const Reached& reached, const sync::SyncOptions& sync = {}) {
  return who_is_late(worker, current, {.workers = workers, .sync = sync}, reached);
}

TEST(Late, IsWhoIsFurthestBehind) {
  EXPECT_EQ(late(Rank{0}, 3, 8, {{Rank{0}, 8}, {Rank{1}, 7}, {Rank{2}, 8}}),
            ", which waits for rank 1: its gradients of iteration 7 are missing");
  EXPECT_EQ(late(Rank{2}, 5, 8, {{Rank{0}, 6}, {Rank{1}, 8}, {Rank{2}, 8}, {Rank{3}, 6}, {Rank{4}, 7}}),
            ", which waits for ranks 0, 3: their gradients of iteration 6 are missing");
}

TEST(Late, IsNobodyWhereAllAreAsFarOrFurther) {
  EXPECT_EQ(late(Rank{1}, 3, 8, {{Rank{0}, 8}, {Rank{1}, 8}, {Rank{2}, 9}}), "");
  EXPECT_EQ(late(Rank{1}, 3, 8, {{Rank{0}, 8}, {Rank{1}, 9}, {Rank{2}, 9}}), "") << "the worker itself has gone on since it asked";
  EXPECT_EQ(late(Rank{0}, 1, 8, {{Rank{0}, 8}}), "");
}

TEST(Late, IsAlsoWhoDoesNotAnswer) {
  EXPECT_EQ(late(Rank{0}, 2, 8, {{Rank{0}, 8}}), "; rank 1 does not answer");
  EXPECT_EQ(late(Rank{0}, 4, 8, {{Rank{0}, 8}, {Rank{1}, 8}}), "; ranks 2, 3 do not answer");
  EXPECT_EQ(late(Rank{0}, 3, 8, {{Rank{0}, 8}, {Rank{1}, 7}}),
            ", which waits for rank 1: its gradients of iteration 7 are missing; rank 2 does not answer");
  EXPECT_EQ(late(Rank{0}, 3, 8, {}), "") << "nor the worker itself: nobody was asked";
}

TEST(Late, IsNobodyWithinTheLeadThatAWorkerMayHave) {
  const sync::SyncOptions stale{.kind = sync::SyncKind::kSsp, .staleness = 3};
  EXPECT_EQ(late(Rank{0}, 2, 8, {{Rank{0}, 8}, {Rank{1}, 5}}, stale), "");
  EXPECT_EQ(late(Rank{0}, 2, 8, {{Rank{0}, 8}, {Rank{1}, 4}}, stale),
            ", which waits for rank 1: its gradients of iteration 4 are missing");
}

TEST(Late, OfManyTheFirstAreNamed) {
  Reached reached;
  for (std::int32_t rank = 0; rank < 20; ++rank) reached[Rank{rank}] = rank == 0 ? 8 : 7;
  EXPECT_EQ(late(Rank{0}, 20, 8, reached),
            ", which waits for ranks 1, 2, 3, 4, 5, 6, 7, 8 and 11 more: their gradients of iteration 7 are missing");
}

}  // namespace
}  // namespace paceline::exchange

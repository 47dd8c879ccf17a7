#include "collectives/exec/group_book.h"

#include <algorithm>
#include <deque>
#include <random>

#include <gtest/gtest.h>

namespace paceline::collectives {
namespace {

constexpr Rank kSelf{1};

wire::CollectiveGroup group(std::uint64_t name, std::vector<Rank> ranks) { return {name, std::move(ranks)}; }

TEST(GroupBook, TwoRanksWithDifferentListsAreNamedWhoeverCameFirst) {
  for (const bool own_first : {true, false}) {
    GroupBook book(kSelf, 100);
    const auto mine = group(7, {Rank{0}, Rank{1}, Rank{2}}), theirs = group(7, {Rank{0}, Rank{1}});
    const std::uint32_t number = book.number_of(7).value();
    std::optional<GroupBook::Difference> found;
    if (own_first) {
      EXPECT_FALSE(book.on_made(kSelf, number, mine));
      found = book.on_made(Rank{0}, 90, theirs);
    } else {
      EXPECT_FALSE(book.on_made(Rank{0}, 90, theirs));
      found = book.on_made(kSelf, number, mine);
    }
    ASSERT_TRUE(found);
    EXPECT_EQ(found->one, Rank{0});
    EXPECT_EQ(found->other, kSelf);
    EXPECT_EQ(list_of(found->ones), "[0, 1]");
    EXPECT_EQ(list_of(found->others), "[0, 1, 2]");
  }
}

TEST(GroupBook, NumbersOfAnotherRankAreReadAsItsOwn) {
  GroupBook book(kSelf, 100);
  EXPECT_EQ(book.own_number(Rank{0}, 3), 3U) << "of all ranks";
  EXPECT_FALSE(book.own_number(Rank{0}, 80)) << "nobody has said which";
  EXPECT_FALSE(book.on_made(Rank{0}, 80, group(5, {Rank{0}, kSelf})));
  EXPECT_FALSE(book.on_made(Rank{2}, 80, group(6, {kSelf, Rank{2}})));
  EXPECT_EQ(book.own_number(Rank{0}, 80), book.number_of(5));
  EXPECT_EQ(book.own_number(Rank{2}, 80), book.number_of(6));
  EXPECT_NE(book.number_of(5), book.number_of(6));
}

TEST(GroupBook, ANumberServesAnotherGroupWhenAllHaveClosedItAndKnowThatThisRankHas) {
  GroupBook book(kSelf, GroupBook::kFirstMade + 1);
  const std::uint32_t number = book.number_of(1).value();
  EXPECT_FALSE(book.number_of(2)) << "the only one";
  const auto made = group(1, {Rank{0}, kSelf, Rank{2}});
  EXPECT_FALSE(book.on_made(kSelf, number, made));
  EXPECT_FALSE(book.on_made(Rank{0}, GroupBook::kFirstMade, made));
  EXPECT_FALSE(book.forget_if_over(number));
  EXPECT_EQ(book.on_closed(kSelf, number, 4), number);
  EXPECT_TRUE(book.is_closed_here(number));
  book.on_told(Rank{0}, number);
  book.on_told(Rank{2}, number);
  EXPECT_EQ(book.on_closed(Rank{0}, GroupBook::kFirstMade, 4), number);
  EXPECT_FALSE(book.forget_if_over(number)) << "rank 2 may still make it";
  EXPECT_EQ(book.on_lost(Rank{2}), std::vector{number});
  EXPECT_TRUE(book.forget_if_over(number));
  EXPECT_EQ(book.number_of(2), number);
}

TEST(GroupBook, WhoHasClosedAGroupBeforeAnOperationIsNamed) {
  GroupBook book(kSelf, 100);
  const std::uint32_t number = book.number_of(1).value();
  const auto made = group(1, {Rank{0}, kSelf});
  EXPECT_FALSE(book.on_made(kSelf, number, made));
  EXPECT_FALSE(book.on_made(Rank{0}, 70, made));
  EXPECT_FALSE(book.left_before(number, 1));
  EXPECT_EQ(book.on_closed(Rank{0}, 70, 2), number);
  EXPECT_FALSE(book.left_before(number, 2)) << "it has begun that one";
  EXPECT_EQ(book.left_before(number, 3), Rank{0});
}

struct Word {
  enum { kMade, kClosed, kUsed } what;
  std::uint32_t number;
  std::uint64_t name;
};

// Two ranks that make, use and close groups at random, over a network that keeps the order.
struct Two {
  static constexpr std::uint64_t kGroups = 60;

  bool done() const {
    return made[0] == kGroups && made[1] == kGroups && open[0].empty() && open[1].empty() && ways[0].empty() && ways[1].empty();
  }

  void make(int rank) {
    const auto number = made[rank] < kGroups ? books[rank].number_of(made[rank] + 1) : std::nullopt;
    if (!number) return;
    const std::uint64_t name = ++made[rank];
    EXPECT_FALSE(books[rank].on_made(Rank{rank}, *number, group(name, {Rank{0}, Rank{1}})));
    open[rank][name] = *number;
    ways[1 - rank].push_back({Word::kMade, *number, name});
  }

  void use(int rank) {
    if (!open[rank].empty()) ways[1 - rank].push_back({Word::kUsed, open[rank].begin()->second, open[rank].begin()->first});
  }

  void close(int rank) {
    if (open[rank].empty()) return;
    const auto [name, number] = *open[rank].begin();
    open[rank].erase(name);
    EXPECT_EQ(books[rank].on_closed(Rank{rank}, number, 0), number);
    ways[1 - rank].push_back({Word::kClosed, number, name});
    books[rank].forget_if_over(number);
  }

  void hear(int rank) {
    if (ways[rank].empty()) return;
    const Word word = ways[rank].front();
    ways[rank].pop_front();
    GroupBook &own = books[rank], &theirs = books[1 - rank];
    const Rank peer{1 - rank};
    if (word.what == Word::kMade) {
      EXPECT_FALSE(own.on_made(peer, word.number, group(word.name, {Rank{0}, Rank{1}})));
      return;
    }
    const auto number = word.what == Word::kUsed ? own.own_number(peer, word.number) : own.on_closed(peer, word.number, 0);
    ASSERT_TRUE(number);
    EXPECT_EQ(*number, own.number_of(word.name));
    if (word.what == Word::kUsed) return;
    own.forget_if_over(*number);
    theirs.on_told(Rank{rank}, word.number);
    theirs.forget_if_over(word.number);
  }

  GroupBook books[2] = {{Rank{0}, GroupBook::kFirstMade + 4}, {Rank{1}, GroupBook::kFirstMade + 4}};
  std::deque<Word> ways[2];  // to each
  std::map<std::uint64_t, std::uint32_t> open[2];
  std::uint64_t made[2] = {0, 0};
};

TEST(GroupBook, TwoRanksNeverTakeAGroupForAnotherHoweverOftenNumbersServeAgain) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    Two two;
    while (!two.done()) {
      const int rank = static_cast<int>(random() % 2);
      const auto step = random() % 4;
      step == 0 ? two.make(rank) : step == 1 ? two.use(rank) : step == 2 ? two.close(rank) : two.hear(rank);
    }
    for (GroupBook& book : two.books) {
      for (std::uint64_t name = 1000; name < 1004; ++name) ASSERT_TRUE(book.number_of(name)) << "a number is lost";
    }
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace paceline::collectives

#include "scheduling/batching.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::scheduling {
namespace {

using ::testing::ElementsAre;

// ---- The twins: the design's sentences as loops over all pairs and all cuts. Plain sums, so inputs are small integers (exact) or
// random doubles (no ties).

double sum(const std::vector<double>& values, int first, int last) {
  double total = 0;
  for (int i = first; i <= last; ++i) total += values[static_cast<std::size_t>(i - 1)];
  return total;
}

struct Literal {
  const BatchingProblem& p;
  int layers = static_cast<int>(p.transfer.size());

  double T(int first, int last) const { return sum(p.transfer, first, last); }
  double C(int first, int last) const { return sum(p.compute, first, last); }

  Bounds forward() const {
    using Key = std::tuple<double, double, double, int, int>;
    std::optional<Key> best;
    for (int l1 = 1; l1 <= layers; ++l1) {
      for (int l2 = l1 + 1; l2 <= layers; ++l2) {
        const double slack = p.start_up + T(l1 + 1, l2) - C(1, l1);
        if (slack < 0) continue;
        const Key key{-C(1, l1), p.start_up + T(1, l1), slack, l1, l2};
        if (!best || key < *best) best = key;
      }
    }
    if (!best) return {layers};
    Bounds bounds = {std::get<3>(*best), std::get<4>(*best)};
    while (bounds.back() != layers) {
      std::optional<std::pair<double, int>> next;
      const int k1 = bounds[bounds.size() - 1];
      const int k2 = bounds[bounds.size() - 2];
      for (int x = k1 + 1; x <= layers; ++x) {
        const double slack = p.start_up + T(k1 + 1, x) - C(k2 + 1, k1);
        if (slack >= 0 && (!next || std::pair(slack, x) < *next)) next = {slack, x};
      }
      if (next) {
        bounds.push_back(next->second);
      } else {
        bounds.back() = layers;
      }
    }
    return bounds;
  }

  std::optional<Bounds> backward() const {
    using Key = std::tuple<double, double, int, int>;
    std::optional<Key> best;
    for (int a = 0; a < layers; ++a) {
      for (int b = a + 1; b <= layers - 1; ++b) {
        if (p.start_up + T(b + 1, layers) < C(a + 1, b)) continue;
        const Key key{-C(a + 1, b), C(b + 1, layers), b, a};
        if (!best || key < *best) best = key;
      }
    }
    if (!best) return Bounds{layers};
    Bounds bounds = {std::get<3>(*best), std::get<2>(*best), layers};
    while (bounds.front() != 0) {
      std::optional<std::pair<double, int>> next;
      for (int x = 0; x <= bounds[0] - 1; ++x) {
        const double slack = p.start_up + T(bounds[0] + 1, bounds[1]) - C(x + 1, bounds[0]);
        if (slack >= 0 && (!next || std::pair(slack, x) < *next)) next = {slack, x};
      }
      if (!next) return std::nullopt;
      bounds.insert(bounds.begin(), next->second);
    }
    bounds.erase(bounds.begin());
    return bounds;
  }

  double execution_time(const Bounds& bounds) const {
    const int before = bounds.size() > 1 ? bounds[bounds.size() - 2] : 0;
    return static_cast<double>(bounds.size()) * p.start_up + T(1, layers) + C(before + 1, layers);
  }

  bool overlapped(const Bounds& bounds) const {
    for (std::size_t k = 1; k < bounds.size(); ++k) {
      if (p.start_up + T(bounds[k - 1] + 1, bounds[k]) < C((k > 1 ? bounds[k - 2] : 0) + 1, bounds[k - 1])) return false;
    }
    return true;
  }

  // A pull, event by event.
  double pulled(const Bounds& bounds) const {
    double link_free = 0, finished = 0;
    int before = 0;
    for (const int last : bounds) {
      link_free += p.start_up + T(before + 1, last);
      finished = std::max(finished, link_free) + C(before + 1, last);
      before = last;
    }
    return finished;
  }

  // A push, event by event: layers are computed from L down; a batch leaves when its first layer's gradient, the last to come, is
  // there.
  double pushed(const Bounds& bounds) const {
    double computed = 0, link_free = 0;
    for (std::size_t k = bounds.size(); k-- > 0;) {
      const int before = k > 0 ? bounds[k - 1] : 0;
      computed += C(before + 1, bounds[k]);
      link_free = std::max(link_free, computed) + p.start_up + T(before + 1, bounds[k]);
    }
    return link_free;
  }

  // All 2^(L-1) batchings: the least makespan, and the fewest batches that reach it.
  std::pair<double, std::size_t> best() const {
    std::pair<double, std::size_t> least{std::numeric_limits<double>::infinity(), 0};
    for (unsigned cuts = 0; cuts < 1u << (layers - 1); ++cuts) {
      Bounds bounds;
      for (int l = 1; l < layers; ++l) {
        if (cuts >> (l - 1) & 1u) bounds.push_back(l);
      }
      bounds.push_back(layers);
      least = std::min(least, {pulled(bounds), bounds.size()});
    }
    return least;
  }
};

int below(std::mt19937& random, int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random); }

BatchingProblem small_integers(std::mt19937& random, int most_layers) {
  const int layers = 1 + below(random, most_layers);
  const int largest = 1 + below(random, 6);  // few different values: many ties, many zeros
  BatchingProblem problem;
  problem.start_up = below(random, largest + 1);
  for (int i = 0; i < layers; ++i) {
    problem.transfer.push_back(below(random, largest + 1));
    problem.compute.push_back(below(random, largest + 1));
  }
  return problem;
}

BatchingProblem real_numbers(std::mt19937& random, int most_layers) {
  std::uniform_real_distribution<double> share(0, 1);
  BatchingProblem problem;
  problem.start_up = share(random) * share(random);
  const int layers = 1 + below(random, most_layers);
  for (int i = 0; i < layers; ++i) {
    problem.transfer.push_back(share(random));
    problem.compute.push_back(share(random) * (1 + below(random, 3)));
  }
  return problem;
}

std::string shown(const BatchingProblem& problem) {
  return ::testing::PrintToString(problem.start_up) + " " + ::testing::PrintToString(problem.transfer) + " " +
         ::testing::PrintToString(problem.compute);
}

void for_each_problem(unsigned cases, int most_layers, const std::function<void(const BatchingProblem&)>& check) {
  for (unsigned seed = 0; seed < cases; ++seed) {
    std::mt19937 random(seed);
    const BatchingProblem problem = seed % 4 == 3 ? real_numbers(random, most_layers) : small_integers(random, most_layers);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + shown(problem));
    ASSERT_TRUE(validate(problem).ok());
    check(problem);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(Batching, Algorithm1ChoosesWhatTheLiteralSearchChooses) {
  for_each_problem(8000, 12,
                   [](const BatchingProblem& problem) { ASSERT_EQ(forward_greedy(problem), Literal{problem}.forward()); });
}

TEST(Batching, Algorithm2ChoosesWhatTheLiteralSearchChooses) {
  int stuck = 0;
  for_each_problem(8000, 12, [&](const BatchingProblem& problem) {
    const auto expected = Literal{problem}.backward();
    stuck += expected ? 0 : 1;
    ASSERT_EQ(backward_greedy(problem), expected);
  });
  EXPECT_GT(stuck, 100);  // both outcomes have been met
}

TEST(Batching, LargeProblemsAgreeWithTheLiteralSearchToo) {
  for_each_problem(40, 90, [](const BatchingProblem& problem) {
    ASSERT_EQ(forward_greedy(problem), Literal{problem}.forward());
    ASSERT_EQ(backward_greedy(problem), Literal{problem}.backward());
  });
}

TEST(Batching, GreedyBatchingsAreOverlappedSoTheirExecutionTimeIsTrue) {
  for_each_problem(6000, 12, [](const BatchingProblem& problem) {
    const Bounds forward = forward_greedy(problem);
    ASSERT_TRUE(validate(forward, problem).ok());
    ASSERT_TRUE(is_overlapped(problem, forward));
    ASSERT_EQ(execution_time(problem, forward), makespan(problem, forward));
    if (const auto backward = backward_greedy(problem)) {
      ASSERT_TRUE(validate(*backward, problem).ok());
      ASSERT_TRUE(is_overlapped(problem, *backward));
      ASSERT_EQ(execution_time(problem, *backward), makespan(problem, *backward));
    }
  });
}

TEST(Batching, IBatchTakesTheSmallerExecutionTimeAndAlgorithm1OnTies) {
  int backward_won = 0, forward_won = 0;
  for_each_problem(6000, 12, [&](const BatchingProblem& problem) {
    const Literal literal{problem};
    const Bounds forward = literal.forward();
    const auto backward = literal.backward();
    const bool later = backward && literal.execution_time(*backward) < literal.execution_time(forward);
    const GreedyBatching found = ibatch(problem);
    ASSERT_EQ(found.chosen, later ? Greedy::kBackward : Greedy::kForward);
    ASSERT_EQ(found.bounds, later ? *backward : forward);
    ++(later ? backward_won : forward_won);
  });
  EXPECT_GT(backward_won, 100);
  EXPECT_GT(forward_won, 100);
}

TEST(Batching, ExactReachesTheBestOfAllBatchingsWithTheFewestBatches) {
  for_each_problem(2000, 12, [](const BatchingProblem& problem) {
    const auto [least, fewest] = Literal{problem}.best();
    const Bounds found = exact_batching(problem);
    ASSERT_TRUE(validate(found, problem).ok());
    ASSERT_NEAR(makespan(problem, found), least, 1e-12 * least);
    // The search among plain sums may split what the exact sums call equal, so batches are only counted where sums are exact.
    if (problem.start_up == std::floor(problem.start_up)) {
      ASSERT_EQ(makespan(problem, found), least);
      ASSERT_EQ(found.size(), fewest);
    }
  });
}

TEST(Batching, ExactIsNeverWorseThanAnyOtherMethod) {
  for_each_problem(200, 300, [](const BatchingProblem& problem) {
    const double best = makespan(problem, exact_batching(problem)) * (1 - 1e-15);
    ASSERT_LE(best, makespan(problem, forward_greedy(problem)));
    ASSERT_LE(best, makespan(problem, default_batching(problem)));
    ASSERT_LE(best, makespan(problem, layer_wise_batching(problem)));
    if (const auto backward = backward_greedy(problem)) {
      ASSERT_LE(best, makespan(problem, *backward));
    }
  });
}

TEST(Batching, MakespanIsThatOfAPullAndOfAPushPlayedEventByEvent) {
  for_each_problem(6000, 12, [](const BatchingProblem& problem) {
    const Literal literal{problem};
    for (const Bounds& bounds :
         {exact_batching(problem), forward_greedy(problem), layer_wise_batching(problem), default_batching(problem)}) {
      const double found = makespan(problem, bounds);
      ASSERT_NEAR(found, literal.pulled(bounds), 1e-13 * found);
      ASSERT_NEAR(found, literal.pushed(bounds), 1e-13 * found);
      ASSERT_NEAR(execution_time(problem, bounds), literal.execution_time(bounds), 1e-13 * found);
      ASSERT_LE(execution_time(problem, bounds), found);
      ASSERT_EQ(is_overlapped(problem, bounds), literal.overlapped(bounds));
    }
  });
}

TEST(Batching, EqualLayersTieWhereverTheyStand) {
  // In plain prefix sums 0.3 - 0.2 < 0.1, so the transfer of layer 3 would not hide the computation of layer 2.
  const BatchingProblem problem{0, std::vector<double>(9, 0.1), std::vector<double>(9, 0.1)};
  EXPECT_TRUE(is_overlapped(problem, layer_wise_batching(problem)));
  EXPECT_DOUBLE_EQ(makespan(problem, layer_wise_batching(problem)), 1.0);
  EXPECT_EQ(makespan(problem, layer_wise_batching(problem)), execution_time(problem, layer_wise_batching(problem)));
}

TEST(Batching, OneLayerIsOneBatch) {
  const BatchingProblem problem{1, {2}, {3}};
  EXPECT_THAT(forward_greedy(problem), ElementsAre(1));
  EXPECT_THAT(*backward_greedy(problem), ElementsAre(1));
  EXPECT_THAT(exact_batching(problem), ElementsAre(1));
  EXPECT_TRUE(is_overlapped(problem, {1}));
  EXPECT_EQ(execution_time(problem, {1}), 6);
  EXPECT_EQ(makespan(problem, {1}), 6);
}

TEST(Batching, WithoutAPairThatOverlapsThereIsOneBatch) {
  const BatchingProblem problem{0, {1, 1, 1}, {9, 9, 9}};
  EXPECT_THAT(forward_greedy(problem), ElementsAre(3));
  EXPECT_THAT(*backward_greedy(problem), ElementsAre(3));
}

TEST(Batching, Algorithm1ExtendsTheLastBatchWhenNothingHidesIt) {
  // (1, 2): 1 hides behind the transfer of layer 2; no transfer hides the 9 of layer 2, so layer 3 joins its batch.
  const BatchingProblem problem{0, {1, 1, 1}, {1, 9, 9}};
  EXPECT_THAT(forward_greedy(problem), ElementsAre(1, 3));
}

TEST(Batching, Algorithm2HasNoCandidateWhenItGetsStuck) {
  // The end (2, 3) is fixed to hide layer 2 or 3; layer 1 computes for 9 and no transfer covers it.
  const BatchingProblem problem{0, {1, 1, 5}, {9, 4, 1}};
  EXPECT_EQ(backward_greedy(problem), std::nullopt);
  EXPECT_EQ(ibatch(problem).chosen, Greedy::kForward);
}

TEST(Batching, AllTimesZeroIsOneBatchForTheExactSearch) {
  const BatchingProblem problem{0, {0, 0, 0}, {0, 0, 0}};
  EXPECT_THAT(exact_batching(problem), ElementsAre(3));
  EXPECT_EQ(makespan(problem, {3}), 0);
}

TEST(Batching, TheExactSearchHandlesTheWholeRangeOfDoubles) {
  const double tiny = std::numeric_limits<double>::denorm_min();
  EXPECT_TRUE(validate(exact_batching({tiny, {tiny, tiny}, {tiny, tiny}}), {tiny, {tiny, tiny}, {tiny, tiny}}).ok());
  const BatchingProblem huge{1e300, {1e307, 1e-300}, {1e306, 1e306}};
  ASSERT_TRUE(validate(huge).ok());
  EXPECT_TRUE(validate(exact_batching(huge), huge).ok());
}

TEST(Batching, RefusesWhatIsNoProblem) {
  const double infinite = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(validate(BatchingProblem{0, {}, {}}).ok());
  EXPECT_FALSE(validate(BatchingProblem{0, {1}, {1, 2}}).ok());
  EXPECT_FALSE(validate(BatchingProblem{-1, {1}, {1}}).ok());
  EXPECT_FALSE(validate(BatchingProblem{0, {-1}, {1}}).ok());
  EXPECT_FALSE(validate(BatchingProblem{0, {1}, {infinite}}).ok());
  EXPECT_FALSE(validate(BatchingProblem{0, {1e308, 1e308}, {1, 1}}).ok());
}

TEST(Batching, RefusesWhatIsNoBatching) {
  const BatchingProblem problem{0, {1, 1, 1}, {1, 1, 1}};
  for (const Bounds& bounds : {Bounds{}, Bounds{1}, Bounds{1, 2}, Bounds{0, 3}, Bounds{2, 2, 3}, Bounds{2, 1, 3}, Bounds{4},
                               Bounds{3, 4}, Bounds{-1, 3}}) {
    EXPECT_FALSE(validate(bounds, problem).ok()) << ::testing::PrintToString(bounds);
  }
  EXPECT_TRUE(validate(Bounds{1, 2, 3}, problem).ok());
}

}  // namespace
}  // namespace paceline::scheduling

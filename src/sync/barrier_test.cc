#include "sync/barrier.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::sync {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Rows = std::vector<std::vector<double>>;
using Random = std::mt19937_64;

EndTimes ends_of(Rows rows) { return EndTimes::from_rows(std::move(rows)).value(); }

std::int64_t whole(Random& random, std::int64_t least, std::int64_t most) {
  return std::uniform_int_distribution<std::int64_t>(least, most)(random);
}

// Rows of different lengths; whole numbers from a small range give many equal times, reals give none.
Rows random_rows(Random& random, std::int64_t most_workers, std::int64_t most_ends, bool reals) {
  Rows rows(static_cast<std::size_t>(whole(random, 1, most_workers)));
  const std::int64_t range = whole(random, 1, 60);
  for (auto& row : rows) {
    row.resize(static_cast<std::size_t>(whole(random, 1, most_ends)));
    for (double& end : row) {
      end = reals ? std::uniform_real_distribution<double>(0, 10)(random) : static_cast<double>(whole(random, 0, range));
    }
    std::sort(row.begin(), row.end());
  }
  return rows;
}

// The value of a set, exact for whole numbers: a fraction of integers. Reals are compared in long double.
struct Value {
  long double numerator;
  long double denominator;
  bool operator<(const Value& other) const { return numerator * other.denominator < other.numerator * denominator; }
};

Value value_of(const std::vector<double>& z, Objective objective, double now) {
  const double latest = *std::max_element(z.begin(), z.end());
  if (objective == Objective::kSpan) return {latest - *std::min_element(z.begin(), z.end()), 1};
  if (latest == now) return {0, 1};
  long double waiting = 0;
  for (double end : z) waiting += static_cast<long double>(latest) - end;
  return {waiting, static_cast<long double>(z.size()) * (static_cast<long double>(latest) - now)};
}

std::vector<double> ends_at(const Rows& rows, const std::vector<std::int64_t>& iterations) {
  std::vector<double> z;
  for (std::size_t p = 0; p < rows.size(); ++p) z.push_back(rows[p][static_cast<std::size_t>(iterations[p] - 1)]);
  return z;
}

// The sweep as docs/algorithms.md states it: sort everything, evaluate the whole set after each event.
std::vector<std::int64_t> reference_sweep(const Rows& rows, Objective objective, double now) {
  std::vector<std::tuple<double, std::size_t, std::int64_t>> events;
  for (std::size_t p = 0; p < rows.size(); ++p) {
    for (std::size_t i = 0; i < rows[p].size(); ++i) events.emplace_back(rows[p][i], p, static_cast<std::int64_t>(i + 1));
  }
  std::sort(events.begin(), events.end());
  std::vector<std::int64_t> z(rows.size(), 0);
  std::vector<std::int64_t> best;
  Value best_value{};
  for (const auto& [time, worker, iteration] : events) {
    z[worker] = iteration;
    if (std::count(z.begin(), z.end(), 0) > 0) continue;
    const Value value = value_of(ends_at(rows, z), objective, now);
    if (!best.empty() && !(value < best_value)) continue;
    best = z;
    best_value = value;
  }
  return best;
}

// A grid scan by the book: every point of the designated rows, every row searched from its beginning.
std::vector<std::int64_t> reference_grid(const Rows& rows, const std::vector<std::size_t>& designated, Objective objective,
                                         double now) {
  std::vector<std::int64_t> best;
  Value best_value{};
  for (std::size_t d : designated) {
    for (std::size_t i = 0; i < rows[d].size(); ++i) {
      std::vector<std::int64_t> z(rows.size());
      for (std::size_t p = 0; p < rows.size(); ++p) {
        std::size_t nearest = 0;
        for (std::size_t k = 1; k < rows[p].size(); ++k) {
          if (std::abs(rows[p][k] - rows[d][i]) < std::abs(rows[p][nearest] - rows[d][i])) nearest = k;
        }
        z[p] = static_cast<std::int64_t>(p == d ? i : nearest) + 1;
      }
      const Value value = value_of(ends_at(rows, z), objective, now);
      if (!best.empty() && !(value < best_value)) continue;
      best = z;
      best_value = value;
    }
  }
  return best;
}

double earliest_possible(const Rows& rows) {
  double latest = rows[0][0];
  for (const auto& row : rows) latest = std::max(latest, row[0]);
  return latest;
}

TEST(ZipLine, KeepsTheFirstMinimumOfThePapersKindOfTimeline) {
  // Spans in the order of events: complete at 3 (span 2), 4 (1: 3,4), 7 (3), 8 (1 again: not better).
  const Barrier barrier = zip_line(ends_of({{1, 4, 7}, {3, 8}}), Objective::kSpan, 0);
  EXPECT_THAT(barrier.iterations, ElementsAre(2, 1));
  EXPECT_EQ(barrier.span, 1);
  EXPECT_EQ(barrier.time, 4);
  EXPECT_THAT(barrier.waiting, ElementsAre(0, 1));
  EXPECT_DOUBLE_EQ(barrier.waiting_share, 1.0 / 8);
}

TEST(ZipLine, TakesTheLatestEndOfTheMiddleWorkers) {
  // The span is 0..10 whatever worker 1 does; it has run as far as it can by then, not stopped at its first end in the range.
  const Barrier barrier = zip_line(ends_of({{0}, {1, 5, 9, 11}, {10}}), Objective::kSpan, 0);
  EXPECT_THAT(barrier.iterations, ElementsAre(1, 3, 1));
}

TEST(ZipLine, OfEqualTimesTakesTheLowerWorkerFirst) {
  // At 5 worker 0's event comes before worker 1's, so that the first complete set has worker 0's second end already.
  EXPECT_THAT(zip_line(ends_of({{4, 5}, {5, 5}}), Objective::kSpan, 0).iterations, ElementsAre(2, 1));
  // The other way round the set {5, 4} is complete first, and {5, 5} is better.
  EXPECT_THAT(zip_line(ends_of({{5, 5}, {4, 5}}), Objective::kSpan, 0).iterations, ElementsAre(2, 2));
}

TEST(ZipLine, OneWorkerStopsAtItsFirstEnd) {
  const Barrier barrier = zip_line(ends_of({{2, 3, 9}}), Objective::kSpan, 0);
  EXPECT_THAT(barrier.iterations, ElementsAre(1));
  EXPECT_EQ(barrier.span, 0);
  EXPECT_EQ(barrier.waiting_share, 0);
}

TEST(ZipLine, AShareOfNoTimeIsZero) {
  // The barrier at 2 wastes 1 s of worker 0, but no time passes from now on.
  const Barrier barrier = zip_line(ends_of({{1, 4}, {2, 4}}), Objective::kWaitingShare, 2);
  EXPECT_THAT(barrier.iterations, ElementsAre(1, 1));
  EXPECT_EQ(barrier.waiting_share, 0);
}

TEST(ZipLine, TheShareMayPassOverANearBarrier) {
  // Near-equal workers: the span rule stops after one iteration, wasting 1 of 2*11; later 2 of 2*101 is a smaller share.
  const EndTimes ends = ends_of({{10, 99}, {11, 101}});
  EXPECT_THAT(zip_line(ends, Objective::kSpan, 0).iterations, ElementsAre(1, 1));
  const Barrier barrier = zip_line(ends, Objective::kWaitingShare, 0);
  EXPECT_THAT(barrier.iterations, ElementsAre(2, 2));
  EXPECT_DOUBLE_EQ(barrier.waiting_share, 2.0 / 202);
}

TEST(ZipLine, NegativeAndHugeAndTinyTimesKeepTheirOrder) {
  for (double unit : {1e-300, 1.0, 1e290}) {
    const EndTimes ends = ends_of({{-9 * unit, -0.0, 7 * unit}, {-3 * unit, 0.0}, {-5 * unit, unit}});
    for (Objective objective : {Objective::kSpan, Objective::kWaitingShare}) {
      EXPECT_THAT(zip_line(ends, objective, -9 * unit).iterations, ElementsAre(2, 2, 2)) << unit;
    }
  }
}

TEST(ZipLine, ReachesTheLeastValueOfAllSetsAndTheSetOfTheReferenceSweep) {
  for (std::uint64_t seed = 0; seed < 12'000; ++seed) {
    Random random(seed);
    const bool reals = seed % 3 == 0;
    const Rows rows = random_rows(random, 4, 7, reals);
    const double now = seed % 2 == 0 ? 0 : earliest_possible(rows) * 0.5;
    for (Objective objective : {Objective::kSpan, Objective::kWaitingShare}) {
      const EndTimes ends = ends_of(rows);
      const Barrier fast = zip_line(ends, objective, now);
      const Barrier all = every_set(ends, objective, now).value();
      if (objective == Objective::kSpan) {
        ASSERT_EQ(fast.span, all.span) << "seed " << seed;
        ASSERT_EQ(fast.time, all.time) << "seed " << seed;
      } else {
        ASSERT_NEAR(fast.waiting_share, all.waiting_share, 1e-13) << "seed " << seed;
      }
      ASSERT_EQ(fast.iterations, reference_sweep(rows, objective, now)) << "seed " << seed;
    }
  }
}

TEST(ZipLine, FollowsTheReferenceSweepOnManyWorkers) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    const Rows rows = random_rows(random, 70, 30, seed % 2 == 0);
    const double now = earliest_possible(rows) * 0.25;
    for (Objective objective : {Objective::kSpan, Objective::kWaitingShare}) {
      ASSERT_EQ(zip_line(ends_of(rows), objective, now).iterations, reference_sweep(rows, objective, now)) << "seed " << seed;
    }
  }
}

TEST(EveryStrategy, ChoosesTheSameFromIntervalsAsFromTheirTable) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    Random random(seed);
    const auto workers = static_cast<std::size_t>(whole(random, 1, 5));
    const std::int64_t lookahead = whole(random, 1, 6);
    std::vector<double> last_end;
    std::vector<double> interval;
    Rows rows;
    for (std::size_t p = 0; p < workers; ++p) {
      last_end.push_back(std::uniform_real_distribution<double>(0, 2)(random));
      interval.push_back(std::uniform_real_distribution<double>(0, 1)(random));
      rows.emplace_back();
      for (std::int64_t i = 1; i <= lookahead; ++i) rows.back().push_back(last_end[p] + static_cast<double>(i) * interval[p]);
    }
    const EndTimes lazy = EndTimes::predicted(last_end, interval, lookahead).value();
    const EndTimes table = ends_of(rows);
    const double now = lazy.default_now();
    EXPECT_EQ(now, *std::max_element(last_end.begin(), last_end.end()));
    for (Objective objective : {Objective::kSpan, Objective::kWaitingShare}) {
      ASSERT_EQ(zip_line(lazy, objective, now).iterations, zip_line(table, objective, now).iterations) << "seed " << seed;
      ASSERT_EQ(grid_scan(lazy, objective, now).iterations, grid_scan(table, objective, now).iterations) << "seed " << seed;
      ASSERT_EQ(full_grid_scan(lazy, objective, now).iterations, full_grid_scan(table, objective, now).iterations)
          << "seed " << seed;
      ASSERT_EQ(every_set(lazy, objective, now)->iterations, every_set(table, objective, now)->iterations) << "seed " << seed;
    }
  }
}

TEST(GridScan, EndsAtTheSameTimeAreSearchedAndNotCounted) {
  const auto ends = EndTimes::predicted({0, 1.5}, {1, 0}, 1'000'000).value();  // by counting, 10^12 steps
  EXPECT_EQ(grid_scan(ends, Objective::kSpan, ends.default_now()).iterations, (std::vector<std::int64_t>{1, 1}));
}

TEST(GridScan, FollowsTheScanByTheBook) {
  for (std::uint64_t seed = 0; seed < 6'000; ++seed) {
    Random random(seed);
    const Rows rows = random_rows(random, 6, 9, seed % 3 == 0);
    const double now = earliest_possible(rows) * 0.5;
    std::vector<std::size_t> every;
    std::size_t first = 0;
    for (std::size_t p = 0; p < rows.size(); ++p) {
      every.push_back(p);
      if (rows[p][0] < rows[first][0]) first = p;
    }
    for (Objective objective : {Objective::kSpan, Objective::kWaitingShare}) {
      const EndTimes ends = ends_of(rows);
      ASSERT_EQ(grid_scan(ends, objective, now).iterations, reference_grid(rows, {first}, objective, now)) << "seed " << seed;
      ASSERT_EQ(full_grid_scan(ends, objective, now).iterations, reference_grid(rows, every, objective, now)) << "seed " << seed;
      ASSERT_LE(zip_line(ends, Objective::kSpan, now).span, full_grid_scan(ends, Objective::kSpan, now).span) << "seed " << seed;
    }
  }
}

TEST(GridScan, OfEquallyNearEndsTakesTheEarlier) {
  EXPECT_THAT(grid_scan(ends_of({{5}, {6, 7, 8}, {7, 9}}), Objective::kSpan, 0).iterations, ElementsAre(1, 1, 1));
  EXPECT_THAT(grid_scan(ends_of({{1, 5}, {4, 4, 6, 6}}), Objective::kSpan, 0).iterations, ElementsAre(2, 1));
}

TEST(EverySet, TakesTheEarliestBarrierAndThenTheLatestEnds) {
  // Span 1 at 4 and at 8; at 4 worker 2 may be at 3 or 4.
  const Barrier barrier = every_set(ends_of({{3, 7}, {4, 8}, {3, 4, 7, 8}}), Objective::kSpan, 0).value();
  EXPECT_THAT(barrier.iterations, ElementsAre(1, 1, 2));
}

TEST(EverySet, RefusesMoreSetsThanItCanTry) {
  const EndTimes ends = EndTimes::predicted(std::vector<double>(8, 0.0), std::vector<double>(8, 1.0), 8).value();
  const auto barrier = every_set(ends, Objective::kSpan, 0);
  ASSERT_FALSE(barrier.ok());
  EXPECT_EQ(barrier.status().kind(), ErrorKind::kBadRequest);
  EXPECT_THAT(barrier.status().message(), HasSubstr("zipline"));
}

TEST(EndTimes, RefusesWhatIsNotATable) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_THAT(EndTimes::from_rows({}).status().message(), HasSubstr("no workers"));
  EXPECT_THAT(EndTimes::from_rows({{1}, {}}).status().message(), HasSubstr("worker 1 has no ends"));
  EXPECT_THAT(EndTimes::from_rows({{1, 3, 2}}).status().message(), HasSubstr("worker 0 ends iteration 3 at 2"));
  EXPECT_THAT(EndTimes::from_rows({{1, infinity}}).status().message(), HasSubstr("iteration 2"));
  EXPECT_THAT(EndTimes::from_rows({{std::nan("")}}).status().message(), HasSubstr("nan"));
}

TEST(EndTimes, RefusesWhatIsNotAPrediction) {
  EXPECT_THAT(EndTimes::predicted({}, {}, 1).status().message(), HasSubstr("no workers"));
  EXPECT_THAT(EndTimes::predicted({1, 2}, {1}, 1).status().message(), HasSubstr("2 last ends but 1 intervals"));
  EXPECT_THAT(EndTimes::predicted({1}, {1}, 0).status().message(), HasSubstr("lookahead is 0"));
  EXPECT_THAT(EndTimes::predicted({1}, {-1}, 1).status().message(), HasSubstr("interval of worker 0 is -1"));
  EXPECT_THAT(EndTimes::predicted({1}, {1e300}, 1000).status().message(), HasSubstr("iteration 1000"));
  EXPECT_THAT(EndTimes::predicted({1, 1}, {1, 1}, kMostEvents).status().message(), HasSubstr("more than"));
}

TEST(EndTimes, AnIntervalOfZeroIsLegal) {
  EXPECT_THAT(zip_line(EndTimes::predicted({1, 1}, {0, 0}, 3).value(), Objective::kSpan, 1).iterations, ElementsAre(3, 1));
}

}  // namespace
}  // namespace paceline::sync

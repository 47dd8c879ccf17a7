#include "planner/tuning/tune.h"

#include <cmath>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/testing_jobs.h"

namespace paceline::tuning {
namespace {

using ::testing::HasSubstr;

struct Random {
  simulation::Job job;
  simulation::Cluster cluster;
};

// A table of layers from small to large ones, on links from slow to fast for it.
Random random_table(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto between = [&](double from, double to) { return std::uniform_real_distribution<double>(from, to)(random); };
  const auto logarithmic = [&](double from, double to) { return std::exp(between(std::log(from), std::log(to))); };
  std::vector<std::vector<std::int64_t>> sizes(static_cast<std::size_t>(between(2, 20)));
  Random made;
  for (auto& layer : sizes) {
    layer = {static_cast<std::int64_t>(logarithmic(100, random() % 4 == 0 ? 2e6 : 1e5))};
    const double forward = logarithmic(1e-4, 2e-2);
    made.job.forward.push_back(forward);
    made.job.backward.push_back(forward * between(1.5, 2.5));
  }
  made.job.table = job::testing::table_of(sizes);
  made.cluster.workers = made.cluster.servers = static_cast<std::int32_t>(between(2, 5));
  made.cluster.layout = random() % 4 == 0 ? simulation::Cluster::Layout::kSeparate : simulation::Cluster::Layout::kShared;
  double computing = 0;
  for (std::size_t layer = 0; layer < sizes.size(); ++layer) computing += made.job.forward[layer] + made.job.backward[layer];
  made.cluster.link = {static_cast<double>(made.job.table.elements()) * 4 * logarithmic(0.5, 5) / computing};
  made.cluster.start_up = logarithmic(1e-5, 3e-4);
  made.cluster.aggregation = random() % 2 == 0 ? 0 : 5e-11;
  return made;
}

// Address sanitizer makes one combination forty times as slow.
#ifdef __SANITIZE_ADDRESS__
constexpr std::uint64_t kTables = 4;
#else
constexpr std::uint64_t kTables = 20;
#endif

constexpr scheduling::SliceLimits kLimits{Bytes{20'000}, Bytes{800'000}};

// All combinations of what tune() may try, one by one.
double best_of_all(const Random& of) {
  const Grid grid = candidates_of(of.job, of.cluster, kLimits, {});
  double best = 1e9;
  for (const std::int64_t slice : grid.slices) {
    for (const std::int64_t merge : grid.merges) {
      for (const scheduling::WindowRule& window : grid.windows) {
        for (const scheduling::Return back : grid.backs) {
          for (const scheduling::OrderedPlaces& places : grid.places) {
            scheduling::ScheduleOptions schedule = scheduling::tuned();
            schedule.cut = {scheduling::Cut::Kind::kSlices, slice, merge};
            schedule.window = window;
            schedule.back = back;
            schedule.places = places;
            const auto predicted = predict(of.job, schedule, of.cluster);
            EXPECT_TRUE(predicted.ok()) << predicted.status().message();
            best = std::min(best, predicted->iteration);
          }
        }
      }
    }
  }
  return best;
}

TEST(Tune, IsWithinTwoPerCentOfTheBestOfAllCombinationsOnRandomTables) {
  for (std::uint64_t seed = 1; seed <= kTables; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Random random = random_table(seed);
    const auto choice = tune(random.job, random.cluster, kLimits, {});
    ASSERT_TRUE(choice.ok()) << choice.status().message();
    EXPECT_LE(choice->predicted.iteration, 1.02 * best_of_all(random));
    EXPECT_EQ(predict(random.job, choice->schedule, random.cluster)->iteration, choice->predicted.iteration);
    EXPECT_LE(choice->candidates.size(), 40U) << "not all combinations";
    EXPECT_THAT(choice->why, HasSubstr("predicted"));
  }
}

TEST(Tune, IsAsFastAsTheBestOfTheNamedSchedules) {
  for (std::uint64_t seed = 1; seed <= kTables; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Random random = random_table(seed);
    const auto choice = tune(random.job, random.cluster, kLimits, {});
    ASSERT_TRUE(choice.ok()) << choice.status().message();
    for (const std::string& name : scheduling::schedule_names()) {
      const auto other = predict(random.job, *scheduling::parse_schedule_name(name), random.cluster);
      EXPECT_LE(choice->predicted.iteration, other->iteration * 1.02) << name;
    }
  }
}

TEST(Tune, KeepsWhatTheUserHasFixed) {
  const Random random = random_table(3);
  scheduling::OrderedPlaces places;
  places.server_ingress = false;
  const auto choice =
      tune(random.job, random.cluster, {}, {.slice = 777, .merge = 5, .back = scheduling::Return::kPullByLayer, .places = places});
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->candidates.size(), 4U) << "only the window is open";
  for (const Candidate& candidate : choice->candidates) {
    EXPECT_EQ(candidate.schedule.cut, (scheduling::Cut{scheduling::Cut::Kind::kSlices, 777, 5}));
    EXPECT_EQ(candidate.schedule.back, scheduling::Return::kPullByLayer);
    EXPECT_EQ(candidate.schedule.places, places);
  }
  const auto fixed =
      tune(random.job, random.cluster, {}, {.slice = 777, .merge = 5, .window = scheduling::fixed_window({300'000})});
  ASSERT_TRUE(fixed.ok());
  for (const Candidate& candidate : fixed->candidates) EXPECT_EQ(candidate.schedule.window, scheduling::fixed_window({300'000}));
}

TEST(Tune, PrefersWhatTheFormulasSayWhereNothingIsBetterButTheSlicesThatMakeTheFewestMessages) {
  Random random = random_table(5);
  random.cluster.link = {1e12};  // the network costs nothing
  random.cluster.start_up = 0;
  const auto choice = tune(random.job, random.cluster, kLimits, {});
  ASSERT_TRUE(choice.ok());
  const Candidate& first = choice->candidates.front();
  scheduling::ScheduleOptions expected = first.schedule;
  for (const std::int64_t slice : candidates_of(random.job, random.cluster, kLimits, {}).slices) {
    scheduling::ScheduleOptions schedule = first.schedule;
    schedule.cut.elements = slice;
    const auto here = predict(random.job, schedule, random.cluster), best = predict(random.job, expected, random.cluster);
    if (here->messages < best->messages) expected = schedule;
  }
  EXPECT_EQ(choice->schedule, expected);
  EXPECT_EQ(choice->why.find("times as many messages") != std::string::npos, expected != first.schedule) << choice->why;
  const auto fixed = tune(random.job, random.cluster, kLimits, {.slice = first.schedule.cut.elements});
  ASSERT_TRUE(fixed.ok());
  EXPECT_EQ(fixed->schedule, fixed->candidates.front().schedule);
  EXPECT_THAT(fixed->why, HasSubstr("is worth it"));
}

TEST(Tune, SparesMessagesOnlyWhereThatCostsNextToNothing) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Random random = random_table(seed);
    const auto choice = tune(random.job, random.cluster, kLimits, {});
    ASSERT_TRUE(choice.ok()) << choice.status().message();
    double fastest = choice->predicted.iteration;
    for (const Candidate& candidate : choice->candidates) fastest = std::min(fastest, candidate.predicted.iteration);
    EXPECT_LE(choice->predicted.iteration, fastest * std::max(1 + kAsGood, 1 / (1 - kWorthAnother)));
  }
}

}  // namespace
}  // namespace paceline::tuning

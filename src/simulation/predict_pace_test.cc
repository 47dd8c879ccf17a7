// Predictions of workers that do not compute alike, links that differ, and updates that wait for each other.
#include <array>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/testing_jobs.h"
#include "simulation/predict.h"

namespace paceline::simulation {
namespace {

using scheduling::ScheduleOptions;
using sync::SyncKind;
using ::testing::HasSubstr;

// A link of 4e6 bytes/s: a million elements take a second.
Cluster cluster_of(std::int32_t workers, std::int32_t servers, Cluster::Layout layout = Cluster::Layout::kSeparate) {
  return {.workers = workers, .servers = servers, .layout = layout, .link = {4e6}, .window = Bytes{8'000}, .chunk = Bytes{4'000}};
}

double seconds_of(const Job& job, const ScheduleOptions& schedule, const Cluster& cluster) {
  const auto predicted = predict(job, schedule, cluster);
  EXPECT_TRUE(predicted.ok()) << predicted.status().message();
  return predicted.ok() ? predicted->iteration : 0;
}

// One layer that computes for a second, and hardly any parameters.
Job computing_job(SyncKind kind, const std::vector<double>& speeds) {
  Job job{.table = job::testing::table_of({{1}}), .forward = {0.4}, .backward = {0.6}};
  job.sync.kind = kind;
  job.speed.by_rank = speeds;
  return job;
}

TEST(PredictPace, EveryModelByHand) {
  const Cluster cluster = cluster_of(3, 1);
  const std::vector<double> speeds = {1, 0.5, 0.25};
  const auto iteration = [&](SyncKind kind) { return seconds_of(computing_job(kind, speeds), scheduling::p3(), cluster); };
  EXPECT_NEAR(iteration(SyncKind::kBsp), 4, 1e-3) << "as the slowest";
  EXPECT_NEAR(iteration(SyncKind::kAsp), 3 / (1 + 0.5 + 0.25), 1e-3) << "each as fast as it can";
  EXPECT_NEAR(iteration(SyncKind::kSsp), 4, 1e-3) << "as the slowest, once the others are ahead by the staleness";
  // All end an iteration together every 4 s, having done 4, 2 and 1.
  EXPECT_NEAR(iteration(SyncKind::kElasticBsp), 3 / (1 + 0.5 + 0.25), 0.02);
}

TEST(PredictPace, AWholeJobIsOverWithItsLastMiniBatch) {
  const Cluster cluster = cluster_of(2, 1);
  const auto seconds = [&](SyncKind kind, Iteration iterations) {
    const auto job = predict_job(computing_job(kind, {1, 0.5}), scheduling::p3(), cluster, iterations);
    EXPECT_TRUE(job.ok()) << job.status().message();
    return job.ok() ? *job : 0;
  };
  EXPECT_NEAR(seconds(SyncKind::kBsp, 3), 6, 1e-3);
  // Six mini-batches: the fast worker has done 4 of them after 4 s, the slow one 2.
  EXPECT_NEAR(seconds(SyncKind::kAsp, 3), 4, 1e-3);
  EXPECT_NEAR(seconds(SyncKind::kAsp, 1), 2, 1e-3) << "two mini-batches, and the slow worker has one of them";
  EXPECT_FALSE(predict_job(computing_job(SyncKind::kBsp, {}), scheduling::p3(), cluster, 0).ok());
}

// What was predicted before workers could differ: nobody's schedule changes by what others may do. Nanoseconds of three iterations,
// with nothing and with up to 30 000 parameters merged.
TEST(PredictPace, WorkersAlikeArePredictedToTheNanosecondAsEver) {
  using Expected = std::vector<std::pair<std::string, std::array<std::int64_t, 2>>>;
  Job job{.table = job::testing::table_of(
              {{700}, {20'000, 90}, {90'000}, {200'000}, {900'000, 300, 5}, {400'000}, {1'700'000}, {41'000}}),
          .forward = {0.02, 0.03, 0.02, 0.04, 0.04, 0.008, 0.001, 0},
          .backward = {0.04, 0.06, 0.04, 0.08, 0.08, 0.016, 0.002, 0.001}};
  const auto expect = [&](const Cluster& cluster, const Expected& expected) {
    for (const auto& [name, nanoseconds] : expected) {
      ScheduleOptions schedule = *scheduling::parse_schedule_name(name);
      for (std::size_t i = 0; i < 2; ++i) {
        schedule.cut.merge = i == 0 ? 0 : 30'000;
        EXPECT_EQ(std::llround(seconds_of(job, schedule, cluster) * 3e9), nanoseconds[i]) << name << " " << schedule.cut.merge;
      }
    }
  };
  Cluster cluster{.workers = 4,
                  .servers = 4,
                  .layout = Cluster::Layout::kShared,
                  .link = {60e6},
                  .start_up = 50e-6,
                  .processing = 30e-6,
                  .aggregation = 2e-10};
  expect(cluster, {
                      {"default", {2462912361, 2453066684}},
                      {"layer-wise", {1447046779, 1451869783}},
                      {"ibatch", {1447046779, 1451869783}},
                      {"kvstore", {1677080346, 1688268895}},
                      {"slicing", {1513797705, 1507540171}},
                      {"tuned", {1449291096, 1452139967}},
                      {"p3", {1449291096, 1452139967}},
                  });
  cluster.layout = Cluster::Layout::kSeparate;
  cluster.workers = 5;
  cluster.servers = 3;
  job.pushed = 0.5;
  expect(cluster, {
                      {"default", {3118672271, 3117947633}},
                      {"layer-wise", {1543178453, 1544849887}},
                      {"ibatch", {1543178453, 1544849887}},
                      {"kvstore", {2051313170, 2111227941}},
                      {"slicing", {1649739411, 1648710411}},
                      {"tuned", {1440435327, 1438989908}},
                      {"p3", {1440435327, 1438989908}},
                  });
}

TEST(PredictPace, JitterIsTheJobsOwn) {
  Job job = computing_job(SyncKind::kBsp, {});
  job.speed.jitter = 0.2;
  job.speed.seed = 7;
  double expected = 0;
  for (Iteration iteration = 1; iteration <= 20; ++iteration)
    expected += std::max(job::slowness(job.speed, Rank{0}, iteration), job::slowness(job.speed, Rank{1}, iteration));
  EXPECT_NEAR(*predict_job(job, scheduling::p3(), cluster_of(2, 1), 20), expected, 1e-2);
}

// The worker's link is twice as fast as the server's, so it waits for that one in both directions.
TEST(PredictPace, TheSlowerOfTwoLinksCounts) {
  Job job{.table = job::testing::table_of({{400'000}}), .forward = {0.1}, .backward = {0.1}};
  ScheduleOptions schedule = scheduling::p3();
  schedule.cut = scheduling::whole_tensors();
  Cluster cluster = cluster_of(1, 1);
  EXPECT_NEAR(seconds_of(job, schedule, cluster), 0.2 + 0.4 + 0.4, 2e-3);
  cluster.links = {{4e6}, {2e6}};
  EXPECT_NEAR(seconds_of(job, schedule, cluster), 0.2 + 0.8 + 0.8, 5e-3);
  cluster.links = {{2e6}, {4e6}};
  EXPECT_NEAR(seconds_of(job, schedule, cluster), 0.2 + 0.8 + 0.8, 5e-3);
  cluster.links = {{4e6}, {4e6}};
  const double alike = seconds_of(job, schedule, cluster);
  cluster.links.clear();
  EXPECT_EQ(alike, seconds_of(job, schedule, cluster));
}

// What a slow worker sends takes as long to leave as ever, and of the server's link only as long as that takes for it.
TEST(PredictPace, ASlowSenderLeavesAFastReceiverFreeForOthers) {
  Job job{.table = job::testing::table_of({{10'000'000}}), .forward = {0.001}, .backward = {0.001}};
  job.sync.kind = SyncKind::kAsp;
  const auto iteration = [&](std::vector<BytesPerSecond> links) {
    const auto workers = static_cast<std::int32_t>(links.size() - 1);
    return seconds_of(job, scheduling::p3(), {.workers = workers, .servers = 1, .link = {1e9}, .links = std::move(links)});
  };
  const double fast = iteration({{1e9}, {1e9}});
  for (const double rate : {1e8, 1e7, 3e6}) {
    const double slow = iteration({{rate}, {1e9}});
    EXPECT_NEAR(iteration({{1e9}, {rate}, {1e9}}), 2 / (1 / fast + 1 / slow), 0.12 * 2 * fast) << rate;
  }
}

// Two workers of which one is a fifth as fast, and one layer: the fast one has its values late and pushes early.
TEST(PredictPace, TheBoundKnowsThatAFastWorkerNeedsItsValuesLater) {
  Job job{.table = job::testing::table_of({{250'000}}), .forward = {0.02}, .backward = {0.02}};
  Cluster cluster = cluster_of(2, 2, Cluster::Layout::kShared);
  for (const std::vector<double>& speeds : {std::vector<double>{}, {0.5, 0.5}, {0.14, 0.77}, {0.77, 0.14}}) {
    job.speed.by_rank = speeds;
    for (const std::string& name : scheduling::schedule_names()) {
      const auto predicted = predict(job, *scheduling::parse_schedule_name(name), cluster);
      ASSERT_TRUE(predicted.ok());
      EXPECT_GE(predicted->iteration, predicted->lower_bound - 1e-6) << name;
      EXPECT_GT(predicted->lower_bound, 0.25);
    }
  }
}

// Queues of the default schedule build up before every iteration is as long as the one before it.
TEST(PredictPace, QueuesMayNeedIterationsToBuildUp) {
  Job job{.table = job::testing::table_of({{7'514}, {1'163'491}, {11'632}, {25'624}, {9'787}}),
          .forward = {0.007, 0.004, 0.003, 0.013, 0.01},
          .backward = {0.025, 0.029, 0.001, 0.023, 0.018}};
  const Cluster cluster{
      .workers = 2, .servers = 2, .layout = Cluster::Layout::kShared, .link = {110'685'310 / 8.0}, .start_up = 20e-6};
  const ScheduleOptions schedule = scheduling::default_schedule();
  const auto settled = predict_settled(job, schedule, cluster);
  ASSERT_TRUE(settled.ok());
  const double later = *predict_job(job, schedule, cluster, 80) - *predict_job(job, schedule, cluster, 60);
  EXPECT_NEAR(*settled, later / 20, 0.01 * *settled);
  EXPECT_LT(seconds_of(job, schedule, cluster), 0.9 * *settled);
  EXPECT_EQ(*predict_settled(job, scheduling::p3(), cluster), *predict_settled(job, scheduling::p3(), cluster));
  job.sync.kind = SyncKind::kAsp;
  EXPECT_THAT(predict_settled(job, schedule, cluster).status().message(), HasSubstr("only workers in step settle"));
}

// Without clipping the second layer's value comes back while the first one still computes and pushes.
TEST(PredictPace, ClippedValuesWaitForTheLastGradientOfAllServers) {
  Job job{.table = job::testing::table_of({{100'000}, {200'000}}), .forward = {0.1, 0.1}, .backward = {0.5, 0.5}};
  ScheduleOptions schedule = scheduling::p3();
  schedule.cut = scheduling::whole_tensors();
  Cluster cluster = cluster_of(1, 2);
  EXPECT_NEAR(seconds_of(job, schedule, cluster), 0.2 + 1 + 0.1 + 0.1, 5e-3);
  job.holds_updates = true;
  // Two servers send at once, so that the first value takes as long again; the rest of the second hides behind forward.
  EXPECT_NEAR(seconds_of(job, schedule, cluster), 0.2 + 1 + 0.1 + 0.2, 5e-3);
  job.sync.kind = SyncKind::kAsp;
  EXPECT_THAT(predict(job, schedule, cluster).status().message(), HasSubstr("has no iteration that all workers share"));
}

struct Drawn {
  Job job;
  ScheduleOptions schedule;
  Cluster cluster;
};

Drawn draw(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto from_to = [&](std::int64_t from, std::int64_t to) {
    return from + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(to - from + 1));
  };
  Drawn made;
  std::vector<std::vector<std::int64_t>> sizes(static_cast<std::size_t>(from_to(1, 6)));
  for (auto& layer : sizes) {
    layer.resize(static_cast<std::size_t>(from_to(1, 3)));
    for (auto& size : layer) size = from_to(1, from_to(0, 3) == 0 ? 60'000 : 2'000);
    made.job.forward.push_back(0.001 * static_cast<double>(from_to(0, 20)));
    made.job.backward.push_back(0.001 * static_cast<double>(from_to(1, 30)));
  }
  made.job.table = job::testing::table_of(sizes);
  made.job.sync.kind = static_cast<SyncKind>(from_to(0, 3));
  made.job.sync.staleness = from_to(0, 3);
  made.job.sync.lookahead = from_to(1, 6);
  made.job.sync.history = from_to(1, 3);
  made.job.holds_updates = made.job.sync.kind == SyncKind::kBsp && from_to(0, 1) == 0;
  made.job.speed.jitter = from_to(0, 1) == 0 ? 0 : 0.2;
  made.job.speed.seed = seed;
  const bool shared = from_to(0, 1) == 0;
  made.cluster = cluster_of(static_cast<std::int32_t>(from_to(1, 5)), static_cast<std::int32_t>(from_to(1, 4)),
                            shared ? Cluster::Layout::kShared : Cluster::Layout::kSeparate);
  if (shared) made.cluster.servers = made.cluster.workers;
  if (from_to(0, 1) == 0) {
    for (std::int32_t worker = 0; worker < made.cluster.workers; ++worker)
      made.job.speed.by_rank.push_back(0.25 * static_cast<double>(from_to(1, 4)));
  }
  if (from_to(0, 1) == 0) {
    const std::int32_t nodes = made.cluster.workers + (shared ? 0 : made.cluster.servers);
    for (std::int32_t node = 0; node < nodes; ++node) made.cluster.links.push_back({1e6 * static_cast<double>(from_to(1, 8))});
  }
  made.cluster.start_up = from_to(0, 1) == 0 ? 0 : 1e-4;
  made.cluster.aggregation = from_to(0, 1) == 0 ? 0 : 1e-8;
  made.schedule = *scheduling::parse_schedule_name(scheduling::schedule_names()[static_cast<std::size_t>(
      from_to(0, static_cast<std::int64_t>(scheduling::schedule_names().size()) - 1))]);
  made.schedule.cut.merge = from_to(0, 1) == 0 ? 0 : from_to(1, 5'000);
  if (from_to(0, 1) == 0) made.schedule.back = static_cast<scheduling::Return>(from_to(0, 4));
  if (made.schedule.back == scheduling::Return::kPullInBatches && from_to(0, 1) == 0)
    made.schedule.push = scheduling::PushWhen::kInBatches;
  return made;
}

double computing(const Job& job) {
  return std::accumulate(job.forward.begin(), job.forward.end(), 0.0) +
         std::accumulate(job.backward.begin(), job.backward.end(), 0.0);
}

// Whatever is put together: a job ends, is the same again, and takes no less than what its mini-batches compute.
TEST(PredictPace, RandomJobsEndAndTakeAtLeastWhatTheirWorkersCompute) {
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Drawn drawn = draw(seed);
    constexpr Iteration kIterations = 6;
    const auto whole = predict_job(drawn.job, drawn.schedule, drawn.cluster, kIterations);
    ASSERT_TRUE(whole.ok()) << whole.status().message();
    EXPECT_EQ(*whole, *predict_job(drawn.job, drawn.schedule, drawn.cluster, kIterations));
    double together = 0;  // mini-batches a second, at most, with jitter of three deviations
    for (std::int32_t worker = 0; worker < drawn.cluster.workers; ++worker)
      together += 1 / job::typical_slowness(drawn.job.speed, Rank{worker}) / (1 - 3 * drawn.job.speed.jitter);
    const double least = computing(drawn.job) * drawn.cluster.workers / together;
    EXPECT_GE(*whole, kIterations * least * 0.999);
    EXPECT_GE(seconds_of(drawn.job, drawn.schedule, drawn.cluster), least * 0.999);
  }
}

TEST(PredictPace, RefusesSpeedsAndLinksThatDoNotFit) {
  const auto message = [](const Job& job, const Cluster& cluster) {
    return predict(job, scheduling::p3(), cluster).status().message();
  };
  EXPECT_THAT(message(computing_job(SyncKind::kBsp, {1, 1}), cluster_of(3, 1)), HasSubstr("2 entries for 3 workers"));
  EXPECT_THAT(message(computing_job(SyncKind::kBsp, {0}), cluster_of(1, 1)), HasSubstr("out of range"));
  Cluster cluster = cluster_of(2, 1);
  cluster.links = {{1e6}, {1e6}};
  EXPECT_THAT(message(computing_job(SyncKind::kBsp, {}), cluster), HasSubstr("2 links for 3 nodes"));
  cluster.links = {{1e6}, {1e6}, {0}};
  EXPECT_THAT(message(computing_job(SyncKind::kBsp, {}), cluster), HasSubstr("0 bytes/s"));
}

}  // namespace
}  // namespace paceline::simulation

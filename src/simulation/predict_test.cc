#include "simulation/predict.h"

#include <cmath>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/testing_jobs.h"
#include "scheduling/live_profile_testing.h"

namespace paceline::simulation {
namespace {

using scheduling::ScheduleOptions;
using ::testing::HasSubstr;

// Layers of one tensor each. A link of 4e6 bytes/s: a million elements take a second.
Job job_of(const std::vector<std::int64_t>& elements, const std::vector<double>& forward, const std::vector<double>& backward) {
  std::vector<std::vector<std::int64_t>> sizes;
  for (const std::int64_t size : elements) sizes.push_back({size});
  return {job::testing::table_of(sizes), forward, backward};
}

Cluster cluster_of(std::int32_t workers, std::int32_t servers, Cluster::Layout layout = Cluster::Layout::kSeparate) {
  return {.workers = workers, .servers = servers, .layout = layout, .link = {4e6}, .window = Bytes{8'000}, .chunk = Bytes{4'000}};
}

double seconds_of(const Job& job, ScheduleOptions schedule, const Cluster& cluster) {
  const auto predicted = predict(job, schedule, cluster);
  EXPECT_TRUE(predicted.ok()) << predicted.status().message();
  return predicted.ok() ? predicted->iteration : 0;
}

constexpr double kChunk = 0.001;  // what chunks may add to a figure worked out without them, in seconds

TEST(Predict, OneWorkerAndOneServerByHand) {
  const Job job = job_of({100'000, 300'000}, {0.2, 0.3}, {0.4, 0.5});
  const Cluster cluster = cluster_of(1, 1);
  // Everything one after the other: 0.5 forward, 0.9 backward, 0.4 there, 0.4 back.
  EXPECT_NEAR(seconds_of(job, scheduling::default_schedule(), cluster), 2.2, 2 * kChunk);
  // Layer 2's push (0.3) and the way back of its slices hide behind layer 1's backward (0.4). Then layer 1's push takes 0.1, and
  // its last slice of two 0.05 to come back.
  EXPECT_NEAR(seconds_of(job, scheduling::p3(), cluster), 0.5 + 0.9 + 0.1 + 0.05, 3 * kChunk);
  // Backward, both pushes, and only then the pulls: layer 1's (0.1), and under its forward layer 2's (0.3), for which that waits.
  ScheduleOptions apart = scheduling::layer_wise();
  apart.push = scheduling::PushWhen::kAtEnd;
  EXPECT_NEAR(seconds_of(job, apart, cluster), 0.9 + 0.4 + 0.4 + 0.3, 4 * kChunk);
  // Without layers to hide behind nothing is hidden.
  EXPECT_NEAR(seconds_of(job_of({100'000}, {0.2}, {0.3}), scheduling::layer_wise(), cluster), 0.7, 2 * kChunk);
}

TEST(Predict, AStartUpCountsForEveryMessage) {
  Cluster cluster = cluster_of(1, 1);
  const Job job = job_of({100'000}, {0.2}, {0.3});
  ScheduleOptions schedule = scheduling::slicing();
  schedule.cut = scheduling::slices_of(50'000);
  const double without = seconds_of(job, schedule, cluster);
  cluster.start_up = 0.01;
  // Two pushes, then the second value; the first one's way back is hidden behind the second push.
  EXPECT_NEAR(seconds_of(job, schedule, cluster) - without, 0.03, 3 * kChunk);
  EXPECT_EQ(predict(job, schedule, cluster)->messages, 4);
}

TEST(Predict, ProcessingHidesBehindTheBytesOfTheMessageBefore) {
  Cluster cluster = cluster_of(1, 1);
  const Job job = job_of({400'000}, {0.2}, {0.3});
  ScheduleOptions schedule = scheduling::slicing();
  schedule.cut = scheduling::slices_of(100'000);  // 0.1 s each
  const double without = seconds_of(job, schedule, cluster);
  cluster.processing = 0.09;
  EXPECT_NEAR(seconds_of(job, schedule, cluster), without, 3 * kChunk);
  cluster.processing = 0.3;  // three more pushes wait for it, and the last value for the one before
  EXPECT_NEAR(seconds_of(job, schedule, cluster) - without, 3 * 0.2, 0.05);
}

// A start-up of a second makes one batch best in both directions. Pushed as ready: each gradient by itself, one after the other.
TEST(Predict, PushesInBatchesPayOneStartUp) {
  Cluster cluster = cluster_of(1, 1);
  cluster.start_up = 1;
  const Job job = job_of({100'000, 100'000, 100'000}, {0.01, 0.01, 0.01}, {0.01, 0.01, 0.01});
  ScheduleOptions schedule = scheduling::ibatch_schedule();
  // Layer 3's backward, three pushes, the request, the value, forward.
  EXPECT_NEAR(seconds_of(job, schedule, cluster), 0.01 + 3 * 1.1 + 1 + 1.3 + 0.03, 4 * kChunk);
  EXPECT_EQ(predict(job, schedule, cluster)->messages, 4);
  schedule.push = scheduling::PushWhen::kInBatches;
  // All of backward, one push, the request, the value, forward.
  EXPECT_NEAR(seconds_of(job, schedule, cluster), 0.03 + 1.3 + 1 + 1.3 + 0.03, 4 * kChunk);
  EXPECT_EQ(predict(job, schedule, cluster)->messages, 2);
}

// The twin is the profile of a worker that runs on such a link: its plan says how many values come back in one message.
TEST(Predict, BatchesAreThoseThatARunningWorkerPlans) {
  const Job job = job_of({100'000, 100'000, 300'000, 100'000, 200'000}, {0.1, 0.1, 0.2, 0.05, 0.1}, {0.2, 0.1, 0.2, 0.1, 0.1});
  std::set<int> counts;
  for (const double start_up : {0.0013, 0.013, 0.13, 2.0}) {  // no ties, which rounding would decide
    for (const char* name : {"exact", "forward-greedy", "backward-greedy", "ibatch"}) {
      Cluster cluster = cluster_of(1, 10);
      cluster.start_up = start_up;
      ScheduleOptions schedule = scheduling::ibatch_schedule();
      schedule.cut = scheduling::slices_of(10'000);  // every layer has something on every server
      schedule.batching = *scheduling::parse_batching_algorithm(name);
      const auto predicted = predict(job, schedule, cluster);
      ASSERT_TRUE(predicted.ok()) << predicted.status().message();

      std::vector<Bytes> bytes;
      for (const wire::TensorInfo& tensor : job.table.tensors) bytes.push_back(Bytes{4 * tensor.elements()});
      scheduling::testing::ToldProfile profile(bytes, schedule.batching);
      profile.on_round_trip(from_seconds(start_up));
      TimePoint now{};
      for (Iteration pass = 0; pass < scheduling::LiveProfile::kFirstPlanAfter; ++pass) {
        profile.on_iteration_done();
        for (std::uint32_t layer = 0; layer < bytes.size(); ++layer) {
          profile.on_pull_begun(layer, now);
          now += from_seconds(static_cast<double>(bytes[layer].count) / cluster.link.value);
          profile.on_pulled(layer, bytes[layer], now);
        }
        for (std::size_t layer = 0; layer < bytes.size(); ++layer) {
          profile.on_gate(Layer{static_cast<std::int32_t>(layer)}, now, now);
          now += from_seconds(job.forward[layer]);
        }
        profile.on_forward_done(now);
      }
      profile.on_iteration_done();
      const auto plan = profile.plan();
      ASSERT_TRUE(plan);
      const auto batches = static_cast<int>(plan->bounds.size());
      const int slices = 10 + 10 + 30 + 10 + 20;
      // A batch more or less makes ten; what is on its way when an iteration ends counts in the next one.
      EXPECT_NEAR(predicted->messages, slices + 10 * batches, 4.9) << name << " " << start_up;
      counts.insert(batches);
    }
  }
  EXPECT_GE(counts.size(), 3U) << "the start-up decides";
}

// P3's figure 4: three layers, the second as large as the others together three times over. First come, first served makes the
// first layer, whose gradient comes last, wait behind the large one; by layer it goes first, and the large one's rest hides.
TEST(Predict, PriorityBringsTheFirstLayerForwardAsInFigure4) {
  const Job job = job_of({100'000, 600'000, 100'000}, {0.1, 0.1, 0.1}, {0.1, 0.1, 0.1});
  const Cluster cluster = cluster_of(2, 2, Cluster::Layout::kShared);
  ScheduleOptions first_come = scheduling::slicing(), by_layer = scheduling::p3();
  first_come.cut = by_layer.cut = scheduling::slices_of(10'000);
  const double slow = seconds_of(job, first_come, cluster), fast = seconds_of(job, by_layer, cluster);
  EXPECT_LT(fast, slow - 0.05);
}

// P3's figure 6: a large tensor in one piece is pushed, updated and pulled one after the other; in slices the three overlap.
TEST(Predict, SlicesOverlapBothDirectionsAsInFigure6) {
  const Job job = job_of({400'000}, {0.1}, {0.1});
  const Cluster cluster = cluster_of(1, 1);
  ScheduleOptions whole = scheduling::p3(), sliced = scheduling::p3();
  whole.cut = scheduling::whole_tensors();
  sliced.cut = scheduling::slices_of(100'000);
  EXPECT_NEAR(seconds_of(job, whole, cluster), 0.2 + 0.4 + 0.4, 2 * kChunk);
  EXPECT_NEAR(seconds_of(job, sliced, cluster), 0.2 + 0.4 + 0.1, 3 * kChunk);
}

struct Random {
  Job job;
  Cluster cluster;
};

Random random_case(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto draw = [&](std::int64_t from, std::int64_t to) {
    return from + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(to - from + 1));
  };
  std::vector<std::vector<std::int64_t>> sizes(static_cast<std::size_t>(draw(1, 8)));
  Random made;
  for (auto& layer : sizes) {
    layer.resize(static_cast<std::size_t>(draw(1, 3)));
    for (auto& size : layer) size = draw(1, draw(0, 3) == 0 ? 100'000 : 2'000);
    made.job.forward.push_back(0.001 * static_cast<double>(draw(0, 20)));
    made.job.backward.push_back(0.001 * static_cast<double>(draw(0, 30)));
  }
  made.job.table = job::testing::table_of(sizes);
  made.cluster = cluster_of(0, 0, Cluster::Layout::kShared);
  made.cluster.workers = made.cluster.servers = static_cast<std::int32_t>(draw(1, 5));
  made.cluster.start_up = draw(0, 1) == 0 ? 0 : 1e-4;
  made.cluster.aggregation = draw(0, 1) == 0 ? 0 : 1e-9;
  if (draw(0, 3) == 0) made.job.pushed = 0.25;
  return made;
}

// Every gradient and every value takes a link for a second: pushes of a tenth leave the values' second.
TEST(Predict, DroppedElementsOfGradientsTakeNoTime) {
  Job job = job_of({1'000'000}, {0.1}, {0.1});
  ScheduleOptions schedule = scheduling::p3();
  schedule.cut = scheduling::whole_tensors();
  EXPECT_NEAR(seconds_of(job, schedule, cluster_of(1, 1)), 0.2 + 1 + 1, 2 * kChunk);
  job.pushed = 0.1;
  EXPECT_NEAR(seconds_of(job, schedule, cluster_of(1, 1)), 0.2 + 0.1 + 1, 2 * kChunk);
  const auto shared = predict(job, schedule, cluster_of(2, 2, Cluster::Layout::kShared));
  ASSERT_TRUE(shared.ok());
  EXPECT_NEAR(shared->lower_bound, 0.2 + 0.05 + 0.5, 1e-9) << "half of each";
  for (const double wrong : {0.0, -1.0, 1.5, std::nan("")}) {
    job.pushed = wrong;
    EXPECT_THAT(predict(job, schedule, cluster_of(1, 1)).status().message(), HasSubstr("times the bytes of their values"));
  }
}

// Four tensors of a quarter of a second, one on each of four servers beside the workers. Two nodes behind a card push four to those
// behind the other, and get as many back.
TEST(Predict, WhatIsBehindACardSharesIt) {
  const Job job = job_of({250'000, 250'000, 250'000, 250'000}, {0, 0, 0, 0.1}, {0.1, 0, 0, 0});
  const ScheduleOptions schedule = scheduling::default_schedule();
  Cluster cluster = cluster_of(4, 4, Cluster::Layout::kShared);
  const double own = seconds_of(job, schedule, cluster);
  cluster.cards = 4;
  EXPECT_NEAR(seconds_of(job, schedule, cluster), own, kChunk) << "each has its own";
  cluster.cards = 2;
  const double shared = seconds_of(job, schedule, cluster);
  EXPECT_NEAR(shared, 0.2 + 8 * 0.25, 0.1);
  cluster.start_up = 0.02;
  EXPECT_LT(seconds_of(job, schedule, cluster), shared + 8 * 0.02 / 2) << "another node has the card meanwhile";
  cluster.start_up = 0;
  cluster.cards = 1;
  EXPECT_NEAR(seconds_of(job, schedule, cluster), 0.2, 1e-9) << "nothing passes the card";
  cluster.links.assign(4, cluster.link);
  EXPECT_THAT(predict(job, schedule, cluster).status().message(), HasSubstr("1 network cards, and 4 links of their own"));
  cluster.links.clear();
  cluster.cards = -1;
  EXPECT_THAT(predict(job, schedule, cluster).status().message(), HasSubstr("-1 network cards"));
}

TEST(Predict, IsNeverBelowTheLowerBoundAndTheSameEveryTime) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Random random = random_case(seed);
    for (const std::string& name : scheduling::schedule_names()) {
      ScheduleOptions schedule = *scheduling::parse_schedule_name(name);
      if (seed % 2 == 0) schedule.cut.merge = 1000;
      const auto predicted = predict(random.job, schedule, random.cluster);
      ASSERT_TRUE(predicted.ok()) << predicted.status().message();
      // Shares of the servers differ by 1 % at most where a schedule balances them; nanoseconds are rounded.
      EXPECT_GE(predicted->iteration, predicted->lower_bound * 0.999 - 1e-6) << name;
      EXPECT_EQ(predicted->iteration, predict(random.job, schedule, random.cluster)->iteration);
    }
  }
}

// The size of ResNet-50 on 4 hosts: what is stepped grows with messages, not with bytes.
TEST(Predict, StepsFewMessagesForALargeModel) {
  std::vector<std::int64_t> sizes;
  std::vector<double> times;
  for (int layer = 0; layer < 160; ++layer) {
    sizes.push_back(layer % 3 == 0 ? 450'000 : 1'000);
    times.push_back(0.001);
  }
  Cluster cluster = cluster_of(4, 4, Cluster::Layout::kShared);
  cluster.link = {125e6};
  cluster.window = Bytes{400'000};
  cluster.chunk = Bytes{65'536};
  ScheduleOptions schedule = scheduling::p3();
  schedule.cut = scheduling::slices_of(100'000);
  const auto separate = predict(job_of(sizes, times, times), schedule, cluster);
  ASSERT_TRUE(separate.ok());
  EXPECT_LE(separate->messages, 3 * 4 * 2 * (54 * 5 + 106) + 1);
  schedule.cut.merge = 10'000;
  const auto merged = predict(job_of(sizes, times, times), schedule, cluster);
  ASSERT_TRUE(merged.ok());
  EXPECT_LT(merged->messages, separate->messages * 0.9);
}

TEST(Predict, RefusesProfilesThatDoNotFit) {
  const Cluster cluster = cluster_of(1, 1);
  const auto message = [](const Job& job, const Cluster& on) { return predict(job, scheduling::p3(), on).status().message(); };
  EXPECT_THAT(message(job_of({10}, {0.1, 0.2}, {0.1}), cluster), HasSubstr("2 forward and 1 backward"));
  EXPECT_THAT(message(job_of({10}, {-0.1}, {0.1}), cluster), HasSubstr("negative"));
  EXPECT_THAT(message(job_of({10}, {0.1}, {std::nan("")}), cluster), HasSubstr("not finite"));
  Cluster none = cluster;
  none.link = {0};
  EXPECT_THAT(message(job_of({10}, {0.1}, {0.1}), none), HasSubstr("0 bytes/s"));
  EXPECT_THAT(message(job_of({10}, {0.1}, {0.1}), cluster_of(1, 2, Cluster::Layout::kShared)), HasSubstr("cannot share"));
}

// VGG-19 in small, between four nodes: the heaviest layer is the third last, so pushes of the next iteration are more urgent by
// layer than the last values of this one. If they left first, the workers that are ahead would starve the others (1.5 of the
// bound).
TEST(Predict, WorkersThatShareLinksWithServersDoNotDriftApart) {
  const Job job = job_of({700, 20'000, 90'000, 200'000, 900'000, 1'000'000, 400'000, 10'000'000, 1'700'000, 410'000},
                         {0.02, 0.03, 0.02, 0.04, 0.04, 0.04, 0.008, 0.001, 0.0002, 0},
                         {0.04, 0.06, 0.04, 0.08, 0.08, 0.08, 0.016, 0.002, 0.0003, 0.0001});
  Cluster cluster{.workers = 4, .servers = 4, .layout = Cluster::Layout::kShared, .link = {117e6}, .start_up = 50e-6};
  for (const std::int64_t slice : {60'000, 200'000}) {
    ScheduleOptions schedule = scheduling::p3();
    schedule.cut = scheduling::slices_of(slice);
    const auto predicted = predict(job, schedule, cluster);
    ASSERT_TRUE(predicted.ok());
    EXPECT_LT(predicted->iteration, 1.2 * predicted->lower_bound) << slice;
  }
}

}  // namespace
}  // namespace paceline::simulation

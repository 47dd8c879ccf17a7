// Stepped jobs in BSP, compared with the plain computation bit by bit.
#include <limits>
#include <numeric>

#include "paramserver/core/system_testing.h"

namespace paceline::paramserver {
namespace {

using testing::Case;
using testing::random_case;
using testing::Reference;
using testing::same_bits;
using testing::System;

void expect_reference_everywhere(System& system, const Case& job) {
  const auto& expected = system.history_.back();
  for (std::int32_t w = 0; w < job.options.workers; ++w)
    EXPECT_TRUE(same_bits(system.worker(static_cast<std::size_t>(w)).parameters, expected)) << "worker " << w;
  const Reference& reference = *system.reference_;
  const scheduling::UnitPlan& units = system.plan().units();
  for (std::uint32_t id = 0; id < units.parts.size(); ++id) {
    const scheduling::Part& planned = units.parts[id];
    const auto saved = system.server(static_cast<std::size_t>(units.units[planned.unit].server.value)).export_part(id);
    const auto part = [&](const std::vector<float>& plane) {
      return std::span(plane).subspan(static_cast<std::size_t>(planned.offset), static_cast<std::size_t>(planned.elements));
    };
    const auto n = static_cast<std::size_t>(planned.elements);
    if (saved.state.size() >= n) {
      EXPECT_TRUE(same_bits(saved.state.first(n), part(reference.m)));
    }
    if (saved.state.size() == 2 * n) {
      EXPECT_TRUE(same_bits(saved.state.last(n), part(reference.v)));
    }
    EXPECT_EQ(saved.steps, reference.steps[planned.tensor]);
    EXPECT_EQ(saved.version, job.options.first - 1 + (planned.unit < units.moving ? job.iterations : 0));
  }
  for (std::int32_t s = 0; s < job.options.servers; ++s) {
    const auto& counters = system.server(static_cast<std::size_t>(s)).counters();
    EXPECT_EQ(counters.gradient_bytes, 0);
    EXPECT_LE(counters.gradient_bytes_high, (job.options.workers + 1) * 4 * system.plan().units().elements_of(Rank{s}));
  }
}

TEST(System, GivesTheReferencesBitsForEveryScheduleOptimizerAndOrderOfMessages) {
  std::int64_t batched_values = 0, batched_pushes = 0, merged_layers = 0;
  for (std::uint64_t seed = 1; seed <= 1200; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Case job = random_case(seed);
    System system(job);
    system.run();
    if (HasFailure()) return;
    expect_reference_everywhere(system, job);
    if (HasFailure()) return;
    batched_values += system.batched_values;
    batched_pushes += system.batched_pushes;
    merged_layers +=
        std::ranges::count_if(system.plan().units().units, [](const auto& unit) { return unit.layer != unit.last_layer; });
  }
  EXPECT_GT(batched_values, 100);
  EXPECT_GT(batched_pushes, 100);
  EXPECT_GT(merged_layers, 100);
}

TEST(System, IsTheSameForEveryNumberOfServersAndEveryCutWithClipping) {
  std::vector<float> first;
  for (std::int32_t servers = 1; servers <= 3; ++servers) {
    for (const scheduling::Cut cut :
         {scheduling::whole_tensors(), scheduling::balanced_tensors(), scheduling::slices_of(3), scheduling::slices_of(1000)}) {
      Case job;
      job.seed = 5;
      job.table = job::testing::table_of({{40, 7}, {13}, {64, 1}});
      job.options.workers = 3;
      job.options.servers = servers;
      job.options.schedule.cut = cut;
      job.options.update.clip_norm = 1.25;
      job.options.update.optimizer.kind = tensor::OptimizerKind::kAdam;
      System system(job);
      system.run();
      ASSERT_FALSE(HasFailure());
      expect_reference_everywhere(system, job);
      if (first.empty()) first = system.worker(0).parameters;
      EXPECT_TRUE(same_bits(first, system.worker(0).parameters)) << servers << " servers";
    }
  }
}

// Now and then a gradient is no number, or its sum is none.
Case random_mean_case(std::uint64_t seed) {
  Case job = random_case(seed);
  job.options.update = {.verdict = true};
  job.options.update.optimizer.kind = tensor::OptimizerKind::kMean;
  const Layer last = job.table.tensors.back().layer;
  for (wire::TensorInfo& tensor : job.table.tensors) {
    tensor.group = 0;
    tensor.frozen = seed % 2 == 0 && last > Layer{0} && tensor.layer == last;
  }
  if (seed % 3 == 0) return job;
  job.options.update.non_finite = job::NonFinitePolicy::kApply;
  job.gradient = [seed](std::int32_t worker, Iteration iteration, std::int64_t index) {
    switch (job::testing::mixed(seed + static_cast<std::uint64_t>(worker), static_cast<std::uint64_t>(iteration * 1000 + index)) %
            300) {
      case 0:
        return std::numeric_limits<float>::quiet_NaN();
      case 1:
        return std::numeric_limits<float>::infinity();
      case 2:
      case 3:
      case 4:
        return std::numeric_limits<float>::max();
      default:
        return job::testing::gradient_element(seed, worker, iteration, index);
    }
  };
  return job;
}

TEST(System, BringsMeansAndVerdictsOfPlainLoopsForEveryScheduleAndOrderOfMessages) {
  std::int64_t verdicts = 0, early = 0;
  for (std::uint64_t seed = 1; seed <= 600; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Case job = random_mean_case(seed);
    System system(job);
    system.run();
    if (HasFailure()) return;
    expect_reference_everywhere(system, job);
    if (HasFailure()) return;
    verdicts += system.verdicts_checked;
    early += system.early_verdicts;
  }
  EXPECT_GT(verdicts, 1000);
  EXPECT_GT(early, 100) << "means wait for nothing, and neither does the verdict";
}

Case with_nan(job::NonFinitePolicy policy, std::int32_t servers, std::uint64_t seed) {
  Case job;
  job.seed = seed;
  job.table = job::testing::table_of({{10}, {10, 3}, {10}});
  job.options.workers = 3;
  job.options.servers = servers;
  job.options.update.non_finite = policy;
  job.options.update.optimizer.kind = tensor::OptimizerKind::kMomentum;
  job.iterations = 4;
  job.gradient = [seed](std::int32_t worker, Iteration iteration, std::int64_t index) {
    if (worker == 1 && iteration == 2 && index == 12) return std::numeric_limits<float>::quiet_NaN();
    return job::testing::gradient_element(seed, worker, iteration, index);
  };
  return job;
}

TEST(System, StopsAtANonFiniteGradientAndNamesWorkerLayerAndIteration) {
  for (std::int32_t servers = 1; servers <= 3; ++servers) {
    System system(with_nan(job::NonFinitePolicy::kStop, servers, 8));
    system.run();
    ASSERT_FALSE(HasFailure());
    ASSERT_EQ(system.stops.size(), 1U);
    EXPECT_EQ(system.stops[0].kind(), ErrorKind::kCorrupt);
    for (const char* part : {"worker 1", "layer 1 \"layer1\"", "iteration 2", "element 2 is nan"}) {
      EXPECT_NE(system.stops[0].message().find(part), std::string::npos) << system.stops[0].message();
    }
  }
}

TEST(System, SkipsAnIterationWithANonFiniteGradientOnAllServers) {
  for (std::int32_t servers = 1; servers <= 3; ++servers) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const Case job = with_nan(job::NonFinitePolicy::kSkip, servers, seed);
      System system(job);
      system.run();
      ASSERT_FALSE(HasFailure());
      expect_reference_everywhere(system, job);
      EXPECT_TRUE(same_bits(system.history_[1], system.history_[2]));
      EXPECT_EQ(system.skips.size(), static_cast<std::size_t>(servers));
      EXPECT_EQ(std::ranges::count_if(system.skips,
                                      [](const Status& skip) { return skip.message().find("worker 1") != std::string::npos; }),
                1);
      ASSERT_FALSE(HasFailure());
    }
  }
}

TEST(System, CompletesEveryIterationOnceAndInOrder) {
  Case job = random_case(3);
  job.options.sync.kind = sync::SyncKind::kBsp;
  job.options.servers = 1;
  job.iterations = 5;
  System system(job);
  system.run();
  ASSERT_FALSE(HasFailure());
  std::vector<Iteration> expected(5);
  std::iota(expected.begin(), expected.end(), job.options.first);
  EXPECT_EQ(system.completed, expected);
}

}  // namespace
}  // namespace paceline::paramserver
